"""A million calls against one sidecar: `make soak`."""

"""What memory-sidecar costs, beside the peers that people use: `make bench`, or `python -m bench --help`."""

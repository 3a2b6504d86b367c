module memory-sidecar-harness

go 1.22

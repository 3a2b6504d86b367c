"""Beside the real implementation in Go, built from its public repository: `python -m tests.reference`."""

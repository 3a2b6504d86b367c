"""Private, durable memory for agents: a stdio sidecar that one trusted harness launches.

Import `memory_sidecar.harness` to launch it from Python. This module imports only what tells apart the systems that it
can run on, so that `python -m memory_sidecar serve` pays only for what it uses.
"""

try:
    import fcntl as _fcntl  # noqa: F401 - what tells these systems from the others
except ImportError as error:
    raise ImportError(
        "memory-sidecar runs on Linux, macOS and other POSIX systems, not here; on Windows use it within WSL"
    ) from error

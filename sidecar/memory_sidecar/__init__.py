"""Private, durable memory for agents: a stdio sidecar that one trusted harness launches.

Import `memory_sidecar.harness` to launch it from Python. This module imports only what tells apart the systems that it
can run on, so that `python -m memory_sidecar serve` pays only for what it uses.

Raises:
    ImportError: this system is none of them, as Windows. The program itself ends with status 78 and the same sentence.
"""

try:
    import fcntl as _fcntl  # noqa: F401 - what tells these systems from the others
except ImportError as error:
    import os
    import sys

    _REFUSED = "memory-sidecar runs on Linux, macOS and other POSIX systems, not here; on Windows use it within WSL"
    # While `python -m` looks for a module, that is its first word; else it is the script that pip made, with or
    # without ".exe". Both import this package before any line of theirs could catch an error.
    if sys.argv[0] == "-m" or os.path.basename(sys.argv[0]).startswith("memory-sidecar"):
        sys.stderr.write("memory-sidecar: " + _REFUSED + "\n")
        raise SystemExit(78) from None
    raise ImportError(_REFUSED) from error

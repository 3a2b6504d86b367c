"""`memory-sidecar` and `python -m memory_sidecar`: the same program."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())

"""Serve a store of your own, with everything else as it is: a program that a harness launches like `memory-sidecar`.

    if __name__ == "__main__":
        sys.exit(serve(OwnStore("sqlite", SqliteOptions, open_sqlite)))

The harness launches it with its own command line in front: `MemorySidecar.launch(command=[sys.executable, "mine.py"])`.
It takes the options of `memory-sidecar serve`, refuses any other, and reads the same configuration: `read_only`, the
journals, the lockdown and `options` (decoded strictly into the type that you name) hold as for a backend of ours.
Check your backend with `memory_sidecar.testing`. examples/sqlite_store.py is a whole one.
"""

import argparse
import sys
from collections.abc import Sequence

from .backend.opened import BackendError
from .backend.own import OpenedStore, OwnStore
from .cli.serve import configure, quick, serve_harness

__all__ = ["BackendError", "OpenedStore", "OwnStore", "serve"]


def serve(own: OwnStore, words: Sequence[str] | None = None) -> int:
    """Serve the harness that started this process from `own`, and return the exit status (as `memory-sidecar serve`).

    `words` are the command line's, without the program; those of this process if None. A leading `serve` is allowed.
    """
    given = list(sys.argv[1:] if words is None else words)
    if given[:1] == ["serve"]:
        del given[0]
    options = quick(given)
    if options is None:
        parser = argparse.ArgumentParser(allow_abbrev=False)
        configure(parser)
        try:
            options = vars(parser.parse_args(given))
        except SystemExit as end:
            return 64 if end.code else 0
    return serve_harness(options, own)

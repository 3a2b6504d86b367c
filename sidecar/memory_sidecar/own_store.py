"""A store of your own, with everything else as it is: a program that is launched and used like `memory-sidecar`.

    if __name__ == "__main__":
        sys.exit(main(OwnStore("sqlite", SqliteOptions, open_sqlite)))

The harness launches it with its own command line in front: `MemorySidecar.launch(command=[sys.executable, "mine.py"])`.
It has the commands and options of `memory-sidecar`, refuses any other, and reads the same configuration: `read_only`,
the journals, the lockdown and `options` (decoded strictly into the type that you name) hold as for a backend of ours.
Check your backend with `memory_sidecar.testing`. docs/own-store.md tells how, and examples/sqlite_store.py is a whole
one.
"""

import sys
from collections.abc import Sequence

from .backend.choose import bring
from .backend.description import Fact, fact, guarded
from .backend.opened import BackendError, NotMadeError
from .backend.own import OpenedStore, OpenedStores, OwnStore, row
from .backend.row import Place
from .cli import COMMANDS
from .cli import main as command_line
from .cli.shared import remedy

__all__ = [
    "BackendError",
    "Fact",
    "NotMadeError",
    "OpenedStore",
    "OpenedStores",
    "OwnStore",
    "Place",
    "fact",
    "guarded",
    "main",
]


def main(own: OwnStore, words: Sequence[str] | None = None) -> int:
    """Run one command of `memory-sidecar` with `own` among the backends, and return its exit status.

    `words` are the command line's, without the program; those of this process if None. Without a command they are
    those of `serve`. A harness is served from `own` and from no other backend. Called once in a process.

    Raises:
        BackendError: the store has the name of another backend.
    """
    bring(row(own))
    remedy.PROGRAM[:] = [sys.executable, sys.argv[0]]
    given = list(sys.argv[1:] if words is None else words)
    if not given or (given[0] not in COMMANDS and given[0] not in ("-h", "--help", "--version")):
        given.insert(0, "serve")
    return command_line(given)

"""`runs`: one line a run, as they are read, so that memory is flat however many there are.

How runs that are over stood is kept in the user's cache directory, for the next listing.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ...exits import EX_FOUND
from ...run.standings import Listed, listed
from ...system.digest import digest
from ..shared.failure import complain
from ..shared.journals import cannot_read, directories, told
from ..shared.report import moment, on_terminal, print_json_list, print_table
from .where import told_identity

if TYPE_CHECKING:
    from ...run.ledger import Journaled

__all__ = ["row", "run"]


def run(arguments: argparse.Namespace) -> int:
    where = directories(vars(arguments))
    identity = told_identity(arguments, where)
    unusable: list[Journaled] = []
    count = 0

    def found() -> Iterator[Listed]:
        nonlocal count
        for directory in where:
            try:
                for one in listed(directory, identity, _cache(directory)):
                    count += 1
                    if one.unusable is not None:
                        unusable.append(one.unusable)
                    yield one
            except OSError as error:
                raise cannot_read(directory, error) from error

    if arguments.json:
        print_json_list("runs", map(row, found()))
    else:
        rows = map(_cells, found())
        print_table(("RUN", "STATE", "IDENTITY", "CREATED (UTC)", "UPDATED (UTC)", "KEYS"), rows, styled=1)
        if not count and on_terminal():
            of = f" of {identity}" if identity is not None else ""
            print(f"There are no runs{of} in {', '.join(where)}.")
    for one in unusable:
        complain(told(one))
    return EX_FOUND if unusable else 0


def _cache(directory: str) -> str | None:
    """Where it is kept how the runs in `directory` stood; None if this user has no cache directory."""
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(base):  # the XDG specification: a relative path is to be ignored
        base = os.path.expanduser("~/.cache")
    if not os.path.isabs(base):
        return None
    name = digest(os.fsencode(os.path.realpath(directory)))
    return os.path.join(base, "memory-sidecar", f"runs-{name}")


def _cells(one: Listed) -> Sequence[str]:
    run, state, identity, created, updated, held, _ = one
    return run, state, identity, moment(created), moment(updated), str(held)


def row(one: Listed) -> dict[str, Any]:
    """A run for programs."""
    names = ("run", "state", "identity", "created", "updated")
    value = {name: getattr(one, name) for name in names} | {"keys": one.held}
    return value | ({"problem": one.unusable.problem} if one.unusable is not None else {})

"""`runs`: one line a run, as they are read, so that memory is flat however many there are.

How runs that are over stood is kept in the user's cache directory, for the next listing.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from typing import Any

from ...exits import EX_FOUND
from ...run.ledger import Journaled
from ...run.standings import listed
from ...system.digest import digest
from ..shared.failure import complain
from ..shared.journals import cannot_read, directories, told
from ..shared.report import moment, on_terminal, print_json_list, print_table
from .where import identity_of

__all__ = ["row", "run"]


def run(arguments: argparse.Namespace) -> int:
    where = directories(vars(arguments))
    unusable: list[Journaled] = []
    count = 0

    def found() -> Iterator[Journaled]:
        nonlocal count
        identity = identity_of(arguments)
        for directory in where:
            try:
                for one in listed(directory, identity, _cache(directory)):
                    count += 1
                    if one.problem:
                        unusable.append(one)
                    yield one
            except OSError as error:
                raise cannot_read(directory, error) from error

    if arguments.json:
        print_json_list("runs", map(row, found()))
    else:
        rows = map(_cells, found())
        print_table(("RUN", "STATE", "IDENTITY", "CREATED (UTC)", "UPDATED (UTC)", "KEYS"), rows, styled=1)
        if not count and on_terminal():
            print(f"There are no runs in {', '.join(where)}.")
    for one in unusable:
        complain(told(one, vars(arguments)))
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


def _cells(one: Journaled) -> Sequence[str]:
    return one.run, one.state, one.identity, moment(one.created), moment(one.updated), str(one.held)


def row(one: Journaled) -> dict[str, Any]:
    """A run for programs."""
    names = ("run", "state", "identity", "created", "updated")
    value = {name: getattr(one, name) for name in names} | {"keys": one.held}
    return value | ({"problem": one.problem} if one.problem else {})

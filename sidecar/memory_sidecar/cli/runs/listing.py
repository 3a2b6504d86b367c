"""`runs`: one line a run, as they are read, so that memory is flat however many there are."""

import argparse
from collections.abc import Iterator, Sequence
from typing import Any

from ...exits import EX_FOUND
from ...run.ledger import Journaled
from ..shared.failure import complain
from ..shared.journals import all_journals, directories, told
from ..shared.report import moment, on_terminal, print_json_list, print_table
from .where import identity_of

__all__ = ["row", "run"]


def run(arguments: argparse.Namespace) -> int:
    where = directories(vars(arguments))
    unusable: list[Journaled] = []
    count = 0

    def found() -> Iterator[Journaled]:
        nonlocal count
        for one in all_journals(where, identity_of(arguments)):
            count += 1
            if one.problem:
                unusable.append(one._replace(data=b""))
            yield one

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


def _cells(one: Journaled) -> Sequence[str]:
    return one.run, one.state, one.identity, moment(one.created), moment(one.updated), str(one.held)


def row(one: Journaled) -> dict[str, Any]:
    """A run for programs."""
    names = ("run", "state", "identity", "created", "updated")
    value = {name: getattr(one, name) for name in names} | {"keys": one.held}
    return value | ({"problem": one.problem} if one.problem else {})

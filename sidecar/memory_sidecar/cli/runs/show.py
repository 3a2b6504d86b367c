"""`runs show RUN`: what one run did. Reads that one journal, however many there are.

Of a damaged journal it prints the records that are whole in themselves, says so, and exits with 1.
"""

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...exits import EX_FOUND, EX_USAGE
from ...plain import visible
from ...run.directory import identities, identity_directory
from ...run.kinds import KINDS
from ...run.ledger import Journaled, journal
from ...run.replay import DamagedError
from ...run.standings import as_listed
from ...run.terms import is_run_id, journal_name
from ..shared.failure import Failure, complain
from ..shared.journals import cannot_read, directories, remedy
from ..shared.remedy import command
from ..shared.report import moment, print_json, print_table, shown_revision
from .listing import row
from .where import identity_of

if TYPE_CHECKING:
    from ...run.columns import Record

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    run_id = arguments.id
    if not is_run_id(run_id):
        raise Failure("a run id is 1 to 128 letters, digits, _ and -, starting with a letter or digit", status=EX_USAGE)
    one = _journal(arguments, run_id)
    records: Sequence[Record] = ()
    try:
        records = one.records()
    except DamagedError as error:
        one = one._replace(state=error.state, problem=f"is damaged, {error}")
    missing: list[int] = []
    if one.problem:
        records, missing = one.sound() if one.state == DamagedError.state else ([], [])
        problem = f"the journal {one.path} {one.problem}\n{remedy(one)}"
        if not records:
            raise Failure(problem)
        shown = ", ".join(map(str, missing[:10])) + (", ..." if len(missing) > 10 else "")
        lost = f"without what stood on line {shown}" if missing else "whose order is not what a run writes"
        complain(f"{problem}\nshown are the records that are whole in themselves, {lost}")
    status = EX_FOUND if one.problem else 0
    if arguments.json:
        damage = {"problem": one.problem, "missing_lines": missing} if one.problem else {}
        print_json(row(as_listed(one)) | {"store": one.store, **damage, "records": list(records)})
        return status
    first = records[0] if records[0]["type"] == "meta" else {}
    for label, value in (
        ("run", one.run),
        ("state", one.state),
        ("identity", one.identity),
        ("tools", ", ".join(first.get("tools", ()))),
        ("lockdown", first.get("lockdown", "")),
        ("hosts", ", ".join(one.hosts()) if one.standing is not None else ""),
        ("created", f"{moment(one.created)} UTC" if one.created else ""),
        ("updated", f"{moment(one.updated)} UTC" if one.updated else ""),
        ("not whole", f"before {moment(one.forgotten)} UTC" if one.forgotten else ""),
    ):
        if value:
            print(f"{label:<10} {visible(value, lines=False)}")
    print()
    print_table(
        ("TIME (UTC)", "WHAT", "KEY", "REVISION", "MORE"),
        [
            (moment(record[kind.time]), told.what, told.key, shown_revision(told.revision), told.more)
            for record in records
            if (told := (kind := KINDS[record["type"]]).told(record)) is not None
        ],
        styled=1,
    )
    return status


def _journal(arguments: argparse.Namespace, run_id: str) -> Journaled:
    """The one journal of that run.

    Raises:
        Failure: there is none, or one each of several identities.
    """
    wanted = identity_of(arguments)
    where = directories(vars(arguments))
    found: list[Journaled] = []
    for directory in where:
        try:
            own = [wanted] if wanted is not None else identities(directory)
        except OSError as error:
            raise cannot_read(directory, error) from error
        places = [*((identity_directory(directory, name), name) for name in own), (directory, None)]
        # What is a directory there is an identity's.
        present = [place for place in places if place[1] is not None or not _is_directory(directory, run_id)]
        found += [one for place, name in present if (one := journal(place, run_id, name)) is not None]
    found = [one for one in found if not one.older or wanted is None or one.identity in ("", wanted)]
    if not found:
        listed = command(vars(arguments), "runs")
        raise Failure(f"there is no run {run_id} in {', '.join(where)}", f"see {listed}")
    if len(found) > 1:
        several = ", ".join(f"{one.identity or 'unknown'} ({one.path})" for one in found)
        raise Failure(f"several runs are called {run_id}: {several}", "name one with --identity or --journal-dir")
    return found[0]


def _is_directory(directory: str, run_id: str) -> bool:
    return os.path.isdir(os.path.join(directory, journal_name(run_id)))

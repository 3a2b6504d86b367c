"""List runs, show what one did, prune old ones, and tell which runs saw a note.

  memory-sidecar runs                         all runs whose journals are in the journal directory
  memory-sidecar runs show RUN                what it read, wrote and was refused, when
  memory-sidecar runs prune --older-than 30d  remove journals, never one that is open
  memory-sidecar runs --saw KEY[@REV]         which runs met the note, at which revision

States: open (a living process has it), suspended, completed, error, budget, max_iterations (how it ended),
interrupted (its process died; it can be resumed). Of journals that cannot be used, which are named with what to do:
damaged, empty (no record in it is whole), newer (a newer version wrote it), blocked (it is no file).

--saw answers the question after a poisoned note was found, in two tables. First the runs that met this very note: read,
created, updated, deleted it; were shown its description as creating what exists was refused; were refused it (an
overwrite, or what the run knew was void); wrote or deleted it with an outcome that is unknown; or held authority that
their harness handed in. Then the runs that were shown all descriptions at once, by the index at their start or by
memory_list, from when to when: whoever listed while the note was stored has seen its description. Both are of every
memory whose runs lie in this journal directory; with --identity or --config, of that memory alone, if it is in files.

The journal of a run with a very long history keeps the newest of it. If --json is given, "complete" is false when a
journal could not be read, or may have told of the note in what it does not keep.

Exit statuses: 0 done; 1 a journal cannot be used or is not kept whole, so that the answer may lack a run, there is no
journal at all, or no such run; 64 wrong usage; 78 the journal directory or the configuration cannot be used.
"""

import argparse
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ...assemble import default_journal_dir, settle
from ...backend.choose import backend_of
from ...backend.opened import BackendError
from ...exits import EX_CONFIG, EX_FOUND, EX_USAGE
from ...plain import visible
from ...run.columns import is_run_id
from ...run.journal import journal_name
from ...run.kinds import KINDS, REASONS, moment
from ...run.runs import RunState, remove_run, run_names
from ...store.rules import is_key
from ..shared.failure import Failure, complain, in_steps, stopped_status
from ..shared.memory import opened
from ..shared.places import PLACES, add_options, places
from ..shared.remedy import command
from ..shared.report import add_json, on_terminal, print_json, print_table, shown_revision
from .ledger import (
    Journaled,
    Listing,
    Sight,
    Sought,
    is_complete,
    is_revision,
    listings,
    may_have_forgotten,
    read_journals,
    sights,
)

__all__ = ["configure", "journal_directory", "listed", "print_sights", "run", "seen"]

_STATES: Final = (*REASONS, "interrupted", "empty", "damaged", "newer")
_PRECIOUS: Final = ("damaged", "newer")
"""What may still be restored or read: it goes only when it is named."""
_UNITS: Final = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, PLACES)
    add_json(parser)
    parser.add_argument(
        "--saw", metavar="KEY[@REV]", type=_sought, help="which runs met this note, or were shown all descriptions"
    )
    parser.set_defaults(action=None)
    actions = parser.add_subparsers(metavar="show | prune")
    show = actions.add_parser("show", help="what one run did", description="Show what one run did, oldest first.")
    show.add_argument("id", metavar="RUN")
    show.set_defaults(action="show")
    prune = actions.add_parser(
        "prune",
        help="remove journals of runs that are over",
        description="Remove journals: with them goes the authority to resume, and what the ledger tells of their runs. "
        "Never one that is open. Both conditions, if given, must hold; damaged ones, and those of a newer version, go "
        "only by their --state.",
    )
    prune.add_argument("--older-than", metavar="AGE", type=_age, help="unused for so long: 45m, 12h, 30d, 4w")
    prune.add_argument("--state", choices=_STATES, action="append", help="in this state; may be repeated")
    prune.add_argument("--dry-run", action="store_true", help="tell what would go; remove nothing")
    prune.set_defaults(action="prune")
    for action in (show, prune):
        add_options(action, PLACES)
        add_json(action)
        for option in action._actions:  # noqa: SLF001 - or an option before the action would be forgotten
            if option.dest in ("config", "identity", "store_dir", "journal_dir", "json"):
                option.default = argparse.SUPPRESS


def _sought(text: str) -> Sought:
    key, at, revision = text.partition("@")
    if not is_key(key):
        raise argparse.ArgumentTypeError("it takes KEY or KEY@REV, as memory-sidecar show prints them")
    if at and not is_revision(revision):
        # "No run met it" must never be the answer to a revision that no note can have.
        raise argparse.ArgumentTypeError(
            "after @ comes a revision as memory-sidecar show prints it: of a file 8 to 32 of 0-9 a-f, "
            "of a bucket NUMBER or NUMBER@MARK"
        )
    return Sought(key, revision if at else None)


def _age(text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if found is None:
        raise argparse.ArgumentTypeError("an age is a number and m, h, d or w, as in 30d")
    return int(found[1]) * _UNITS[found[2]]


def run(arguments: argparse.Namespace) -> int:
    directory, identity = _place(arguments)
    if arguments.action == "prune":
        return _prune(arguments, directory, identity)
    if arguments.action == "show":
        return _show(arguments, directory)
    if arguments.saw is not None:
        if not os.path.isdir(directory):
            # "Nobody saw it" must never be the answer to a misspelt directory.
            raise Failure(
                f"there is no journal directory {directory}", "check --journal-dir and --store-dir", status=EX_CONFIG
            )
        # Of every identity: a memory may be shared, and a poisoned note is not its author's matter alone.
        only = _fingerprint(arguments)
        journals = [
            one
            for one in read_journals(directory, given=vars(arguments))
            if only is None or one.problem or only in one.stores
        ]
        return _saw(journals, arguments.saw, only, as_json=arguments.json)
    return _list(read_journals(directory, identity, given=vars(arguments)), directory, as_json=arguments.json)


def journal_directory(arguments: argparse.Namespace) -> str:
    """Where the journals are that these options mean."""
    given = places(vars(arguments))
    return os.path.abspath(given.journal_dir or default_journal_dir(given.store_dir))


def _place(arguments: argparse.Namespace) -> tuple[str, str | None]:
    directory = journal_directory(arguments)
    if os.path.lexists(directory) and not os.path.isdir(directory):
        raise Failure(f"{directory} is not a directory", "check --journal-dir and --store-dir", status=EX_CONFIG)
    _, identity = settle(places(vars(arguments)))
    return directory, identity


def _list(journals: Sequence[Journaled], directory: str, *, as_json: bool) -> int:
    damaged = [journal for journal in journals if journal.problem]
    if as_json:
        print_json({"runs": [_as_json(journal) for journal in journals]})
    elif journals:
        rows = [
            (one.run, one.state, one.identity, moment(one.created), moment(one.updated), str(one.held))
            for one in journals
        ]
        print_table(("RUN", "STATE", "IDENTITY", "CREATED (UTC)", "UPDATED (UTC)", "KEYS"), rows, styled=1)
    elif on_terminal():
        print(f"There are no runs in {directory}.")
    _tell_damage(damaged)
    return EX_FOUND if damaged else 0


def _as_json(journal: Journaled) -> dict[str, Any]:
    names = ("run", "state", "identity", "created", "updated")
    value = {name: getattr(journal, name) for name in names} | {"keys": journal.held}
    return value | ({"problem": journal.problem} if journal.problem else {})


def _tell_damage(damaged: Sequence[Journaled], sought: Sought | None = None) -> None:
    for journal in damaged:
        mentions = sought is not None and f'"{sought.key}"'.encode() in journal.raw
        complain(
            f"run {journal.run}: its journal {journal.problem}"
            + ("; it mentions this key" if mentions else "")
            + f"\n  {journal.remedy}"
        )


# --- show ------------------------------------------------------------------------------------------------------


def _show(arguments: argparse.Namespace, directory: str) -> int:
    run_id = arguments.id
    if not is_run_id(run_id):
        raise Failure("a run id is 1 to 128 letters, digits, _ and -, starting with a letter or digit", status=EX_USAGE)
    found = [journal for journal in read_journals(directory, given=vars(arguments)) if journal.run == run_id]
    if not found:
        raise Failure(f"there is no run {run_id} in {directory}", f"see {command(vars(arguments), 'runs')}")
    journal = found[0]
    if journal.problem:
        raise Failure(f"the journal {directory}/{journal_name(run_id)} {journal.problem}\n{journal.remedy}")
    if arguments.json:
        print_json(_as_json(journal) | {"store": journal.store, "records": list(journal.records)})
        return 0
    first = journal.records[0]
    for label, value in (
        ("run", journal.run),
        ("state", journal.state),
        ("identity", journal.identity),
        ("tools", ", ".join(first["tools"])),
        ("lockdown", first.get("lockdown", "")),
        ("created", f"{moment(journal.created)} UTC"),
        ("updated", f"{moment(journal.updated)} UTC"),
        ("not whole", f"before {moment(journal.forgotten)} UTC" if journal.forgotten else ""),
    ):
        if value:
            print(f"{label:<10} {visible(value, lines=False)}")
    print()
    print_table(
        ("TIME (UTC)", "WHAT", "KEY", "REVISION", "MORE"),
        [
            (moment(record[kind.time]), told.what, told.key, shown_revision(told.revision), told.more)
            for record in journal.records
            if (told := (kind := KINDS[record["type"]]).told(record)) is not None
        ],
        styled=1,
    )
    return 0


# --- saw -------------------------------------------------------------------------------------------------------


def seen(journals: Sequence[Journaled], sought: Sought) -> list[Sight]:
    """Every time that a run met the note, oldest first; within a run as it happened, even if the clock was put back."""
    found = []
    for journal in journals:
        latest = ""
        for sight in sights(journal, sought):
            latest = max(latest, sight.time)
            found.append((latest, sight))
    return [sight for _, sight in sorted(found, key=lambda placed: placed[0])]


def print_sights(
    found: Sequence[Sight], journals: Sequence[Journaled], sought: Sought, only: str | None = None
) -> None:
    """Both tables, then which journals leave the answer open. `only` is the store whose listings matter, if known."""
    states = {journal.run: journal.state for journal in journals}
    if found:
        print_table(
            ("TIME (UTC)", "WHAT", "REVISION", "RUN", "STATE", "IDENTITY"),
            [
                (moment(one.time), one.what, shown_revision(one.revision), one.run, states[one.run], one.identity)
                for one in found
            ],
            styled=1,
        )
    else:
        count = len(journals)
        print(f"No run met this very note, as far as {count} {'journal tells' if count == 1 else 'journals tell'}.")
    _print_listings(journals, states, only)
    _tell_damage([journal for journal in journals if journal.problem], sought)
    for journal in journals:
        if may_have_forgotten(journal, sought):
            complain(
                f"run {journal.run} may have met it before {moment(journal.forgotten)} UTC: not all of that is kept"
            )


def listed(journals: Sequence[Journaled], only: str | None) -> list[Listing]:
    """The runs that were shown all descriptions: of the store `only`, if it is given."""
    return [one for one in listings(journals) if only is None or only in one.stores]


def _print_listings(journals: Sequence[Journaled], states: Mapping[str, str], only: str | None) -> None:
    found = listed(journals, only)
    if not found:
        print("\nNo run was shown a listing.")
        return
    print("\nShown all descriptions of that time, in the index or by memory_list:")
    print_table(
        ("FIRST (UTC)", "LAST (UTC)", "TIMES", "RUN", "STATE", "IDENTITY"),
        [
            (moment(one.first), moment(one.last), str(one.times or "many"), one.run, states[one.run], one.identity)
            for one in found
        ],
        styled=4,
    )


def _fingerprint(arguments: argparse.Namespace) -> str | None:
    """The store of the memory that the options name; None if they name none, or none that is in files here."""
    given = places(vars(arguments))
    if given.identity is None and given.config is None:
        return None
    try:
        if backend_of(settle(given)[0]) != "file":
            return None  # which bucket it is only its broker tells
        with opened(given) as memory:
            return memory.fingerprint
    except (Failure, BackendError):
        return None


def _saw(journals: Sequence[Journaled], sought: Sought, only: str | None, *, as_json: bool) -> int:
    found = seen(journals, sought)
    damaged = [journal for journal in journals if journal.problem]
    if as_json:
        print_json(
            {
                "key": sought.key,
                "revision": sought.revision,
                "journals": len(journals),
                "complete": is_complete(journals, sought),
                "seen": [sight._asdict() for sight in found],
                "listed": [one._asdict() for one in listed(journals, only)],
                "damaged": [{"run": journal.run, "problem": journal.problem} for journal in damaged],
            }
        )
    else:
        print_sights(found, journals, sought, only)
    if not journals:
        complain("there is no journal to answer from; check --store-dir, --journal-dir and --identity")
    return 0 if journals and is_complete(journals, sought) else EX_FOUND


# --- prune -----------------------------------------------------------------------------------------------------


def _prune(arguments: argparse.Namespace, directory: str, identity: str | None) -> int:
    if arguments.older_than is None and not arguments.state:
        raise Failure(
            "prune what?", "give --older-than AGE, --state STATE, or both; --dry-run shows it first", status=EX_USAGE
        )
    limit = None if arguments.older_than is None else time.time() - arguments.older_than
    only = (
        None
        if identity is None
        else {journal.run for journal in read_journals(directory, identity, given=vars(arguments))}
    )

    def wanted(state: RunState) -> bool:
        if arguments.state and state.state not in arguments.state:
            return False
        if state.state in _PRECIOUS and state.state not in (arguments.state or ()):
            return False
        return limit is None or _last_used(directory, state) < limit

    removed: list[RunState] = []
    problems: list[str] = []
    status = EX_FOUND
    try:
        with in_steps() as stop_here:
            for name in run_names(directory):
                stop_here()
                if only is None or name in only:
                    _remove(directory, name, wanted, arguments.dry_run, removed, problems)
    except KeyboardInterrupt as interrupt:
        status = stopped_status(interrupt)
        problems.append("stopped before all were looked at; run the same command again to go on")
    if arguments.json:
        print_json({"dry_run": arguments.dry_run, "removed": [state._asdict() for state in removed]})
    else:
        if removed:
            print_table(
                ("WOULD GO" if arguments.dry_run else "REMOVED", "STATE", "UPDATED (UTC)"),
                [(state.run, state.state, moment(state.updated)) for state in removed],
            )
        else:
            print("nothing to remove")
    for text in problems:
        complain(text)
    return status if problems else 0


def _remove(
    directory: str,
    name: str,
    wanted: Callable[[RunState], bool],
    dry_run: bool,
    removed: list[RunState],
    problems: list[str],
) -> None:
    try:
        state = remove_run(directory, name, wanted, dry_run=dry_run)
    except OSError as error:
        problems.append(f"run {name} stays: {error.strerror}; check the permissions of {directory}")
    else:
        removed += [state] if state is not None else []


def _last_used(directory: str, state: RunState) -> float:
    if state.updated:
        # The later of the two: where the clock was put back meanwhile, a run was not last used before it was made.
        return max(datetime.fromisoformat(one).astimezone(UTC).timestamp() for one in (state.created, state.updated))
    return os.stat(os.path.join(directory, journal_name(state.run)), follow_symlinks=False).st_mtime

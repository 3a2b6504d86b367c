"""`runs prune`: remove journals of runs that are over. Each is read once, under its lock."""

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from ...exits import EX_FOUND, EX_USAGE
from ...run.directory import identities, identity_directory, run_names
from ...run.retention import WAITING, last_used
from ...run.runs import RunState, remove_run
from ..shared.failure import Failure, complain, in_steps, stopped_status
from ..shared.journals import cannot_read, directories
from ..shared.report import counted, moment, print_json, print_table, progress
from .where import told_identity

__all__ = ["run"]

_PRECIOUS: Final = (*WAITING, "damaged", "newer", "misplaced")
"""What may still go on, or be restored, read or moved: it goes only when it is named."""


class _Place(NamedTuple):
    """A directory of journals, and whose it is; of all identities if that is None, as older versions had it."""

    directory: str
    identity: str | None


class _Removed(NamedTuple):
    identity: str
    state: RunState


def run(arguments: argparse.Namespace) -> int:
    if arguments.older_than is None and not arguments.state:
        raise Failure(
            "prune what?", "give --older-than AGE, --state STATE, or both; --dry-run shows it first", status=EX_USAGE
        )
    waiting: list[str] = []
    wanted = _condition(arguments, waiting)
    where = directories(vars(arguments))
    only = told_identity(arguments, where)
    removed: list[_Removed] = []
    problems: list[str] = []
    status = EX_FOUND
    try:
        with in_steps() as stop_here:
            places = list(_places(where, only))
            with progress("looking at journals", sum(len(run_names(place.directory)) for place in places)) as bar:
                for place in places:
                    for name in run_names(place.directory):
                        stop_here()
                        _remove(place, only, name, wanted, arguments.dry_run, removed, problems)
                        bar.advance()
    except KeyboardInterrupt as interrupt:
        status = stopped_status(interrupt)
        problems.append("stopped before all were looked at; run the same command again to go on")
    if arguments.json:
        rows = [one.state._asdict() | {"identity": one.identity} for one in removed]
        print_json({"dry_run": arguments.dry_run, "removed": rows})
    elif removed:
        print_table(
            ("WOULD GO" if arguments.dry_run else "REMOVED", "STATE", "IDENTITY", "UPDATED (UTC)"),
            [(one.state.run, one.state.state, one.identity, moment(one.state.updated)) for one in removed],
        )
    else:
        print("nothing to remove")
    if waiting:
        complain(
            f"{counted(len(waiting), 'run')} as old may still be resumed and stay; to remove them too, "
            + " ".join(f"--state {state}" for state in sorted(set(waiting)))
        )
    for text in problems:
        complain(text)
    return status if problems else 0


def _condition(arguments: argparse.Namespace, waiting: list[str]) -> Callable[[str, RunState], bool]:
    """Whether the run, whose journal is in a directory, shall go.

    The states of those that stay because they may still be resumed are added to `waiting`.
    """
    limit = None if arguments.older_than is None else time.time() - arguments.older_than
    named = arguments.state or ()

    def wanted(directory: str, state: RunState) -> bool:
        if named and state.state not in named:
            return False
        old = limit is None or last_used(directory, state) < limit
        if state.state in _PRECIOUS and not named:
            waiting.extend([state.state] if old and state.state in WAITING else [])
            return False
        return old

    return wanted


def _places(where: list[str], only: str | None) -> Iterator[_Place]:
    for directory in where:
        try:
            own = identities(directory) if only is None else [only]
        except OSError as error:
            raise cannot_read(directory, error) from error
        yield from (_Place(identity_directory(directory, name), name) for name in own)
        yield _Place(directory, None)


def _remove(
    place: _Place,
    only: str | None,
    name: str,
    wanted: Callable[[str, RunState], bool],
    dry_run: bool,
    removed: list[_Removed],
    problems: list[str],
) -> None:
    def judged(state: RunState) -> bool:
        # Among the journals of all identities those of another one are not meant.
        return not (place.identity is None and state.state == "misplaced") and wanted(place.directory, state)

    try:
        state = remove_run(place.directory, name, place.identity or only, judged, dry_run=dry_run)
    except OSError as error:
        problems.append(f"run {name} stays: {error.strerror}; check the permissions of {place.directory}")
    else:
        removed += [_Removed(place.identity or only or "", state)] if state is not None else []

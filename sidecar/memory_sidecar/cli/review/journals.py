"""What `doctor` says of journals: where they are, which cannot be used, what an older version left."""

import os
from collections.abc import Mapping
from typing import Final

from ...assemble import Arguments, default_journal_dir
from ...remedy import RemedyError
from ...run.directory import identity_directory
from ...run.ledger import ASIDE, Journaled
from ...run.terms import is_run_id
from ...store.rules import is_key
from ...system import files
from ..shared.failure import Failure
from ..shared.journals import all_journals, remedy
from .check import Check, Checks, wrong
from .directories import check_directory

__all__ = ["check_journals"]


def check_journals(given: Arguments, run_id: str | None, identity: str | None) -> Checks:
    """The checks of the journals that these options mean, and of whether `run_id` can be opened, if it is given."""
    try:
        directory = files.absolute(given.journal_dir or default_journal_dir(given.store_dir))
    except RemedyError as error:
        yield wrong("journal-unusable", "journal", error)
        return
    yield from check_directory("journal", directory, "--journal-dir")
    if os.path.lexists(directory) and not (os.path.isdir(directory) and os.access(directory, os.R_OK | os.X_OK)):
        return
    if identity is not None and is_key(identity) and os.path.lexists(identity_directory(directory, identity)):
        own = check_directory("journal", identity_directory(directory, identity), "--journal-dir")
        yield from (one for one in own if one.code == "directory-unusable")
    states: dict[str, str] = {}
    counts: dict[str, int] = {}
    older: set[str] = set()
    try:
        for one in all_journals([directory]):
            counts[one.state] = counts.get(one.state, 0) + 1
            if not one.older and one.state != ASIDE and identity in (None, one.identity):
                states[one.run] = one.state
            if one.problem:
                mend = remedy(one)
                yield Check(
                    f"journal-{one.state}", "journal", "wrong", f"the journal of run {one.run} {one.problem}", mend
                )
            elif one.saved_anew:
                yield _saved_anew(one)
            elif one.older:
                older.add(one.identity)
                yield from _in_the_way(directory, one)
    except Failure as error:
        yield wrong("journal-unusable", "journal", error)
        return
    shown = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    yield Check("journals", "journal", "ok", f"runs: {shown or 'none yet'}")
    if older:
        yield Check(
            "older-journals",
            "journal",
            "note",
            f"an older version left journals of {', '.join(sorted(older))} in {directory} itself",
            "each agent takes over its own when it next starts",
        )
    if run_id is not None:
        yield _run(run_id, states)


def _saved_anew(one: Journaled) -> Check:
    """That a journal was lost while its run was open, and where its older part may be."""
    directory, name = os.path.split(one.path)
    beside = sorted(other for other in os.listdir(directory) if other.startswith(name) and other != name)
    where = f"it may be in {', '.join(beside)} beside it; " if beside else ""
    return Check(
        "journal-saved-anew",
        "journal",
        "note",
        f"the journal of run {one.run} of {one.identity} was moved, replaced or cut while in use; what it told before "
        f"{one.forgotten} is not in it",
        f"{where}put that as {one.identity}/{name} into another directory and give runs --saw both with --journal-dir; "
        "let no log rotation touch journals",
    )


def _in_the_way(directory: str, one: Journaled) -> Checks:
    """That a journal which an older version left cannot be taken over: its run has another one by now."""
    if not is_key(one.identity):
        yield Check(
            "older-journal-stuck",
            "journal",
            "wrong",
            f"the journal {one.path} is of {one.identity!r}, which cannot be an identity any more",
            "remove it, or start its run anew under another identity",
        )
        return
    newer = os.path.join(identity_directory(directory, one.identity), os.path.basename(one.path))
    if os.path.lexists(newer):
        yield Check(
            "older-journal-stuck",
            "journal",
            "wrong",
            f"run {one.run} of {one.identity} has two journals, {one.path} and {newer}",
            "keep the one that you want to resume there, and move the other away",
        )


_CANNOT_OPEN: Final[dict[str, tuple[str, str]]] = {
    "open": ("is open in another process", "end that one first, or use another run id"),
    "completed": ("has completed and cannot go on", "use another run id"),
    "damaged": ("has a damaged journal", "see the line above"),
    "newer": ("was left by a newer version", "see the line above"),
    "blocked": ("has no file for a journal", "see the line above"),
    "foreign": ("has another program's file for a journal", "see the line above"),
    "misplaced": ("has the journal of another run", "see the line above"),
    "unreadable": ("has a journal that cannot be read", "see the line above"),
}


def _run(run_id: str, states: Mapping[str, str]) -> Check:
    if not is_run_id(run_id):
        return Check(
            "run-unusable",
            "run",
            "wrong",
            f"{run_id!r} is no run id",
            "use 1 to 128 letters, digits, _ and -, starting with a letter or digit",
        )
    state = states.get(run_id, "new")
    if state in _CANNOT_OPEN:
        found, mend = _CANNOT_OPEN[state]
        return Check("run-unusable", "run", "wrong", f"run {run_id} {found}", mend)
    return Check("run", "run", "ok", f"run {run_id} can be opened; it is {state}")

"""Which journals a command's options mean, and what to do about one that cannot be used."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from ...assemble import default_journal_dir
from ...exits import EX_CONFIG
from ...run.directory import identities, identity_directory, run_names
from ...run.ledger import ASIDE, Journaled, journals
from ...run.saw import LeftOut
from ...run.terms import journal_name
from ...system import files
from .failure import Failure
from .places import place, places
from .remedy import quoted
from .report import progress

__all__ = ["all_journals", "cannot_read", "directories", "remedy", "told", "watched"]


def directories(given: Mapping[str, Any]) -> list[str]:
    """The journal directories that these options mean. `journal_dir` may be several, or one, or None.

    Raises:
        StartError: none is known, or one is empty.
        Failure: one is something else.
    """
    named = given.get("journal_dir")
    several = [named] if isinstance(named, str) else named or []
    found = [place("--journal-dir", one) or "" for one in several]
    if not found:
        found = [default_journal_dir(places({"store_dir": given.get("store_dir")}).store_dir)]
    for directory in found:
        if os.path.lexists(directory) and not os.path.isdir(directory):
            raise Failure(
                f"{directory} is not a directory",
                "check --journal-dir and --store-dir",
                status=EX_CONFIG,
            )
    return list(dict.fromkeys(map(files.absolute, found)))


def all_journals(where: Sequence[str], identity: str | None = None) -> Iterator[Journaled]:
    """The journals in all of these directories; of one identity, if given.

    Raises:
        Failure: a directory cannot be read.
    """
    for directory in where:
        try:
            yield from journals(directory, identity)
        except OSError as error:
            raise cannot_read(directory, error) from error


def watched(where: Sequence[str]) -> Iterator[Journaled]:
    """As `all_journals`, with a progress bar where somebody watches.

    Raises:
        Failure: a directory cannot be read.
    """
    try:
        total = sum(len(run_names(own)) for directory in where for own in _directories(directory))
    except OSError as error:
        raise cannot_read(where[0], error) from error
    with progress("reading journals", total) as bar:
        for one in all_journals(where):
            yield one
            bar.advance()


def _directories(directory: str) -> Iterator[str]:
    yield directory
    yield from (identity_directory(directory, name) for name in identities(directory))


def cannot_read(directory: str, error: OSError) -> Failure:
    """That a journal directory, or one of an identity in it, cannot be read."""
    return Failure(
        f"cannot read the journal directory {error.filename or directory}: {error.strerror}",
        "check --journal-dir and its permissions",
        status=EX_CONFIG,
    )


def told(one: Journaled | LeftOut) -> str:
    """What is wrong with a journal, and on a second line what to do."""
    of = f" of {one.identity}" if one.identity else ""
    mend = remedy(one)
    return f"run {one.run}{of}: its journal {one.problem}" + (f"\n  {mend}" if mend else "")


def remedy(one: Journaled | LeftOut) -> str:
    """What to do about a journal that cannot be used; "" of one that can."""
    # That one alone: the others of its state are evidence of what happened, and perhaps of other agents.
    remove = f"rm {quoted(one.path)}"
    away = f"move {quoted(one.path)} away; until then no run of that id can be opened"
    return {
        "blocked": away,
        ASIDE: _put_back(one),
        "foreign": away,
        "newer": "read it with that version",
        "damaged": f"restore it from a copy, or remove this one: {remove}",
        "unreadable": _readable(one.path),
        "empty": f"restore it if there was more in it, or remove this one: {remove}",
        "misplaced": f"move {quoted(one.path)} to where it belongs; or, if it is a copy, remove this one: {remove}",
    }.get(one.state, "")


def _put_back(one: Journaled | LeftOut) -> str:
    """What to do with a journal that was moved or copied."""
    directory = os.path.dirname(one.path)
    if os.path.isdir(one.path):
        return f"if it is not needed, move {quoted(one.path)} out of there; else give it the name that it had"
    if not one.identity or one.run == "unknown":
        return f"move {quoted(one.path)} out of there, or give it the name that it had"
    if not os.path.lexists(os.path.join(directory, journal_name(one.run))):
        back = f"if it is the whole journal, move it back to {journal_name(one.run)} there"
    else:
        back = "if it is a copy of that one, move it out of this directory"
    other = f"put it as {one.identity}/{journal_name(one.run)} into another directory"
    return f"{back}; else {other} and give runs --saw both with --journal-dir. Let no log rotation touch journals"


def _readable(path: str) -> str:
    """What lets this user read the file, if its owner can say so."""
    with suppress(OSError):
        if os.lstat(path).st_uid != os.geteuid():
            return f"let this user read it; it belongs to another: as that one, or root, chmod o+r {quoted(path)}"
    return f"let this user read it: chmod u+r {quoted(path)}"

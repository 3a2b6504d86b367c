"""Where journals lie: `<journal directory>/<identity>/<run>.jsonl`. A run id is a name within its identity.

Older versions kept the journals of all identities in the journal directory itself. `adopt` moves those that are an
identity's own below it; what it leaves is for a person, whom `doctor` tells.
"""

import os
from collections.abc import Callable
from contextlib import suppress

from ..hints import TYPE_CHECKING, Final
from ..store.rules import is_key
from ..system import files, staging
from .terms import RUN_ID, is_run_id, journal_name, stage_name

if TYPE_CHECKING:
    from .columns import Record

__all__ = [
    "adopt",
    "check_listed",
    "directories_aside",
    "identities",
    "identity_directory",
    "names_aside",
    "run_names",
]

_SUFFIX: Final = ".jsonl"

_NOTES: Final = (".tmp-", ".swap-", ".memory-sidecar-")
"""How the files begin that a store of notes makes, where somebody keeps notes and journals in one directory."""

_FIRST: Final = 65536
"""Bytes that hold the first record of any journal: an identity, a run, the names of a few tools."""


def identity_directory(directory: str, identity: str) -> str:
    """Where the journals of `identity` lie below the journal directory. An identity obeys the key rule."""
    return os.path.join(directory, identity)


def identities(directory: str) -> list[str]:
    """The identities that have journals below `directory`, sorted; none if there is no such directory.

    Raises:
        OSError: it cannot be read.
    """
    try:
        with os.scandir(directory) as entries:
            return sorted(entry.name for entry in entries if is_key(entry.name) and entry.is_dir())
    except FileNotFoundError:
        return []


def run_names(directory: str) -> list[str]:
    """The ids that journals in `directory` itself are named after, sorted; none if there is no such directory.

    Raises:
        OSError: the directory cannot be read.
    """
    named = (name.removesuffix(_SUFFIX) for name in _names(directory) if name.endswith(_SUFFIX))
    return sorted(run for run in named if is_run_id(run))


def names_aside(directory: str) -> list[tuple[str, str]]:
    """What lies among the journals in an identity's `directory` and is none: run ids, and the names.

    A journal that was rotated, synchronised, copied or kept by an editor can have any name (`mon.jsonl.1`,
    `mon.1.jsonl`, `.#mon.jsonl`, `mon.bak`), so whatever has another than this program gives counts. The run id is the
    first that stands in the name. Notes, where somebody keeps them in the same directory, are no journals.

    Raises:
        OSError: the directory cannot be read.
    """
    return sorted((_guessed(name), name) for name in _names(directory) if not _is_own(name))


def directories_aside(directory: str) -> list[tuple[str, str]]:
    """What lies beside the directories of identities in the journal directory, and may hold journals of one.

    So does a file manager or an editor leave them (`bot (copy)`, `bot~`). They are told as the identity that was
    probably meant, and the name. A directory counts if a name in it looks like a journal's, or if it cannot be read; a
    file counts if its name looks like a journal's.

    Raises:
        OSError: the journal directory cannot be read.
    """
    found: list[tuple[str, str]] = []
    for name in _names(directory):
        path = os.path.join(directory, name)
        if os.path.isdir(path):
            if not is_key(name) and _holds_journals(path):
                found.append((_guessed(name), name))
        elif _SUFFIX in name and not _is_own(name):
            found.append(("", name))
    return sorted(found)


def _holds_journals(directory: str) -> bool:
    try:
        return any(_SUFFIX in name for name in _names(directory))
    except OSError:
        return True


def _is_own(name: str) -> bool:
    """Whether a journal, its short version in the making, a file of this program or a note can be called so."""
    if name.endswith(_SUFFIX):
        return is_run_id(name.removesuffix(_SUFFIX))
    run = name.removeprefix(".").removesuffix(f"{_SUFFIX}.new")
    # What begins like this and is no run's is of the store of notes that shares the directory.
    return (is_run_id(run) and name == stage_name(run)) or name.endswith(".md") or name.startswith(_NOTES)


def _guessed(name: str) -> str:
    """The first run id, or identity, that stands in a name; "unknown" where there is none."""
    import re

    found = re.search(RUN_ID, name)
    return found[0] if found else "unknown"


def _names(directory: str) -> list[str]:
    """All that lies in it, in any order; none if there is no such directory."""
    try:
        return os.listdir(directory)
    except FileNotFoundError:
        return []


def check_listed(directory: str, run: str, identity: str | None, first: "Record") -> None:
    """Raise `MisplacedError` if what `directory` lists as the journal of `run`, with this first record, is another's.

    A disk may change the case of the names that it was given. There the record says which run it is, as long as the
    disk takes the record's names and the listed ones for the same file.
    """
    from .replay import MisplacedError, check_owner

    try:
        check_owner(first, run, identity)
    except MisplacedError as error:
        own = identity_directory(os.path.dirname(directory), error.identity) if identity else directory
        listed, made = os.path.join(directory, journal_name(run)), os.path.join(own, journal_name(error.run))
        with suppress(OSError):
            if listed.lower() == made.lower() and os.path.samefile(listed, made):
                return
        raise


def adopt(directory: str, own_of: Callable[[str], str | None]) -> None:
    """Move the journals that an older version left in the journal directory to the directories of their identities.

    `own_of` tells the directory of an identity's journals, which is there; None for an identity whose journals stay.
    Only what names its run and such an identity, is open nowhere, and is in nobody's way there is moved. The rest stays
    as it is, and so does what cannot be moved.

    Raises:
        OSError: the directory cannot be read, or what was moved is not known to be on disk.
    """
    directory = os.path.abspath(directory)
    changed = {own for run in run_names(directory) if (own := _adopted(directory, run, own_of)) is not None}
    for each in (*sorted(changed), *([directory] if changed else [])):
        with files.open_directory(each) as opened:
            files.flush(opened)


def _adopted(directory: str, run: str, own_of: Callable[[str], str | None]) -> str | None:
    """Where the journal of `run` was moved to; None if it stays."""
    from .replay import first_record

    path = os.path.join(directory, journal_name(run))
    try:
        descriptor = files.open_regular(path, None)
    except OSError:
        return None
    if descriptor is None:
        return None
    try:
        first = first_record(files.read_up_to(descriptor, _FIRST)) or {}
        whose = first.get("identity") if first.get("run") == run else None
        if not isinstance(whose, str) or (own := own_of(whose)) is None:
            return None
        # Its holder, of an older version, would go on under the old name.
        if not files.try_lock(descriptor) or not os.fstat(descriptor).st_nlink:
            return None
        _move(path, os.path.join(own, journal_name(run)))
    except OSError:
        return None
    finally:
        files.close(descriptor)
    with suppress(OSError):
        os.unlink(os.path.join(directory, stage_name(run)))
    return own


def _move(path: str, target: str) -> None:
    """Give the file at `path` the name `target`, if that is free: never is a journal replaced.

    Raises:
        FileExistsError: it is not.
    """
    with files.open_directory(os.path.dirname(target)) as directory:
        try:
            staging.publish_new(directory, path, os.path.basename(target))
        except FileExistsError:
            if not os.path.samefile(path, target):  # else an earlier attempt ended between the two steps
                raise
    with suppress(FileNotFoundError):  # where it was renamed, as there are no hard links
        os.unlink(path)

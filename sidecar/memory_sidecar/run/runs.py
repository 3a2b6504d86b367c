"""All runs whose journals lie in one directory: what each is called, how it stands, and since when."""

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from ..system import files
from .journal import journal_name, read_journal, stage_name
from .records import is_run_id
from .replay import DamagedError, NewerError, replay

__all__ = ["RunState", "list_runs", "remove_run", "run_names"]

_SUFFIX: Final = journal_name("")


class RunState(NamedTuple):
    """One run. `state` is `open` (a living process has it), `interrupted` (its process died), `damaged`
    (its journal cannot be trusted), or the reason of its ending. Times are RFC 3339 in UTC, "" if unknown.
    """

    run: str
    state: str
    created: str
    updated: str


def list_runs(directory: str) -> list[RunState]:
    """The runs in `directory`, sorted by id; none if there is no such directory.

    Raises:
        OSError: the directory cannot be read.
    """
    return [found for run in run_names(directory) if (found := _state(directory, run)) is not None]


def run_names(directory: str) -> list[str]:
    """The ids that journals in `directory` are named after, sorted; none if there is no such directory.

    Raises:
        OSError: the directory cannot be read.
    """
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    runs = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return sorted(run for run in runs if is_run_id(run))


def remove_run(
    directory: str, run: str, wanted: Callable[[RunState], bool], *, dry_run: bool = False
) -> RunState | None:
    """Remove the run's journal if nobody has it open and it is `wanted` as it is now; None if it was left.

    With `dry_run` it stays, and what is returned tells that it would have gone.

    The journal's lock is held from looking to removing, so that a run which is resumed meanwhile is safe.

    Beside the states of a listing there are `empty` (no record is whole) and `newer` (a newer version wrote it).

    Raises:
        OSError: it cannot be read or removed.
    """
    path = os.path.join(directory, journal_name(run))
    descriptor = files.open_regular(path, None)
    if descriptor is None:
        return None
    try:
        if not files.try_lock(descriptor):
            return None
        status = os.fstat(descriptor)
        try:
            found = replay(files.read_up_to(descriptor, status.st_size))
        except DamagedError as error:
            state = RunState(run, "newer" if isinstance(error, NewerError) else "damaged", "", "")
        else:
            if found is None:
                state = RunState(run, "empty", "", "")
            else:
                state = RunState(run, _ended(found.state), found.created, found.updated)
        if not wanted(state) or not os.path.samestat(status, os.stat(path, follow_symlinks=False)):
            return None
        if dry_run:
            return state
        os.unlink(path)
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(directory, stage_name(run)))
    except FileNotFoundError:
        return None
    finally:
        os.close(descriptor)
    with files.open_directory(directory) as opened:
        files.flush(opened)
    return state


def _state(directory: str, run: str) -> RunState | None:
    try:
        found, is_open = read_journal(os.path.join(directory, journal_name(run)))
    except FileNotFoundError:
        return None
    except (DamagedError, OSError):
        return RunState(run, "damaged", "", "")
    if found is None:
        return None
    return RunState(run, "open" if is_open else _ended(found.state), found.created, found.updated)


def _ended(state: str) -> str:
    return "interrupted" if state == "running" else state

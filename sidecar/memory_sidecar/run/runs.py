"""The runs of one identity: what each is called, how it stands, and since when."""

import os
from collections.abc import Callable
from contextlib import suppress

from ..named_tuple import NamedTuple
from ..system import files
from .directory import check_listed, run_names
from .glance import Standing, glance
from .read import looked_at
from .replay import DamagedError, MisplacedError
from .terms import journal_name, stage_name

__all__ = ["RunState", "list_runs", "remove_run", "state_of"]


class RunState(NamedTuple):
    """One run. `state` is `open` (a living process has it), `interrupted` (its process died), `damaged`
    (its journal cannot be trusted), or the reason of its ending. Times are RFC 3339 in UTC, "" if unknown.
    """

    run: str
    state: str
    created: str
    updated: str


def list_runs(directory: str, identity: str) -> list[RunState]:
    """The runs in `directory`, the one of `identity`, sorted by id; none if there is no such directory.

    A journal of another identity, which somebody put there, is no run of this one.

    Raises:
        OSError: the directory cannot be read.
    """
    return [found for run in run_names(directory) if (found := _state(directory, run, identity)) is not None]


def state_of(state: str, *, is_open: bool) -> str:
    """How a run stands, from what its journal says and whether a living process has it."""
    if is_open:
        return "open"
    return "interrupted" if state == "running" else state


def remove_run(
    directory: str, run: str, identity: str | None, wanted: Callable[[RunState], bool], *, dry_run: bool = False
) -> RunState | None:
    """Remove the run's journal if nobody has it open and it is `wanted` as it is now; None if it was left.

    `directory` is the one of `identity`; None where older versions kept the journals of all identities. With `dry_run`
    it stays, and what is returned tells that it would have gone.

    The journal's lock is held from looking to removing, so that a run which is resumed meanwhile is safe.

    Beside the states of a listing there are `empty` (no record is whole), and the `state` of every `DamagedError`. What
    is no journal (`foreign`) is never removed.

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
            found = glance(files.read_up_to(descriptor, status.st_size))
            state = RunState(run, "empty", "", "") if found is None else _run_state(found, directory, run, identity)
        except DamagedError as error:
            state = RunState(run, error.state, "", "")
        if state.state == "foreign" or not wanted(state):
            return None
        if not os.path.samestat(status, os.stat(path, follow_symlinks=False)):
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


def _run_state(found: Standing, directory: str, run: str, identity: str | None, *, is_open: bool = False) -> RunState:
    check_listed(directory, run, identity, found.first)
    return RunState(found.first["run"], state_of(found.state, is_open=is_open), found.created, found.updated)


def _state(directory: str, run: str, identity: str) -> RunState | None:
    try:
        found, is_open = looked_at(os.path.join(directory, journal_name(run)), glance)
        return None if found is None else _run_state(found, directory, run, identity, is_open=is_open)
    except FileNotFoundError:
        return None
    except MisplacedError as error:
        return RunState(run, "damaged", "", "") if error.identity == identity else None
    except (DamagedError, OSError):
        return RunState(run, "damaged", "", "")

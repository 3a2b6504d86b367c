"""How long journals of runs that are over are kept, where the operator says so at `serve`.

Only runs that have ended for good reason go by themselves: never one that is open, suspended or interrupted, whose
authority somebody may come back for, and never a journal that cannot be read. `runs prune` removes those when told.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Final

from ..observe import log
from .directory import identities, identity_directory, run_names
from .runs import RunState, remove_run
from .terms import REASONS, journal_name

__all__ = ["WAITING", "begin", "last_used", "remove_old"]

WAITING: Final = ("suspended", "interrupted")
"""States of runs that may be meant to go on."""
_OVER: Final = frozenset(REASONS) - frozenset(WAITING)
_AT_ONCE: Final = 1000
"""Journals that one start removes at most. The next one goes on."""


def begin(directory: str, identity: str | None, seconds: float) -> None:
    """Remove old journals on a thread of its own, so that no call waits for it, and the process's end doesn't.

    `directory` is the one of `identity`; if that is None, the one in which each identity has its own.
    """

    def work() -> None:
        try:
            removed = remove_old(directory, identity, seconds)
        except OSError as error:
            log.warning("journals of old runs are not removed", reason=error.strerror)
        else:
            if removed:
                log.info("journals of old runs were removed", count=removed)

    with suppress(RuntimeError):  # no more threads; the next start may have one
        threading.Thread(target=work, name="retention", daemon=True).start()


def remove_old(directory: str, identity: str | None, seconds: float) -> int:
    """Remove the journals of runs that are over and unused for so long; how many those were.

    Raises:
        OSError: a directory cannot be read, or a journal not removed.
    """
    limit = time.time() - seconds
    removed = 0
    for own, name in _places(directory, identity):
        is_old = partial(_is_old, own, limit)
        for run in run_names(own):
            if removed == _AT_ONCE:
                return removed
            # What was written since is not even opened.
            with suppress(FileNotFoundError):
                if os.lstat(os.path.join(own, journal_name(run))).st_mtime < limit:
                    removed += remove_run(own, run, name, is_old) is not None
    return removed


def _places(directory: str, identity: str | None) -> Iterator[tuple[str, str]]:
    if identity is not None:
        yield directory, identity
    else:
        yield from ((identity_directory(directory, name), name) for name in identities(directory))


def _is_old(directory: str, limit: float, state: RunState) -> bool:
    return state.state in _OVER and last_used(directory, state) < limit


def last_used(directory: str, state: RunState) -> float:
    """When the run in `directory` was last used, as a Unix time; of a journal that doesn't tell, as its file says."""
    if state.updated:
        from datetime import UTC, datetime

        # The later of the two: where the clock was put back meanwhile, a run was not last used before it was made.
        return max(datetime.fromisoformat(one).astimezone(UTC).timestamp() for one in (state.created, state.updated))
    return os.stat(os.path.join(directory, journal_name(state.run)), follow_symlinks=False).st_mtime

"""All runs whose journals lie in one directory: what each is called, how it stands, and since when."""

import os
from typing import Final, NamedTuple

from .journal import journal_name, read_journal
from .records import is_run_id
from .replay import DamagedError

__all__ = ["RunState", "list_runs"]

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
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return []
    runs = []
    for name in names:
        run = name.removesuffix(_SUFFIX)
        if name.endswith(_SUFFIX) and is_run_id(run):
            found = _state(directory, run)
            if found is not None:
                runs.append(found)
    return runs


def _state(directory: str, run: str) -> RunState | None:
    try:
        found, is_open = read_journal(os.path.join(directory, journal_name(run)))
    except FileNotFoundError:
        return None
    except (DamagedError, OSError):
        return RunState(run, "damaged", "", "")
    if found is None:
        return None
    state = found.state if found.state != "running" else "interrupted"
    return RunState(run, "open" if is_open else state, found.created, found.updated)

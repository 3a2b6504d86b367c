"""Which journals there are, each as a listing and the ledger (`saw`) need it. Changes nothing.

One journal is in memory at a time, however many there are.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Final

from ..named_tuple import NamedTuple
from ..plain import visible
from .columns import Record, RecordError
from .directory import check_listed, directories_aside, identities, identity_directory, names_aside, run_names
from .glance import Standing, glance, records_of
from .read import looked_at
from .records import decode
from .replay import DamagedError, replay
from .runs import state_of
from .terms import journal_name

__all__ = ["ASIDE", "Journaled", "aside", "journal", "journals", "older_journals"]

ASIDE: Final = "aside"
"""The state of what lies among journals under a name that none has: rotated, copied, synchronised, an editor's."""


class Journaled(NamedTuple):
    """One journal, as far as a listing needs it. If `problem` says why it cannot be used, the rest is unknown."""

    path: str
    run: str
    """As its file is called."""
    identity: str
    """As its first record has it; else that of its directory, or "" in the directory of older journals."""
    state: str
    """As `runs.RunState` has it; of one that cannot be used `empty` (no record is whole), `blocked` (it is no file),
    `unreadable`, `ASIDE`, or the `state` of a `replay.DamagedError`."""
    older: bool = False
    """It lies where older versions kept the journals of all identities."""
    problem: str = ""
    """What is wrong with it, to be read after "its journal"."""
    standing: Standing | None = None
    data: bytes = b""
    """All of it."""

    @property
    def created(self) -> str:
        return "" if self.standing is None else self.standing.created

    @property
    def updated(self) -> str:
        return "" if self.standing is None else self.standing.updated

    @property
    def held(self) -> int:
        return 0 if self.standing is None else self.standing.held

    @property
    def store(self) -> str:
        """Fingerprint of the store that it was in last."""
        return "" if self.standing is None else self.standing.store

    @property
    def forgotten(self) -> str:
        """Until when the journal does not tell all; "" if it does."""
        return "" if self.standing is None else str(self.standing.first.get("forgotten", ""))

    @property
    def saved_anew(self) -> bool:
        """Whether somebody took the file away, or cut it, under its run, which then made it anew."""
        return bool(self.forgotten) and self.standing is not None and "compacted" not in self.standing.first

    def stores(self) -> set[str]:
        """Fingerprints of all stores that the run has been in."""
        return {record["store"] for record in records_of(self.data, ("meta", "resumed"))}

    def hosts(self) -> list[str]:
        """The machines that the run has been on, in the order of its first time there; those that are told."""
        told = (record.get("host") for record in records_of(self.data, ("meta", "resumed")))
        return list(dict.fromkeys(host for host in told if host))

    def records(self) -> Sequence[Record]:
        """All of them, oldest first; none of a journal that cannot be used.

        Raises:
            DamagedError: a listing did not notice what is wrong with it.
        """
        found = None if self.problem else replay(self.data)
        return () if found is None else found.records

    def sound(self) -> tuple[list[Record], list[int]]:
        """The records of a damaged journal that are whole in themselves, and the numbers of the lines that are not.

        What they tell was written by a run; what is missing between them nobody knows.
        """
        good: list[Record] = []
        bad: list[int] = []
        for number, line in enumerate(self.data[: self.data.rfind(b"\n") + 1].splitlines(), 1):
            try:
                good.append(decode(line))
            except RecordError:
                bad.append(number)
        return good, bad

    def mentions(self, key: str) -> bool:
        """Whether the key stands in it, as far as it can be read."""
        return f'"{key}"'.encode() in self.data


# --- which journals there are --------------------------------------------------------------------------------------


def journals(directory: str, identity: str | None = None) -> Iterator[Journaled]:
    """The journals below the journal directory `directory`, by identity and run; of `identity` alone, if given.

    Those of older versions, which lie in the directory itself, come last.

    Raises:
        OSError: the directory, or one of an identity, cannot be read.
    """
    for name in identities(directory) if identity is None else [identity]:
        own = identity_directory(directory, name)
        for run in run_names(own):
            found = journal(own, run, name)
            if found is not None:
                yield found
        yield from aside(own, name)
    yield from older_journals(directory, identity)


def aside(own: str, identity: str) -> Iterator[Journaled]:
    """The journals of `identity` that somebody moved or copied to another name in its directory `own`.

    Nothing reads them: whether one is a part of a journal, the whole of it or a copy is for a person to say.

    Raises:
        OSError: the directory cannot be read.
    """
    for run, name in names_aside(own):
        yield Journaled(
            os.path.join(own, name), run, identity, ASIDE, problem=_ASIDE.format(name=visible(name, lines=False))
        )


_ASIDE: Final = "may also be, or have a part, in {name} beside it, which nothing reads"


def older_journals(directory: str, identity: str | None) -> Iterator[Journaled]:
    """The journals in the journal directory itself, where older versions kept those of all identities.

    After them comes what lies there under a name that neither a journal nor an identity has.
    """
    for run in run_names(directory):
        if not os.path.isdir(os.path.join(directory, journal_name(run))):
            found = journal(directory, run, None)
            if found is not None and (identity is None or found.identity in ("", identity)):
                yield found
    for whose, name in directories_aside(directory):
        if identity is None or whose in ("", identity):
            problem = _ASIDE.format(name=visible(name, lines=False))
            yield Journaled(os.path.join(directory, name), "unknown", whose, ASIDE, older=True, problem=problem)


def journal(directory: str, run: str, identity: str | None) -> Journaled | None:
    """The journal of `run` in `directory`, the one of `identity`, or of older journals if that is None.

    None if there is none, or if its first record is about to be written.
    """
    path = os.path.join(directory, journal_name(run))
    raw: list[bytes] = []

    def look(data: bytes) -> Standing | None:
        raw[:] = [data]
        return glance(data)

    def unusable(state: str, problem: str) -> Journaled:
        data = raw[0] if raw else b""
        return Journaled(path, run, identity or "", state, identity is None, problem, None, data)

    try:
        standing, is_open = looked_at(path, look)
        if standing is not None:
            check_listed(directory, run, identity, standing.first)
    except FileNotFoundError:
        kind = _kind(path)
        return None if kind is None else unusable("blocked", f"is {kind}, not a file")
    except DamagedError as error:
        return unusable(error.state, f"{_PROBLEMS[error.state]}, {error}")
    except OSError as error:
        return unusable("unreadable", f"cannot be read: {error.strerror}")
    if standing is None and is_open:
        return None
    if standing is None:
        return unusable("empty", "holds no whole record: its process died as it began, or it was cut short")
    state = state_of(standing.state, is_open=is_open)
    return Journaled(
        path, standing.first["run"], standing.first["identity"], state, identity is None, "", standing, raw[0]
    )


_PROBLEMS: Final = {
    "damaged": "is damaged",
    "newer": "was written by a newer version",
    "foreign": "is no journal of this program, or its beginning is damaged",
    "misplaced": "is not this run's",
}

_KINDS: Final = {
    stat.S_IFDIR: "a directory",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
}


def _kind(path: str) -> str | None:
    """What has the name of a journal and is no regular file; None if there is nothing of that kind (any more)."""
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
    except FileNotFoundError:
        return None
    return None if kind == stat.S_IFREG else _KINDS.get(kind, "a device")

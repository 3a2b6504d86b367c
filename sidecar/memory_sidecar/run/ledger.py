"""The journals read as a ledger: which run met which note, at which revision, when. Changes nothing.

A journal records, of each note by name, what a run read, wrote, deleted, was refused and was shown the description of.
Listings and the index show the descriptions of all notes at once: of those it records when there was one, not of what.

One journal is in memory at a time, however many there are. What an answer leaves out is in it, by name.
"""

import os
import re
import stat
from collections.abc import Iterator, Sequence
from typing import Final

from ..named_tuple import NamedTuple
from .columns import Record, RecordError
from .compact import meetings
from .directory import identities, identity_directory, journal_name, run_names
from .glance import Standing, glance, records_of
from .read import looked_at
from .records import decode
from .replay import DamagedError, check_owner, replay
from .runs import state_of

__all__ = [
    "Answer",
    "Journaled",
    "LeftOut",
    "Listing",
    "Sight",
    "Sought",
    "is_revision",
    "journal",
    "journals",
    "saw",
]

_REVISION: Final = re.compile(r"[0-9a-f]{8,32}|[1-9][0-9]{0,19}(@[A-Za-z0-9_:.TZ+-]{1,40})?")
"""What may be looked for: a digest, or enough of one to stand for all of it; or a bucket's number, which may be
followed by the mark of its message."""


class Journaled(NamedTuple):
    """One journal, as far as a listing needs it. If `problem` says why it cannot be used, the rest is unknown."""

    path: str
    run: str
    """As its file is called."""
    identity: str
    """As its first record has it; else that of its directory, or "" in the directory of older journals."""
    state: str
    """As `runs.RunState` has it; of one that cannot be used `empty` (no record is whole), `blocked` (it is no file),
    `unreadable`, or the `state` of a `replay.DamagedError`."""
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

    def stores(self) -> set[str]:
        """Fingerprints of all stores that the run has been in."""
        return {record["store"] for record in records_of(self.data, ("meta", "resumed"))}

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
    for run in run_names(directory):
        if not os.path.isdir(os.path.join(directory, journal_name(run))):
            found = journal(directory, run, None)
            if found is not None and (identity is None or found.identity in ("", identity)):
                yield found


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
            check_owner(standing.first, run, identity)
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
    return Journaled(path, run, standing.first["identity"], state, identity is None, "", standing, raw[0])


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


# --- who met a note ------------------------------------------------------------------------------------------------


class Sought(NamedTuple):
    """What is looked for: a key, perhaps at one revision."""

    key: str
    revision: str | None

    def matches(self, revision: str | None) -> bool:
        """Whether `revision`, as a journal has it, is the one that is looked for.

        A number without a mark stands for that number with any.
        """
        if self.revision is None or revision == self.revision:
            return True
        if revision is None:
            return False
        if len(revision) == 32 and "@" not in revision:
            return len(self.revision) >= 8 and revision.startswith(self.revision)
        return revision.startswith(f"{self.revision}@")


def is_revision(text: str) -> bool:
    """Whether a note can have this revision, or one that starts so."""
    return _REVISION.fullmatch(text) is not None


class Sight(NamedTuple):
    """One time that a run met the note.

    `what`: read, created, updated, deleted; shown (the description alone, as creating what exists was refused); refused
    (an overwrite was refused, or what the run knew of the note became void); unknown (nobody knows whether its change
    was stored); or held (the harness handed the authority in). `revision` is the one met: of a deletion, the one
    removed; of a refusal, the one known before; of an unknown outcome, the one that may be stored, if that is known.
    """

    time: str
    run: str
    identity: str
    state: str
    what: str
    revision: str | None


class Listing(NamedTuple):
    """That a run was shown the descriptions of all notes there were: `times` times, between `first` and `last`.

    `times` is 0 if it is not known, in a journal that was made short. `stores` are those that the run has been in.
    """

    run: str
    identity: str
    state: str
    stores: Sequence[str]
    first: str
    last: str
    times: int


class LeftOut(NamedTuple):
    """A journal that the answer does without, and that may tell of the note."""

    run: str
    identity: str
    state: str
    path: str
    problem: str
    """To be read after "its journal"."""
    mentions: bool
    """Whether the key stands in it."""


class Answer(NamedTuple):
    """Who met the note, and what the answer leaves out."""

    read: int
    """Journals that the answer is made from."""
    seen: list[Sight]
    """Oldest first; within a run as it happened, even if the clock was put back."""
    listed: list[Listing]
    """By the first time."""
    left_out: list[LeftOut]
    other: int
    """Journals of other stores, which do not mention the key: of other memories, as far as anybody can tell."""

    @property
    def complete(self) -> bool:
        """Whether no other run than these can have met the note, as far as these directories tell."""
        return not self.left_out


def saw(found: Iterator[Journaled], sought: Sought, only: str | None = None) -> Answer:
    """Which of the runs met the note. With `only`, a store's fingerprint, those that have been in that store.

    A journal of another store that mentions the key is left out by name: the memory may have been moved, and have had
    another fingerprint.
    """
    read = other = 0
    placed: list[tuple[str, Sight]] = []
    listed: list[Listing] = []
    left_out: list[LeftOut] = []
    for one in found:
        problem = one.problem
        if not problem and only is not None and only not in one.stores():
            if not one.mentions(sought.key):
                other += 1
                continue
            problem = "is of another store, or of this one before it was moved or made again"
        if not problem:
            read += 1
            met = list(_sights(one, sought))
            placed += met
            listed += _listings(one)
            if one.forgotten and not met:
                problem = f"does not keep all that was before {one.forgotten}"
        if problem:
            mentions = one.mentions(sought.key)
            left_out.append(LeftOut(one.run, one.identity, one.state, one.path, problem, mentions))
    placed.sort(key=lambda pair: pair[0])
    listed.sort(key=lambda listing: listing.first)
    return Answer(read, [sight for _, sight in placed], listed, left_out, other)


def _sights(one: Journaled, sought: Sought) -> Iterator[tuple[str, Sight]]:
    """Each time that the run met the note, with the latest time in the run until then."""
    if not one.mentions(sought.key):
        return
    latest = ""
    for met in meetings(one.records()):
        # Where a write went astray the revision that may be stored is not always known.
        if met.key == sought.key and (met.why == "unknown" or sought.matches(met.met)):
            what = "refused" if met.why == "stale" else met.why
            latest = max(latest, met.time)
            yield latest, Sight(met.time, one.run, one.identity, one.state, what, met.met)


def _listings(one: Journaled) -> list[Listing]:
    records = list(records_of(one.data, ("listed",)))
    if not records:
        return []
    first: str = min(record.get("since") or record["time"] for record in records)
    last = max(record["time"] for record in records)
    times = 0 if any("since" in record for record in records) else len(records)
    return [Listing(one.run, one.identity, one.state, sorted(one.stores()), first, last, times)]

"""The journals read as a ledger: which run saw which note, at which revision, when. Changes nothing.

A journal records, of each note by name, what a run read, wrote, deleted, was refused and was shown the description of.
Listings and the index show the descriptions of all notes at once: of those it records when there was one, not of what.
"""

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ...exits import EX_CONFIG
from ...run.compact import meetings
from ...run.journal import journal_name, read_journal
from ...run.records import Record
from ...run.replay import DamagedError, NewerError
from ...run.runs import run_names
from ..shared.failure import Failure
from ..shared.remedy import command, quoted

__all__ = [
    "Journaled",
    "Listing",
    "Sight",
    "Sought",
    "is_complete",
    "is_revision",
    "listings",
    "may_have_forgotten",
    "read_journals",
    "sights",
]

_REVISION: Final = re.compile(r"[0-9a-f]{8,32}|[1-9][0-9]{0,19}(@[A-Za-z0-9_:.TZ+-]{1,40})?")
"""What may be looked for: a digest, or enough of one to stand for all of it; or a bucket's number, which may be
followed by the mark of its message."""


class Journaled(NamedTuple):
    """One journal. `problem` says why it cannot be used, `remedy` what to do; then there are no records."""

    run: str
    state: str
    identity: str
    store: str
    created: str
    updated: str
    records: Sequence[Record]
    held: int
    problem: str = ""
    remedy: str = ""
    raw: bytes = b""
    forgotten: str = ""
    """Until when the journal does not tell all; "" if it does."""

    @property
    def stores(self) -> set[str]:
        """Fingerprints of all stores that the run has been in. `store` is the last."""
        return {record["store"] for record in self.records if record["type"] in ("meta", "resumed")}


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
    what: str
    revision: str | None


class Listing(NamedTuple):
    """That a run was shown the descriptions of all notes there were: `times` times, between `first` and `last`.

    `times` is 0 if it is not known, in a journal that was made short. `stores` are those that the run has been in.
    """

    run: str
    identity: str
    stores: Sequence[str]
    first: str
    last: str
    times: int


def read_journals(directory: str, identity: str | None = None, *, given: Mapping[str, str | None]) -> list[Journaled]:
    """All journals in `directory`, sorted by run; those of `identity`, if given, and every damaged one.

    `given` are the options that named the directory, for the remedies.

    Raises:
        Failure: the directory cannot be read.
    """
    try:
        names = run_names(directory)
    except OSError as error:
        raise Failure(
            f"cannot read the journal directory {directory}: {error.strerror}",
            "check --journal-dir and its permissions",
            status=EX_CONFIG,
        ) from error
    found = (_journal(directory, name, given) for name in names)
    return [one for one in found if one is not None and (identity is None or one.problem or one.identity == identity)]


def _journal(directory: str, run: str, given: Mapping[str, str | None]) -> Journaled | None:
    path = os.path.join(directory, journal_name(run))

    def prune(state: str) -> str:
        return command(given, "runs", "prune", "--state", state)

    def unusable(state: str, problem: str, remedy: str, raw: bytes = b"") -> Journaled:
        return Journaled(run, state, "", "", "", "", (), 0, problem, remedy, raw)

    try:
        found, is_open = read_journal(path)
    except FileNotFoundError:
        kind = _kind(path)
        if kind is None:
            return None
        return unusable(
            "blocked", f"is {kind}, not a file", f"move {quoted(path)} away; until then no run of that id can be opened"
        )
    except NewerError as error:
        return unusable("newer", f"was written by a newer version, {error}", "read it with that version", _bytes(path))
    except DamagedError as error:
        return unusable(
            "damaged",
            f"is damaged, {error}",
            f"restore it from a copy, or remove it: {prune('damaged')}",
            _bytes(path),
        )
    except OSError as error:
        return unusable(
            "damaged", f"cannot be read: {error.strerror}", f"let this user read it: chmod u+r {quoted(path)}"
        )
    if found is None and is_open:
        return None  # its first record is about to be written
    if found is None:
        return unusable(
            "empty",
            "holds no whole record: its process died as it began, or it was cut short",
            f"restore it if there was more in it, or remove it: {prune('empty')}",
            _bytes(path),
        )
    state = "open" if is_open else "interrupted" if found.state == "running" else found.state
    first = found.records[0]
    return Journaled(
        *(run, state, first["identity"], found.store, found.created, found.updated, found.records, len(found.keys)),
        forgotten=first.get("forgotten", ""),
    )


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


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def sights(journal: Journaled, sought: Sought) -> Iterator[Sight]:
    """Each time that the run met the note, oldest first."""
    for one in meetings(journal.records):
        # Where a write went astray the revision that may be stored is not always known.
        if one.key == sought.key and (one.why == "unknown" or sought.matches(one.met)):
            what = "refused" if one.why == "stale" else one.why
            yield Sight(one.time, journal.run, journal.identity, what, one.met)


def listings(journals: Sequence[Journaled]) -> list[Listing]:
    """The runs that were shown all descriptions, by the first time they were."""
    found = []
    for journal in journals:
        records = [record for record in journal.records if record["type"] == "listed"]
        if records:
            first: str = min(record.get("since") or record["time"] for record in records)
            last = max(record["time"] for record in records)
            count = 0 if any("since" in record for record in records) else len(records)
            found.append(Listing(journal.run, journal.identity, sorted(journal.stores), first, last, count))
    return sorted(found, key=lambda listing: listing.first)


def is_complete(journals: Sequence[Journaled], sought: Sought) -> bool:
    """Whether no other run than those with a sight can have met the note."""
    return not any(journal.problem or may_have_forgotten(journal, sought) for journal in journals)


def may_have_forgotten(journal: Journaled, sought: Sought) -> bool:
    """Whether the run may have met the note although its journal does not tell: a long one keeps only the newest."""
    return bool(journal.forgotten) and next(sights(journal, sought), None) is None

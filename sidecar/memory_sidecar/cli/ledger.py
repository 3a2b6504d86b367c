"""The journals read as a ledger: which run saw which note, at which revision, when. Changes nothing.

A journal records what a run read, wrote, deleted and was refused. It does not record listings and the index, which
show descriptions: whoever needs to know who saw a description must take every run since it was stored.
"""

import os
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from ..run.journal import journal_name, read_journal
from ..run.records import Record
from ..run.replay import DamagedError
from ..run.runs import run_names
from .failure import EX_CONFIG, Failure

__all__ = ["Journaled", "Sight", "Sought", "read_journals", "sights"]

_SHORTEST_PREFIX: Final = 8
"""Characters of a digest that stand for all of it. A bucket's revisions are numbers, and always whole."""


class Journaled(NamedTuple):
    """One journal. `problem` says why it cannot be trusted; then there are no records."""

    run: str
    state: str
    identity: str
    store: str
    created: str
    updated: str
    records: Sequence[Record]
    held: int
    problem: str = ""
    raw: bytes = b""


class Sought(NamedTuple):
    """What is looked for: a key, perhaps at one revision."""

    key: str
    revision: str | None

    def matches(self, revision: str | None) -> bool:
        if self.revision is None or revision == self.revision:
            return True
        return (
            revision is not None
            and len(revision) == 32
            and len(self.revision) >= _SHORTEST_PREFIX
            and revision.startswith(self.revision)
        )


class Sight(NamedTuple):
    """One time that a run met the note.

    `what`: read, created, updated, deleted; refused (an overwrite was refused, or what the run knew of the note became
    void); or held (the harness handed the authority in). `revision` is the one met; of a refusal or deletion, the one
    known before.
    """

    time: str
    run: str
    identity: str
    what: str
    revision: str | None


def read_journals(directory: str, identity: str | None = None) -> list[Journaled]:
    """All journals in `directory`, sorted by run; those of `identity`, if given, and every damaged one.

    Raises:
        Failure: the directory cannot be read.
    """
    try:
        names = run_names(directory)
    except OSError as error:
        raise Failure(
            f"cannot read the journal directory {directory}: {error.strerror}; check --journal-dir and its permissions",
            EX_CONFIG,
        ) from error
    found = (_journal(directory, name) for name in names)
    return [one for one in found if one is not None and (identity is None or one.problem or one.identity == identity)]


def _journal(directory: str, run: str) -> Journaled | None:
    path = os.path.join(directory, journal_name(run))
    try:
        found, is_open = read_journal(path)
    except FileNotFoundError:
        return None
    except DamagedError as error:
        return Journaled(run, "damaged", "", "", "", "", (), 0, f"damaged, {error}", _bytes(path))
    except OSError as error:
        return Journaled(run, "damaged", "", "", "", "", (), 0, f"cannot be read: {error.strerror}")
    if found is None:
        return None
    state = "open" if is_open else "interrupted" if found.state == "running" else found.state
    identity = found.records[0]["identity"]
    return Journaled(run, state, identity, found.store, found.created, found.updated, found.records, len(found.keys))


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def sights(journal: Journaled, sought: Sought) -> Iterator[Sight]:
    """Each time that the run met the note, oldest first."""
    held: str | None = None
    for record in journal.records:
        met = _met(record, sought.key, held)
        if met is None:
            continue
        what, held, revision = met
        if sought.matches(revision):
            yield Sight(record["time"], journal.run, journal.identity, what, revision)


def _met(record: dict[str, Any], key: str, held: str | None) -> tuple[str, str | None, str | None] | None:
    """What happened to the key in this record: the word for it, the revision held afterwards, and the one met."""
    if record["type"] == "scope_change" and record["key"] == key:
        what = "refused" if record["why"] == "stale" else record["why"]
        return what, record["revision"], record["revision"] or held
    if record["type"] == "scope" and record["keys"].get(key) not in (None, held):
        # A snapshot that knows more than the changes before it: the harness brought that along.
        return "held", record["keys"][key], record["keys"][key]
    return None

"""A journal made short: what replay yields stays the same, and of the ledger the newest of each kind. Pure.

A run that overwrites one note for days would otherwise fill the disk with the history of that note. What is kept of
it answers the ledger's question, which runs met a note at which revision: of each key, revision and kind of meeting
the last. Where even these are too many the oldest go, and the first record says so (`forgotten`). Of listings it keeps
one of each kind, which stands for all of them.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from ..named_tuple import NamedTuple
from ..store.scope import SHOWN
from .columns import Met, Placed
from .kinds import KINDS
from .records import Record, encode, meeting, snapshot
from .replay import Replayed

__all__ = ["MAX_MEETINGS", "Meeting", "compacted", "meetings"]

MAX_MEETINGS: Final = 4096
"""Meetings kept beside those that made the present scope: with keys of usual length, less than a mebibyte."""


class Meeting(NamedTuple):
    """One time that the run met a note, with what `kinds.Met` tells of it."""

    place: int
    """Index of the record that tells of it. A snapshot can tell of several."""
    time: str
    key: str
    why: str
    revision: str | None
    met: str | None


def meetings(records: Iterable[Record]) -> Iterator[Meeting]:
    """Every meeting that the records tell of, oldest first."""
    known: dict[str, str | None] = {}
    for place, record in enumerate(records):
        kind = KINDS[record["type"]]
        for met in kind.met(record, known):
            yield Meeting(place, record[kind.time], *met)


def compacted(found: Replayed, most: int = MAX_MEETINGS) -> bytes:
    """A journal that replays to the scope, store, tools, state and times of `found`, in as few records as may be."""
    met = list(meetings(found.records))
    newest = {one.key: one for one in met if one.why != SHOWN}
    last = {(one.key, one.met, one.why): one for one in met}
    needed = {newest[key] for key in found.keys}
    others = sorted(set(last.values()) - needed)
    split = max(0, len(others) - most)
    dropped, kept = others[:split], [*others[split:], *sorted(needed)]

    rest: list[Placed] = [(one.place, meeting(Met(*one[2:]), one.time)) for one in kept]
    for name, kind in KINDS.items():
        of_kind = [placed for placed in enumerate(found.records) if placed[1]["type"] == name]
        rest += kind.kept(of_kind, found.state)
    rest.sort(key=lambda placed: placed[0])
    records = [*(record for _, record in rest), {**snapshot(found.keys), "time": found.updated}]
    body = b"".join(_line(record, seq) for seq, record in enumerate(records, 2))
    marks = {"compacted": len(body)} | ({"forgotten": dropped[-1].time} if dropped else {})
    return _line({**found.records[0], **marks}, 1) + body


def _line(record: Record, seq: int) -> bytes:
    return encode({name: value for name, value in record.items() if name != "seq"}, seq)

"""A journal made short: what replay yields stays the same, and of the ledger the newest of each kind. Pure.

A run that overwrites one note for days would otherwise fill the disk with the history of that note. What is kept of
it answers the ledger's question, which runs met a note at which revision: of each key, revision and kind of meeting
the last. Where even these are too many the oldest go, and the first record says so (`forgotten`). Of listings it keeps
one of each kind, which stands for all of them.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ..store.scope import SHOWN
from .records import HELD, Record, encode
from .replay import Replayed

__all__ = ["MAX_MEETINGS", "Meeting", "compacted", "meetings"]

MAX_MEETINGS: Final = 4096
"""Meetings kept beside those that made the present scope: with keys of usual length, less than a mebibyte."""


class Meeting(NamedTuple):
    """One time that the run met a note."""

    place: int
    """Index of the record that tells of it. A snapshot can tell of several."""
    time: str
    key: str
    why: str
    """As in a `scope_change`; `held`: the harness handed the authority in; `shown`: its description was shown."""
    revision: str | None
    """What the run knew afterwards; what was `shown` it doesn't know."""
    met: str | None
    """What it met: of a loss, what the record says was removed or may be stored, else the revision known before."""


def meetings(records: Sequence[Record]) -> Iterator[Meeting]:
    """Every meeting that the records tell of, oldest first."""
    held: dict[str, str | None] = {}
    for place, record in enumerate(records):
        if record["type"] == "scope_change":
            key, revision = record["key"], record["revision"]
            met = revision if revision is not None else record.get("met", held.get(key))
            held[key] = revision
            yield Meeting(place, record["time"], key, record["why"], revision, met)
        elif record["type"] == SHOWN:
            yield Meeting(place, record["time"], record["key"], SHOWN, None, record["revision"])
        elif record["type"] == "scope":
            for key, revision in record["keys"].items():
                if revision != held.get(key):
                    # A snapshot that knows more than the changes before it: the harness brought that along.
                    held[key] = revision
                    yield Meeting(place, record["time"], key, HELD, revision, revision)


def compacted(found: Replayed, most: int = MAX_MEETINGS) -> bytes:
    """A journal that replays to the scope, store, tools, state and times of `found`, in as few records as may be."""
    met = list(meetings(found.records))
    newest = {one.key: one for one in met if one.why != SHOWN}
    last = {(one.key, one.met, one.why): one for one in met}
    needed = {newest[key] for key in found.keys}
    others = sorted(set(last.values()) - needed)
    split = max(0, len(others) - most)
    dropped, kept = others[:split], [*others[split:], *needed]

    rest = [(one.place, _told(one)) for one in kept]
    # The newest of these says which tools and which store; the others, in which stores the run has been.
    rest += {
        record["store"]: (place, record) for place, record in enumerate(found.records) if record["type"] == "resumed"
    }.values()
    rest += _listings(found.records)
    rest.sort(key=lambda placed: placed[0])
    endings = [record for record in found.records if record["type"] == "terminal" and found.state != "running"]
    snapshot = {"type": "scope", "time": found.updated, "keys": found.keys}
    records = [*(record for _, record in rest), *endings[-1:], snapshot]
    body = b"".join(_line(record, seq) for seq, record in enumerate(records, 2))
    marks = {"compacted": len(body)} | ({"forgotten": dropped[-1].time} if dropped else {})
    return _line({**found.records[0], **marks}, 1) + body


def _listings(records: Sequence[Record]) -> Iterator[tuple[int, Record]]:
    """Of each kind of listing the last, which tells since when there were some."""
    kept: dict[str, tuple[int, Record]] = {}
    for place, record in enumerate(records):
        if record["type"] == "listed":
            what = record["what"]
            _, first = kept.get(what, (place, record))
            kept[what] = place, {**record, "since": first.get("since", first["time"])}
    yield from kept.values()


def _told(one: Meeting) -> Record:
    if one.why == SHOWN:
        return {"type": SHOWN, "time": one.time, "key": one.key, "revision": one.met}
    record: Record = {"type": "scope_change", "time": one.time, "key": one.key, "revision": one.revision}
    # What was known before a loss may not be told by the record before it any more.
    return {**record, "why": one.why} | ({"met": one.met} if one.revision is None else {})


def _line(record: Record, seq: int) -> bytes:
    return encode({name: value for name, value in record.items() if name != "seq"}, seq)

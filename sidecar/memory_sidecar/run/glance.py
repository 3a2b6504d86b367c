"""How a run stands, without reading all that its journal tells: for listings of many. Pure.

Every line's number and checksum is looked at, so damage is found. Parsed is only what the table of kinds says is needed
(`stands`). A journal with anything unusual is replayed, which then says what is wrong, and where.
"""

from binascii import crc32
from collections.abc import Collection, Iterator
from typing import Final

from ..named_tuple import NamedTuple
from .columns import Reading, Record, RecordError
from .kinds import KINDS, VERSION
from .records import decode, decode_summed
from .replay import replay

__all__ = ["Standing", "glance", "records_of"]

_BY_NAME: Final = {name.encode(): kind for name, kind in KINDS.items()}


class Standing(NamedTuple):
    """How a run stands."""

    first: Record
    state: str
    """`running`, or the reason of its ending."""
    store: str
    held: int
    """Notes that it has authority over."""
    created: str
    updated: str


def glance(data: bytes) -> Standing | None:
    """How the run of the journal `data` stands; None if it holds no whole record yet.

    Raises:
        DamagedError: as `replay` does.
    """
    try:
        standing = _usual(data[: data.rfind(b"\n") + 1].splitlines())
    except RecordError:
        standing = None
    if standing is not None:
        return standing
    found = replay(data)
    if found is None:
        return None
    return Standing(found.records[0], found.state, found.store, len(found.keys), found.created, found.updated)


def _usual(lines: list[bytes]) -> Standing | None:
    """How the run of a journal of these lines stands; None if something in it is unusual."""
    needed = _needed(lines)
    first = decode_summed(lines[0]) if needed else {}
    if not needed or first["version"] > VERSION:
        return None
    reading = Reading()
    record = first
    for place in needed:
        record = decode_summed(lines[place]) if place else first
        KINDS[record["type"]].apply(reading, record)
    updated = record[KINDS[record["type"]].time]
    return Standing(first, reading.state, reading.store, len(reading.keys), first["created"], updated)


def _needed(lines: list[bytes]) -> list[int]:
    """Which lines tell how the run stands, the last one always; none if something is unusual."""
    base = -1
    always: list[int] = []
    changes: list[int] = []
    for place, line in enumerate(lines):
        begin = b'{"seq":%d,"type":"' % (place + 1)
        end = line.find(b'"', len(begin))
        kind = _BY_NAME.get(line[len(begin) : end])
        if kind is None or not line.startswith(begin) or line[-18:] != b',"sum":"%08x"}' % crc32(line[:-18]):
            return []
        if (kind.legal == "first") != (place == 0):
            return []
        if kind.stands == "always":
            always.append(place)
        elif kind.stands == "base":
            base, changes = place, []
        elif kind.stands == "change":
            changes.append(place)
    if not always:
        return []
    return sorted({*always, *changes, *([base] if base >= 0 else []), len(lines) - 1})


def records_of(data: bytes, names: Collection[str]) -> Iterator[Record]:
    """The records in a sound journal that are of the kinds `names`, oldest first."""
    wanted = tuple(b'"type":"%s"' % name.encode() for name in names)
    for line in data[: data.rfind(b"\n") + 1].splitlines():
        begin = line.find(b'"type":"')
        if line.startswith(wanted, begin):
            yield decode(line)

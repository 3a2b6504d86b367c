"""What a run leaves: journals of all versions, and the cache of how runs stood."""

import json
from zlib import crc32

from memory_sidecar.run import standings as cache
from memory_sidecar.run.compact import compacted, meetings
from memory_sidecar.run.glance import glance, records_of
from memory_sidecar.run.replay import DamagedError, Replayed, first_record, replay

from .common import chance, scratch

__all__ = ["journals", "standings"]


def journals(data: bytes) -> None:
    """Any bytes are a run or damage; of one that was cut, nothing is authority but what a whole record granted.

    Lines that are JSON objects are read a second time with the number and the checksum that make records of them:
    no chance finds those.
    """
    _journal(data)
    sealed = b"\n".join(_sealed(line, number) for number, line in enumerate(data.split(b"\n"), 1))
    if sealed != data:
        _journal(sealed)


def _sealed(line: bytes, number: int) -> bytes:
    if not line.startswith(b"{") or not line.endswith(b"}"):
        return line
    body = (b'{"seq":%d,' % number if b'"seq"' not in line else b"{") + line[1:-1]
    return b'%s,"sum":"%08x"}' % (body, crc32(body))


def _journal(data: bytes) -> None:
    found = _replay(data)
    _glanced(data, found)
    choices = chance(data)
    newline = data.rfind(b"\n") + 1
    for cut in {0, newline, max(newline - 1, 0), *(choices.randint(0, len(data)) for _ in range(3))}:
        part = _replay(data[:cut])
        if isinstance(found, Replayed) and cut <= found.length:
            assert not isinstance(part, DamagedError), "what was cut short is damage"
        if isinstance(part, Replayed):
            whole = data[:cut].count(b"\n")
            assert len(part.records) == whole
            assert part.length == data.rfind(b"\n", 0, cut) + 1
            _granted(part, data[: part.length])
            _compacted(part)


def _replay(data: bytes) -> Replayed | DamagedError | None:
    try:
        return replay(data)
    except DamagedError as error:
        assert 1 <= error.line <= max(1, data.count(b"\n"))  # of a file that is no journal, no line need be whole
        assert len(str(error).splitlines()) == 1
        return error


def _granted(found: Replayed, data: bytes) -> None:
    """By the plainest reading: line by line, the newest word on each key."""
    held: dict[str, str] = {}
    store = ""
    for line in data.split(b"\n")[:-1]:
        record = json.loads(line)
        if record["type"] == "scope":
            held = dict(record["keys"])
        elif record["type"] == "scope_change":
            held |= {record["key"]: record["revision"]}
        elif record["type"] in ("meta", "resumed"):
            held, store = (held if record["store"] == store else {}), record["store"]
    assert found.keys == {key: revision for key, revision in held.items() if revision is not None}
    assert found.store == store


def _compacted(found: Replayed) -> None:
    """Made short, it says the same: the run, and of each kind of meeting the last."""
    short = compacted(found)
    again = replay(short)
    assert again is not None
    assert again._replace(records=[], length=0) == found._replace(records=[], length=0), "a short journal is another"
    assert again.length == len(short)
    assert _met(again) == _met(found), "a short journal tells of other meetings"


def _met(found: Replayed) -> dict[tuple[str, str | None, str], str]:
    return {(one.key, one.met, one.why): one.time for one in meetings(found.records)}


def _glanced(data: bytes, found: Replayed | DamagedError | None) -> None:
    """A look that parses little tells of a sound journal what reading all of it tells."""
    try:
        seen = glance(data)
    except DamagedError:
        assert isinstance(found, DamagedError), "a sound journal is damaged for a listing"
        return
    if found is None:
        assert seen is None
    elif isinstance(found, Replayed):
        first = found.records[0]
        assert seen == (first, found.state, found.store, len(found.keys), found.created, found.updated)
        listed = [record for record in found.records if record["type"] == "listed"]
        assert list(records_of(data, ("listed",))) == listed
        assert first_record(data) == first


# --- the cache of how runs stood ---------------------------------------------------------------------------------


def standings(data: bytes) -> None:
    """A cache is read as far as it is whole, and never as more; what is kept of a journal is read as it was kept.

    The input is read as a file, and as lines under the right length and checksum.
    """
    _standings(data)
    block = data.replace(b"\r", b"")
    rows = _standings(cache._HEAD + b"%08x%08x\n%s" % (len(block), crc32(block), block))
    lines = block.decode(errors="replace").split("\n")
    is_whole = [line.count("\t") == 6 for line in lines]
    assert len(rows) == (is_whole.index(False) if False in is_whole else len(lines)) or not _is_utf8(block)
    for row, line in zip(rows, lines, strict=False):
        assert "\t".join(row) == line


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _standings(data: bytes) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = list(cache._read(scratch("standings", data)))
    assert all(len(row) == 7 for row in rows)
    return rows

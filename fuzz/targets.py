"""One function per reader of untrusted bytes: it returns, or it raises because a promise was broken.

Each is a pure function of its input, so that an input which fails once fails always, here and in the tests.
"""

import json
import re
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final
from zlib import crc32

from memory_sidecar import config
from memory_sidecar.backend.jetstream import context as nats_context
from memory_sidecar.run.compact import compacted, meetings
from memory_sidecar.run.replay import DamagedError, Replayed, replay
from memory_sidecar.store import document, rules
from memory_sidecar.store.contract import Entry
from memory_sidecar.store.errors import InvalidError, UnreadableError
from memory_sidecar.wire import codec, eras, messages, states
from memory_sidecar.wire.codes import CODES, Error
from memory_sidecar.wire.gate import wants_default_run
from memory_sidecar.wire.outline import Outline

__all__ = ["TARGETS"]


def _chance(data: bytes) -> Random:
    """Choices that a target makes: always the same ones for the same input."""
    return Random(crc32(data))


# --- the wire ----------------------------------------------------------------------------------------------------

_SHORT_FRAME: Final = 300


@contextmanager
def _shorter_frames() -> Iterator[None]:
    """Frames too long to be kept, without megabytes of input."""
    whole = codec.MAX_FRAME
    codec.MAX_FRAME = _SHORT_FRAME  # type: ignore[misc]
    try:
        yield
    finally:
        codec.MAX_FRAME = whole  # type: ignore[misc]


def wire(data: bytes) -> None:
    """However a stream is cut, the same frames; each a message, an error or nothing; what is sent is received."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")[:-1] if data.count(b"\n") else []
    with _shorter_frames():
        whole = [_shown(frame) for frame in codec.Splitter().feed(data)]
        splitter = codec.Splitter()
        frames: list[object] = []
        for chunk in _chunks(data):
            frames += [_shown(frame) for frame in splitter.feed(chunk)]
            kept = sum(map(len, splitter._parts))
            assert kept <= _SHORT_FRAME, f"{kept} bytes kept of a frame that may have {_SHORT_FRAME}"
    assert frames == whole, "the frames depend on how the stream was cut"
    assert len(frames) == len(lines)
    for line, frame in zip(lines, frames, strict=True):
        assert frame == line if isinstance(frame, bytes) else len(line) > _SHORT_FRAME - 3
        _outlined(line)
    for line in data.split(b"\n"):
        _message(line)


def _shown(frame: bytes | Outline) -> object:
    return frame if isinstance(frame, bytes) else (frame.request_id(), frame.needs_no_answer)


def _outlined(line: bytes) -> None:
    """Of a message that can be read, the outline tells what the reading tells."""
    outline = Outline()
    outline.feed(line)
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return
    if not isinstance(message, dict):
        assert outline.request_id() is None
    elif b"\\" not in line:  # a name may be written with escapes, which nobody does and the outline doesn't read
        known = message.get("id")
        expected = known if isinstance(known, str | int) and not isinstance(known, bool) else None
        assert outline.request_id() == expected, "an answer to a message that is not kept has another id"


def _chunks(data: bytes) -> Iterator[bytes]:
    chance = _chance(data)
    largest = chance.choice((1 + len(data) // 64, 1 + len(data) // 8, len(data)))
    start = 0
    while start < len(data):
        end = start + chance.randint(1, largest)
        yield data[start:end]
        start = end


def _message(frame: bytes) -> None:
    found = codec.decode(frame)
    match found:
        case messages.Request(number, method, params):
            _comes_back({"jsonrpc": "2.0", "id": number, "method": method, "params": params}, found)
            _answers(messages.success(number, {}), number)
            _answers(messages.failure(number, -1, method), number)
            _let_in(found)
        case messages.Notification(method, params):
            _comes_back({"jsonrpc": "2.0", "method": method, "params": params}, found)
        case messages.Invalid(number, code, text):
            _answers(messages.failure(number, code, text), number)
        case _:
            assert found is None


def _let_in(request: messages.Request) -> None:
    """Whatever a request carries, it is of one era, and what is wrong with it has a code of ours."""
    era = eras.era_of(request)
    try:
        if era is eras.Era.MODERN:
            wants_default_run(eras.client_capabilities(request))
        states.check_method(request.method, era, states.Connection.READY)
    except Error as error:
        assert error.code in CODES
        _answers(messages.failure(request.id, error.code, str(error), error.data), request.id)
    assert eras.client_name(request, era) is None or len(str(eras.client_name(request, era))) <= 100


def _comes_back(message: dict[str, Any], found: messages.Message) -> None:
    frame = codec.encode(message)
    _one_line(frame)
    # Half of a surrogate pair is no character, and is sent as U+FFFD; so what comes back may differ there.
    back = codec.decode(frame[:-1])
    if "\\ud" in json.dumps(message) and "\\ufffd" in frame.decode():
        assert type(back) is type(found), "a message is not of the kind that was sent"
    else:
        assert back == found, "a message is not what was sent"


def _answers(message: dict[str, Any], number: object) -> None:
    frame = codec.encode(message)
    _one_line(frame)
    again = json.loads(frame)
    assert again["id"] == number
    assert type(again["id"]) is type(number), "an answer has another id than its request"


def _one_line(frame: bytes) -> None:
    assert frame.isascii()
    assert frame.endswith(b"\n")
    assert frame.count(b"\n") == 1


# --- documents ---------------------------------------------------------------------------------------------------


def documents(data: bytes) -> None:
    """Any bytes are a note or unreadable; the listing tells what the reading tells; what is written is read."""
    try:
        entry = document.parse(data)
    except UnreadableError:
        entry = None
    lengths = (document.HEADER_BYTES, _chance(data).randint(0, len(data)), len(data))
    described = [_description(data[:length], len(data)) for length in lengths]
    assert described[-1] is not None, "a whole document leaves open how it is described"
    if entry is not None:
        listed = entry.description
        if len(listed) > rules.MAX_DESCRIPTION:
            listed = listed[: rules.MAX_DESCRIPTION] + "…"
        for length, description in zip(lengths, described, strict=True):
            assert description in (None, listed), f"described otherwise by its first {length} bytes"
        assert entry.description == rules.one_line(entry.description)
        assert document.restored(entry) == data, "a note does not tell every byte of its document"
        _is_stored(entry.description, entry.content)
        _is_kept(entry.header, entry.description, entry.content)
    description, _, content = data.decode(errors="surrogateescape").partition("\0")
    _is_stored(description, content)
    if entry is not None:
        _is_kept(entry.header, description, content)


def _description(prefix: bytes, size: int) -> str | None:
    """None if more is needed, or if it is unreadable and says so."""
    try:
        return document.parse_description(prefix, size)
    except UnreadableError:
        return document.UNREADABLE if len(prefix) == size else None


def _is_stored(description: str, content: str) -> None:
    try:
        line = rules.validate_write("key", description, content)
    except InvalidError:
        return
    stored = document.serialize(line, content)
    assert len(stored) <= rules.MAX_ENTRY_BYTES, "a legal note is larger than any may be"
    assert document.parse(stored) == Entry(line, content), "a note is not what was written"
    assert document.parse_description(stored[: document.HEADER_BYTES], len(stored)) == line


def _is_kept(header: str, description: str, content: str) -> None:
    """What another program keeps in front of a note stays, or the write is refused."""
    try:
        line = rules.validate_write("key", description, content)
        stored = document.serialize(line, content, header)
    except InvalidError:
        return
    assert len(stored) <= rules.MAX_ENTRY_BYTES, "a legal note is larger than any may be"
    again = document.parse(stored)
    assert again[:2] == (line, content), "a note is not what was written"
    assert document.serialize(line, content, again.header) == stored, "copying a note back changes it"
    if header:
        assert document.other_lines(again.header).split() == document.other_lines(header).split()


# --- journals ----------------------------------------------------------------------------------------------------


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
    chance = _chance(data)
    newline = data.rfind(b"\n") + 1
    for cut in {0, newline, max(newline - 1, 0), *(chance.randint(0, len(data)) for _ in range(3))}:
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


# --- configurations ----------------------------------------------------------------------------------------------


def configurations(data: bytes) -> None:
    """Any bytes are a configuration, or one line says what to mend."""
    try:
        found = config.parse(data)
    except config.ConfigError as error:
        _one_line_of_text(str(error))
        return
    memory = found.memory
    assert isinstance(memory.enabled, bool)
    assert isinstance(memory.read_only, bool)
    assert isinstance(memory.no_index, bool)
    for text in (found.identity, found.nats_context, memory.backend):
        if text is not None:
            text.encode()


def _one_line_of_text(text: str) -> None:
    assert len(text.splitlines()) == 1, f"not one line: {text!r}"
    assert len(text) < 1000, "a message as long as what it is about"
    text.encode()


# --- NATS contexts -----------------------------------------------------------------------------------------------

_SECRET: Final = "zqXs3cretXqz"
_SECRETS: Final = ("user", "password", "token", "creds", "nkey", "user_jwt", "user_seed")
_ENVIRONMENT: Final = {"HOME": "/home/me", "A": "1"}


def contexts(data: bytes) -> None:
    """Any bytes are a context, or one line says why not; no secret of it is ever shown."""
    _context(data)
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return
    if isinstance(fields, dict):
        for name in _SECRETS:
            if isinstance(fields.get(name), str) and fields[name]:
                fields[name] += _SECRET
        if isinstance(fields.get("url"), str):
            fields["url"] = re.sub("@", f"{_SECRET}@", fields["url"])
        _context(json.dumps(fields).encode())


def _context(data: bytes) -> None:
    try:
        shown = repr(nats_context.parse(data, "name", _ENVIRONMENT))
    except nats_context.ContextError as error:
        _one_line_of_text(str(error))
        shown = "".join(traceback.format_exception(error, limit=0))
    assert _SECRET not in shown, "a secret is shown"


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "wire": wire,
    "documents": documents,
    "journals": journals,
    "configurations": configurations,
    "contexts": contexts,
}

"""Frames of both eras of MCP, and who is let in by them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from memory_sidecar.wire import codec, eras, last_word, messages, states
from memory_sidecar.wire.codes import CODES, Error
from memory_sidecar.wire.gate import Gate, wants_default_run
from memory_sidecar.wire.outline import Outline
from memory_sidecar.wire.ticket import Ticket

from .common import chance, strict

__all__ = ["modern", "wire"]

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
    choices = chance(data)
    largest = choices.choice((1 + len(data) // 64, 1 + len(data) // 8, len(data)))
    start = 0
    while start < len(data):
        end = start + choices.randint(1, largest)
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


# --- the era without a handshake ---------------------------------------------------------------------------------

TOKEN: Final = "0123456789abcdefghijABCDEFGHIJ-_0123456789x"
_MARKS: Final = (
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
)
_RESULTS: Final = {"resultType", "_meta"}


class _Held(Ticket):
    """A ticket that nobody else has claimed, without its file."""

    def __init__(self) -> None:
        super().__init__(-1, TOKEN.encode())

    def is_unclaimed(self) -> bool:
        return True

    def claim(self) -> bool:
        return True


def modern(data: bytes) -> None:
    """Whatever stands in `_meta`, each method is of one era, and nothing is served without version and ticket.

    The input is the `_meta` of a request, or a whole request. It is read as the wire reads it and as plainly as can be.
    """
    meta = strict(data)
    request = codec.decode(data.replace(b"\n", b" "))
    if isinstance(request, messages.Request):
        _modern(request)
        _last_word(data.replace(b"\n", b" "), request.id)
        meta = request.params.get("_meta")
    for number, method in enumerate(states.METHODS):
        frame = codec.encode({"jsonrpc": "2.0", "id": number, "method": method, "params": {"_meta": meta}})
        made = codec.decode(frame[:-1])
        if isinstance(made, messages.Request):
            _modern(made)
        else:
            assert isinstance(made, messages.Invalid), "a request is no message"


def _modern(request: messages.Request) -> None:
    meta = request.params.get("_meta")
    marks = [mark for mark in _MARKS if isinstance(meta, dict) and mark in meta]
    era = eras.era_of(request)
    plain = request.method == messages.DISCOVER or (bool(marks) and request.method != messages.INITIALIZE)
    assert (era is eras.Era.MODERN) == plain, "a request is taken for one of the other era"
    if era is eras.Era.LEGACY:
        return
    served = _served(request)
    assert served == _should_be_served(meta), f"served: {served}"
    if served:
        result = eras.complete(request.method, {"_meta": {"memory-sidecar/run": "r"}})
        assert result.keys() >= _RESULTS
        assert result["_meta"]["memory-sidecar/run"] == "r"


def _served(request: messages.Request) -> bool:
    """Whether it gets past the gate; what it is refused has a code of ours and never says the ticket."""
    gate = Gate(_Held())
    admitted = False
    try:
        capabilities = eras.client_capabilities(request)
        gate.admit(capabilities, probe=request.method == messages.DISCOVER)
        admitted = True
        assert isinstance(wants_default_run(capabilities), bool)
        states.check_method(request.method, eras.Era.MODERN, states.Connection.NEW)
    except Error as error:
        assert error.code in CODES
        _answers(messages.failure(request.id, error.code, str(error), error.data), request.id)
        assert TOKEN not in str(error), "a refusal tells the ticket"
    return admitted


def _should_be_served(meta: Any) -> bool:
    """By the plainest reading: the version that is spoken, and the ticket in the first place that has one."""
    if not isinstance(meta, dict) or meta.get(_MARKS[0]) not in eras.MODERN_VERSIONS:
        return False
    capabilities = meta.get(_MARKS[1])
    if not isinstance(capabilities, dict):
        return False
    for place in ("extensions", "experimental"):
        try:
            ticket = capabilities[place]["memory-sidecar/harness"]["ticket"]
        except (KeyError, TypeError, IndexError):
            continue
        if isinstance(ticket, str):
            return ticket == TOKEN
    return False


def _last_word(frame: bytes, number: object) -> None:
    """A process that cannot serve answers whatever the one that can serve would take for a request."""
    found = last_word._request(frame)
    assert found is not None
    assert found["id"] == number

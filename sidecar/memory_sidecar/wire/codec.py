"""Bytes to messages and back. Pure: it is fed, and it never reads, writes or keeps more than one frame.

What is not exactly a JSON-RPC 2.0 message of MCP's kind becomes `Invalid`; nothing here raises on input.
"""

from collections.abc import Iterator

from .. import jsontext
from ..hints import TYPE_CHECKING, Any, Final
from ..tools.encoded import Encoded
from .codes import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from .messages import Invalid, Message, Notification, Request, is_id

if TYPE_CHECKING:
    import re

    from .outline import Outline

__all__ = ["MAX_FRAME", "Splitter", "decode", "encode"]

MAX_FRAME: Final = 1024 * 1024
"""Bytes in a frame, newline not counted. The largest legal write, every byte escaped, is less than half of it."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_NO_JSON: Final = "the frame is not JSON in UTF-8, one message a line"
_NOT_STRICT: Final = (
    "the message holds what JSON has no word for (NaN, Infinity), too large a number, or lists and objects nested too "
    "deeply; send it without"
)


class Splitter:
    """Cuts a byte stream into frames at newlines. Of a frame that is too long it keeps nothing but its outline."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._outline: Outline | None = None
        self._is_first = True

    def feed(self, data: bytes) -> Iterator["bytes | Outline"]:
        """The frames that `data` completes, without their newlines; of one over `MAX_FRAME` only the outline.

        A byte order mark before the first frame is left out: some writers begin every stream with one.
        """
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end])
            start = end + 1
            yield self._kept() if self._outline is None else self._outline
            self._parts, self._size, self._outline, self._is_first = [], 0, None, False
        if start < len(data):
            self._add(data[start:])

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._outline is not None:
            self._outline.feed(part)
        elif part:
            self._parts.append(part)
            if self._size > MAX_FRAME:
                from .outline import Outline

                self._outline = Outline()
                self._outline.feed(self._kept())
                self._parts = []

    def _kept(self) -> bytes:
        frame = b"".join(self._parts)
        return frame.removeprefix(_BYTE_ORDER_MARK) if self._is_first else frame


def encode(message: dict[str, Any]) -> bytes:
    """The frame of `message`, in ASCII.

    Half of a surrogate pair is no character, and strict readers refuse the whole frame for it (RFC 8259, section 8.2).
    One comes in a path that is not UTF-8, as Python reads it, and is shown as U+FFFD. Only an id is given back as it
    was sent: whoever sent it so knows it so.
    """
    result = message.get("result")
    structured = result.get("structuredContent") if isinstance(result, dict) else None
    if isinstance(structured, Encoded) and structured.ascii is not None:
        shell = encode({**message, "result": {**message["result"], "content": 0, "structuredContent": 0}})
        # Within a text its quotes would be escaped, so this stands there once.
        told = b'"content":[{"type":"text","text":%b}],"structuredContent":%b' % structured.ascii[::-1]
        return shell.replace(b'"content":0,"structuredContent":0', told, 1)
    text = _encode(message)
    if "\\ud" in text and not _is_unicode(message):
        head = f'{{"jsonrpc":"2.0","id":{_encode(message.get("id"))},'
        start = len(head) if text.startswith(head) else 0
        import re

        text = text[:start] + re.sub(_ESCAPE, _whole, text[start:])
    return text.encode() + b"\n"


_encode: Final = jsontext.encoder()
_encode_readable: Final = jsontext.encoder(ensure_ascii=False)


_ESCAPE: Final = r"\\(?:ud[89ab]..\\ud[c-f]..|ud[89a-f]..|.)"
"""One escape of a JSON text in ASCII; both halves of a surrogate pair are one."""


def _is_unicode(message: dict[str, Any]) -> bool:
    """Whether there is no lone half of a surrogate pair in it: by far faster than looking at each escape."""
    try:
        _encode_readable(message).encode()
    except UnicodeEncodeError:
        return False
    return True


def _whole(escape: "re.Match[str]") -> str:
    return "\\ufffd" if len(escape[0]) == 6 else escape[0]


def decode(frame: "bytes | Outline") -> Message | None:
    """The message in a frame from `Splitter`. None for what needs no answer: a blank line, or a response."""
    if not isinstance(frame, bytes):
        return _too_long(frame)
    if not frame.strip():
        return None
    try:
        text = frame.decode()
    except ValueError:
        return Invalid(None, PARSE_ERROR, _NO_JSON)
    try:
        message = _decode(text)
    except (ValueError, RecursionError):
        from .outline import Outline

        outline = Outline()
        outline.feed(frame)
        known = outline.request_id()
        return Invalid(known, PARSE_ERROR, _NO_JSON if known is None else _NOT_STRICT)
    if not isinstance(message, dict):
        return Invalid(None, INVALID_REQUEST, "a message is one JSON object; batches are not supported")
    return _message(message)


def _too_long(outline: "Outline") -> Message | None:
    if outline.needs_no_answer:
        return None
    problem = f"the frame is longer than {MAX_FRAME} bytes, so it was not read; send less at a time"
    return Invalid(outline.request_id(), INVALID_REQUEST, problem)


def _message(message: dict[str, Any]) -> Message | None:
    request_id = message.get("id")
    known = request_id if is_id(request_id) else None
    if message.get("jsonrpc") != "2.0":
        return Invalid(known, INVALID_REQUEST, 'a message says "jsonrpc": "2.0"')
    method = message.get("method")
    if method is None and ("result" in message or "error" in message):
        return None  # a response, and the sidecar has asked nothing
    if not isinstance(method, str):
        return Invalid(known, INVALID_REQUEST, "a message names its method")
    params = message.get("params", {})
    if "id" not in message:
        return Notification(method, params if isinstance(params, dict) else {})
    if known is None:
        return Invalid(None, INVALID_REQUEST, "a request id is text or a whole number")
    if not isinstance(params, dict):
        return Invalid(known, INVALID_PARAMS, "params is an object")
    return Request(known, method, params)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_INFINITE: Final = float("inf")


def _finite(digits: str) -> float:
    """A number too large for Python would become infinity, which JSON has no word for."""
    number = float(digits)
    if number in (_INFINITE, -_INFINITE):
        raise ValueError("the number is too large")
    return number


_decode: Final = jsontext.decoder(_refuse_constant, _finite)

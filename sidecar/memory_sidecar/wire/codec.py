"""Bytes to messages and back. Pure: it is fed, and it never reads, writes or keeps more than one frame.

What is not exactly a JSON-RPC 2.0 message of MCP's kind becomes `Invalid`; nothing here raises on input.
"""

import json
import re
from collections.abc import Iterator
from math import isinf
from typing import Any, Final, TypeGuard

from .messages import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    Invalid,
    Message,
    Notification,
    Request,
    RequestId,
)

__all__ = ["MAX_FRAME", "Splitter", "decode", "encode"]

MAX_FRAME: Final = 1024 * 1024
"""Bytes in a frame, newline not counted. The largest legal write, every byte escaped, is less than half of it."""


_NO_JSON: Final = "the frame is not JSON in UTF-8, one message a line"
_NOT_STRICT: Final = (
    "the message holds what JSON has no word for (NaN, Infinity), too large a number, or lists and objects nested too "
    "deeply; send it without"
)

_TOKEN: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|["{}\[\]:,]|[^\s"{}\[\]:,]+', re.DOTALL)
"""A text, a mark or another scalar. A quote by itself begins a text that does not end."""


class Splitter:
    """Cuts a byte stream into frames at newlines. Of a frame that is too long it keeps nothing but the fact."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """The frames that `data` completes, without their newlines; None stands for one over `MAX_FRAME`."""
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._add(data[start:end])
            start = end + 1
            yield None if self._size > MAX_FRAME else b"".join(self._parts)
            self._parts, self._size = [], 0
        self._add(data[start:])

    def _add(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > MAX_FRAME:
            self._parts = []
        elif part:
            self._parts.append(part)


def encode(message: dict[str, Any]) -> bytes:
    """The frame of `message`. Pure ASCII: valid UTF-8 even where a client sent half of a surrogate pair."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def decode(frame: bytes | None) -> Message | None:
    """The message in a frame from `Splitter`. None for what needs no answer: a blank line, or a response."""
    if frame is None:
        return Invalid(None, INVALID_REQUEST, f"the frame is longer than {MAX_FRAME} bytes; send less at a time")
    if not frame.strip():
        return None
    try:
        text = frame.decode()
    except ValueError:
        return Invalid(None, PARSE_ERROR, _NO_JSON)
    try:
        message = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        known = _recovered_id(text)
        return Invalid(known, PARSE_ERROR, _NO_JSON if known is None else _NOT_STRICT)
    if not isinstance(message, dict):
        return Invalid(None, INVALID_REQUEST, "a message is one JSON object; batches are not supported")
    return _message(message)


def _message(message: dict[str, Any]) -> Message | None:
    request_id = message.get("id")
    known = request_id if _is_id(request_id) else None
    if message.get("jsonrpc") != "2.0":
        return Invalid(known, INVALID_REQUEST, 'a message says "jsonrpc": "2.0"')
    method = message.get("method")
    if method is None and ("result" in message or "error" in message):
        return None  # a response; the sidecar asks nothing, so it answers nothing of ours
    if not isinstance(method, str):
        return Invalid(known, INVALID_REQUEST, "a message names its method")
    params = message.get("params", {})
    if "id" not in message:
        return Notification(method, params if isinstance(params, dict) else {})
    if not _is_id(request_id):
        return Invalid(None, INVALID_REQUEST, "a request id is text or a whole number")
    if not isinstance(params, dict):
        return Invalid(known, INVALID_PARAMS, "params is an object")
    return Request(request_id, method, params)


def _recovered_id(text: str) -> RequestId | None:
    """The id of a message that is whole but for a value in it that cannot be read. Whoever waits for it must be told.

    Without recursion, since too deep a nesting is one of the reasons for being here.
    """
    depth = 0
    key = mark = ""
    found: object = None
    for match in _TOKEN.finditer(text):
        part = match[0]
        if part == '"' or (depth == 0 and (mark or part != "{")):
            return None
        if depth == 1 and mark == ":" and key == '"id"':
            try:
                found = json.loads(part)
            except ValueError:
                return None
        depth += (part in "{[") - (part in "}]")
        key, mark = mark, part
    return found if depth == 0 and _is_id(found) else None


def _is_id(value: object) -> TypeGuard[RequestId]:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    """A number too large for Python would become infinity, which JSON has no word for."""
    number = float(digits)
    if isinf(number):
        raise ValueError("the number is too large")
    return number

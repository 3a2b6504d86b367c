"""Bytes to messages and back. Pure: it is fed, and it never reads, writes or keeps more than one frame.

What is not exactly a JSON-RPC 2.0 message of MCP's kind becomes `Invalid`; nothing here raises on input.
"""

import json
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
        message = json.loads(frame.decode(), parse_constant=_refuse_constant, parse_float=_finite)
    except (ValueError, RecursionError):
        return Invalid(None, PARSE_ERROR, "the frame is not JSON in UTF-8, one message a line")
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

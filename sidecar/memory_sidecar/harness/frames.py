"""Frames of the wire, from the launching side: what may be sent, and what counts as an answer. Pure."""

import json
from typing import Any, Final

from ..version import __version__
from .errors import RequestRefusedError
from .ticket import EXTENSION

__all__ = ["MAX_FRAME", "PARSE_ERROR", "FrameTooLargeError", "frame", "identification", "is_answer"]

MAX_FRAME: Final = 1024 * 1024
"""Bytes in a frame, newline not counted, that the sidecar reads."""

PARSE_ERROR: Final = -32700
"""JSON-RPC's code for what is no JSON: found before it was sent, or by the sidecar."""

_INVALID_REQUEST: Final = -32600


class FrameTooLargeError(RequestRefusedError):
    """The request is larger than the wire takes; it was not sent."""


def identification(token: str) -> dict[str, Any]:
    """What every request of MCP 2026-07-28 says in its `_meta`: the revision, who asks, and what the client can do.

    A capability of ours presents the ticket. Runs are opened by name here, so nobody would use the process's own one.
    """
    return {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "memory_sidecar.harness", "version": __version__},
        "io.modelcontextprotocol/clientCapabilities": {
            "extensions": {EXTENSION: {"ticket": token, "default_run": False}}
        },
    }


def frame(message: dict[str, Any]) -> bytes:
    """`message` as it goes through the pipe.

    Raises:
        RequestRefusedError: it is none that can be sent.
    """
    try:
        text = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, TypeError) or str(error).startswith("Circular"):  # the harness's doing, not a model's
            raise RequestRefusedError(
                _INVALID_REQUEST,
                f"what was handed over is no JSON: {error}; pass dicts, lists, texts, numbers, booleans and None",
            ) from None
        raise RequestRefusedError(
            PARSE_ERROR,
            "what was handed over has something that JSON has no word for (NaN, Infinity), too large a number, or "
            "lists and objects nested too deeply; hand it over without",
        ) from None
    if len(text) > MAX_FRAME:
        # The sidecar would not read it, hence could not answer it under its id: the wait would never end.
        raise FrameTooLargeError(
            _INVALID_REQUEST,
            f"what was handed over takes more than {MAX_FRAME} bytes as JSON; hand over less at a time",
        )
    return text + b"\n"


def is_answer(message: object) -> bool:
    """Whether `message` is a JSON-RPC response: a result, or an error with its code and message."""
    if not isinstance(message, dict):
        return False
    if "result" in message:
        return message.get("id") is not None
    error = message.get("error")
    return isinstance(error, dict) and isinstance(error.get("code"), int) and isinstance(error.get("message"), str)

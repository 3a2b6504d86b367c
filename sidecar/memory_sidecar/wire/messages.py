"""The words of the wire: names, codes and the shapes of answers. MCP's wherever MCP has one."""

import json
from typing import Any, Final, NamedTuple

from ..tools.tool import Outcome

__all__ = [
    "EXTENSION",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "MISSING_REQUIRED_CLIENT_CAPABILITY",
    "PARSE_ERROR",
    "PROTOCOL_VERSION",
    "PROTOCOL_VERSIONS",
    "REFUSED",
    "RUN",
    "RUN_FINISH",
    "RUN_LIST",
    "RUN_OPEN",
    "RUN_SUSPEND",
    "UNSAVED",
    "Error",
    "Invalid",
    "Message",
    "Notification",
    "Request",
    "RequestId",
    "failure",
    "success",
    "tool_result",
]

PROTOCOL_VERSION: Final = "2025-11-25"
PROTOCOL_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", PROTOCOL_VERSION)
"""MCP revisions of the handshake era. A client that asks for another is answered the newest."""

# JSON-RPC 2.0, and MCP's schema for the last.
PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
MISSING_REQUIRED_CLIENT_CAPABILITY: Final = -32021

REFUSED: Final = -32000
"""The sidecar cannot start, or a run cannot be opened; the message is the remedy."""

EXTENSION: Final = "memory-sidecar/harness"
"""Where `initialize` presents the launch ticket, under capabilities.extensions or capabilities.experimental."""

RUN: Final = "memory-sidecar/run"
"""In `_meta`: the run a call belongs to, and in answers the run that served it."""

UNSAVED: Final = "memory-sidecar/unsaved"
"""In `_meta` of an answer: why the run's authority is not in its journal. Absent while it is."""

RUN_OPEN: Final = "memory-sidecar/run/open"
RUN_SUSPEND: Final = "memory-sidecar/run/suspend"
RUN_FINISH: Final = "memory-sidecar/run/finish"
RUN_LIST: Final = "memory-sidecar/run/list"

RequestId = str | int


class Request(NamedTuple):
    id: RequestId
    method: str
    params: dict[str, Any]


class Notification(NamedTuple):
    method: str
    params: dict[str, Any]


class Invalid(NamedTuple):
    """A frame that is no message; it is answered with an error, under its id if that could be read."""

    id: RequestId | None
    code: int
    message: str


Message = Request | Notification | Invalid


class Error(Exception):
    """Answer the request with this error."""

    def __init__(self, code: int, message: str, data: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data


def success(request_id: RequestId, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def failure(
    request_id: RequestId | None, code: int, message: str, data: dict[str, Any] | None = None
) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def tool_result(outcome: Outcome, run: str, unsaved: str | None) -> dict[str, Any]:
    """A tool's outcome as MCP's CallToolResult: structured, and the same JSON as text for older clients."""
    meta = {RUN: run} if unsaved is None else {RUN: run, UNSAVED: unsaved}
    if outcome.structured is None:
        return {"content": [{"type": "text", "text": outcome.error}], "isError": True, "_meta": meta}
    # The model reads this text: real letters, not \u escapes.
    text = json.dumps(outcome.structured, ensure_ascii=False, separators=(",", ":"))
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": outcome.structured,
        "isError": False,
        "_meta": meta,
    }

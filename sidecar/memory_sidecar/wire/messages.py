"""The words of the wire: names of methods and members, and the shapes of messages. MCP's wherever MCP has one."""

from ..hints import Any, Final, TypeGuard
from ..named_tuple import NamedTuple
from ..tools.encoded import Encoded
from ..tools.tool import Outcome

__all__ = [
    "DISCOVER",
    "EXTENSION",
    "IDENTITY",
    "INITIALIZE",
    "PING",
    "RUN",
    "RUN_FINISH",
    "RUN_LIST",
    "RUN_OPEN",
    "RUN_SUSPEND",
    "SERVER",
    "TOOLS_CALL",
    "TOOLS_LIST",
    "UNSAVED",
    "Invalid",
    "Message",
    "Notification",
    "Request",
    "RequestId",
    "failure",
    "is_id",
    "success",
    "tool_result",
]

EXTENSION: Final = "memory-sidecar/harness"
"""Our extension of MCP. Under this name a client presents the launch ticket, in `extensions` or `experimental` of its
capabilities; and under this name `server/discover` tells of the methods for runs."""

RUN: Final = "memory-sidecar/run"
"""In `_meta`: the run a call belongs to, and in answers the run that served it."""

IDENTITY: Final = "memory-sidecar/identity"
"""In `_meta`, beside the run, where one process serves many identities: whose run it is."""

UNSAVED: Final = "memory-sidecar/unsaved"
"""In `_meta` of an answer: why the run's authority is not in its journal. Absent while it is."""

SERVER: Final = "memory-sidecar"
"""How this server calls itself."""

INITIALIZE: Final = "initialize"
DISCOVER: Final = "server/discover"
PING: Final = "ping"
TOOLS_LIST: Final = "tools/list"
TOOLS_CALL: Final = "tools/call"
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


def is_id(value: object) -> TypeGuard[RequestId]:
    """Whether MCP takes it for a request id: text or a whole number."""
    return isinstance(value, str | int) and not isinstance(value, bool)


def success(request_id: RequestId, result: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def failure(
    request_id: RequestId | None, code: int, message: str, data: dict[str, Any] | None = None
) -> dict[str, Any]:
    error: dict[str, Any] = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return {"jsonrpc": "2.0", "id": request_id, "error": error}


def tool_result(outcome: Outcome, meta: dict[str, Any]) -> dict[str, Any]:
    """A tool's outcome as MCP's CallToolResult: structured, and the same JSON as text for older clients."""
    if outcome.structured is None:
        return {"content": [{"type": "text", "text": outcome.error}], "isError": True, "_meta": meta}
    known = outcome.structured
    structured = known if isinstance(known, Encoded) else Encoded(known)
    return {
        "content": [{"type": "text", "text": structured.text}],
        "structuredContent": structured,
        "isError": False,
        "_meta": meta,
    }

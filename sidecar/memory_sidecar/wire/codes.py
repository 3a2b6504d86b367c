"""The error codes that this program sends, in one table, and the exception that carries one to an answer.

JSON-RPC 2.0 has the first five; MCP's schema defines the two after them. What is our own lies outside of JSON-RPC's
reserved range (-32768 to -32000), as MCP 2026-07-28 asks of a program's own codes ("Error Codes" of its basic
protocol). docs/protocol.md lists the same table.
"""

from ..hints import Any, Final

__all__ = [
    "CODES",
    "INTERNAL_ERROR",
    "INVALID_PARAMS",
    "INVALID_REQUEST",
    "METHOD_NOT_FOUND",
    "MISSING_REQUIRED_CLIENT_CAPABILITY",
    "PARSE_ERROR",
    "REFUSED",
    "UNSUPPORTED_PROTOCOL_VERSION",
    "Error",
]

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603

MISSING_REQUIRED_CLIENT_CAPABILITY: Final = -32021
"""The launch ticket was not presented, or is not this process's to use."""

UNSUPPORTED_PROTOCOL_VERSION: Final = -32022
"""A modern request names a revision that is not spoken; `data` lists those that are."""

REFUSED: Final = 1000
"""The sidecar cannot start, or a run cannot be opened or ended; the message is the remedy, for the operator."""

CODES: Final = {
    PARSE_ERROR: "bad_request",
    INVALID_REQUEST: "bad_request",
    METHOD_NOT_FOUND: "bad_request",
    INVALID_PARAMS: "bad_request",
    INTERNAL_ERROR: "internal",
    MISSING_REQUIRED_CLIENT_CAPABILITY: "no_ticket",
    UNSUPPORTED_PROTOCOL_VERSION: "bad_request",
    REFUSED: "refused",
}
"""Every code that is ever sent, and what the log and telemetry call an answer with it."""


class Error(Exception):
    """Answer the request with this error. With `exit_status` the session ends after that answer, with that status."""

    def __init__(
        self, code: int, message: str, data: dict[str, Any] | None = None, *, exit_status: int | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.data = data
        self.exit_status = exit_status

"""The two eras of MCP, and how one request tells which it belongs to. Pure.

Legacy revisions (2024-11-05 to 2025-11-25) begin with `initialize`, and what follows rests on it. Modern ones
(2026-07-28 on) have no handshake: every request says its version and its client's capabilities in its own `_meta`,
and nothing is concluded from an earlier one. So the era is a property of the request and is never remembered; one
pipe may carry both, interleaved.

A new modern revision is a new entry in `MODERN_VERSIONS`, and a look at what its results must hold (`complete`).
"""

from ..enumeration import Enum
from ..hints import Any, Final
from ..version import __version__
from .codes import INVALID_PARAMS, UNSUPPORTED_PROTOCOL_VERSION, Error
from .messages import DISCOVER, INITIALIZE, SERVER, TOOLS_LIST, Request

__all__ = [
    "LEGACY_VERSIONS",
    "MODERN_VERSIONS",
    "SERVER_INFO",
    "VERSIONS",
    "Era",
    "client_capabilities",
    "client_name",
    "complete",
    "era_of",
    "handshake_version",
]

MODERN_VERSIONS: Final = ("2026-07-28",)
LEGACY_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
VERSIONS: Final = (*MODERN_VERSIONS, *LEGACY_VERSIONS)
"""Newest first. A dual-era server names both kinds to who asks for a version that it does not speak."""

_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES: Final = "io.modelcontextprotocol/clientCapabilities"
_CLIENT: Final = "io.modelcontextprotocol/clientInfo"
_SERVER: Final = "io.modelcontextprotocol/serverInfo"

SERVER_INFO: Final = {"name": SERVER, "version": __version__}

TTL_MS: Final = 0
"""How long a client may keep what it was told without asking again: a later launch may have other tools (`read_only`),
and the index in `instructions` changes with every write."""

_CACHEABLE: Final = (DISCOVER, TOOLS_LIST)


class Era(Enum):
    LEGACY = "legacy"
    MODERN = "modern"


def era_of(request: Request) -> Era:
    """`initialize` is legacy whatever it carries, for no modern revision has it; `server/discover` is modern.

    Any other request is modern if its `_meta` has one of the members that modern requests have, complete or not.
    """
    if request.method in (INITIALIZE, DISCOVER):
        return Era.LEGACY if request.method == INITIALIZE else Era.MODERN
    meta = request.params.get("_meta")
    if isinstance(meta, dict) and (_VERSION in meta or _CAPABILITIES in meta or _CLIENT in meta):
        return Era.MODERN
    return Era.LEGACY


def client_capabilities(request: Request) -> dict[str, Any]:
    """What the client of a modern request says it can do.

    Raises:
        Error: -32602 if `_meta` lacks one of the two required members; -32022 if its version is not spoken here. The
            version comes first, since it says how the capabilities are to be read.
    """
    meta = request.params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    version, capabilities = meta.get(_VERSION), meta.get(_CAPABILITIES)
    if not isinstance(version, str) or not isinstance(capabilities, dict):
        raise Error(INVALID_PARAMS, f"params._meta needs {_VERSION}, a text, and {_CAPABILITIES}, an object")
    if version not in MODERN_VERSIONS:
        raise Error(
            UNSUPPORTED_PROTOCOL_VERSION,
            f"this revision of MCP is not spoken in requests of their own; use {MODERN_VERSIONS[0]}, "
            f"or {LEGACY_VERSIONS[0]} by initialize",
            {"supported": list(VERSIONS), "requested": version},
        )
    return capabilities


def handshake_version(asked: str) -> str:
    """The revision that `initialize` is answered: the one asked for if it has a handshake, else the newest of those."""
    return asked if asked in LEGACY_VERSIONS else LEGACY_VERSIONS[0]


def client_name(request: Request, era: Era) -> str | None:
    """How a client calls itself: it tells an operator which host has the command in its list."""
    place = request.params if era is Era.LEGACY else request.params.get("_meta")
    info = place.get("clientInfo" if era is Era.LEGACY else _CLIENT) if isinstance(place, dict) else None
    name = info.get("name") if isinstance(info, dict) else None
    return name[:100] if isinstance(name, str) else None


def complete(method: str, result: dict[str, Any]) -> dict[str, Any]:
    """`result` with what a modern revision has in every result, and in those that a client may keep."""
    kept = {"ttlMs": TTL_MS, "cacheScope": "private"} if method in _CACHEABLE else {}
    meta = {**result.get("_meta", {}), _SERVER: SERVER_INFO}
    return {"resultType": "complete", **result, **kept, "_meta": meta}

"""Looks at one MCP server as a stranger with the official client would: every listing, every page.

It reads what the server offers, never calls a tool, gets a prompt or reads a resource: an audit has no side
effects. A server that speaks the revision without a handshake is asked again in the older one, since a
stranger may choose either.
"""

import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, cast

import anyio
import anyio.lowlevel

from .advice import MALFORMED, OWN_SERVER, TIME, explain, refusal
from .collect import Collector
from .files import told
from .launch import launched
from .observe import Transport, Watch, observed
from .result import Bounds, Target

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Client

__all__ = ["probe_server"]

_METHOD_NOT_FOUND: Final = -32601
# How often a server is asked again that says its lists changed; one that still says so is never done changing.
_ROUNDS: Final = 3
_LISTINGS: Final = (
    ("tools", "list_tools"),
    ("prompts", "list_prompts"),
    ("resources", "list_resources"),
    ("resources", "list_resource_templates"),
)


async def probe_server(target: Target, collector: Collector) -> None:
    """Look at one MCP server, within `collector.bounds`. Every failure becomes a reason; nothing is raised."""
    bounds = collector.bounds
    with anyio.CancelScope() as faults, anyio.move_on_after(bounds.seconds) as limit:
        watch = Watch(collector, faults)
        handshake_only = await _pass(target, collector, watch, "auto")
        if not handshake_only and not watch.failed:
            collector.new_listing()
            await _pass(target, collector, watch, "legacy")
    if limit.cancelled_caught and not faults.cancel_called:
        collector.unaudited(f"it did not finish answering within {bounds.seconds:g} seconds; {TIME}")


async def _pass(target: Target, collector: Collector, watch: Watch, mode: str) -> bool:
    """One connection. False if a client of the handshake's era, which need not be "auto", is yet to be tried."""
    from mcp.shared.exceptions import MCPError

    watch.closing = watch.connected = watch.modern = False
    watch.end = watch.refused = ""
    try:
        await _look(target, collector, watch, mode)
        return not watch.modern
    except BaseExceptionGroup as group:
        cancelled, others = group.split(anyio.get_cancelled_exc_class())
        if cancelled is not None:
            if others is not None:
                _unaudited(others, target, collector, watch)
            raise cancelled from None
        error: Exception = cast("Exception", others)
    except Exception as raised:  # noqa: BLE001 - whatever a server provokes is a reason, and the run goes on
        error = raised
    if mode == "auto" and not watch.connected and watch.end:
        return False  # it ended at a question of the era without a handshake
    if not watch.connected and watch.modern_seen and isinstance(error, MCPError) and not watch.end:
        return True  # it has no older revision to offer, so there is nothing to see in it
    _unaudited(error, target, collector, watch)
    return True


def _unaudited(error: BaseException, target: Target, collector: Collector, watch: Watch) -> None:
    if not watch.failed:  # what failed is told already
        collector.unaudited(_why(error, target, watch))


async def _look(target: Target, collector: Collector, watch: Watch, mode: str) -> None:
    from mcp.client import Client
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    bounds = collector.bounds
    client = Client(
        observed(_connect(target, bounds, watch), collector, watch),
        mode=mode,
        raise_exceptions=False,
        read_timeout_seconds=bounds.seconds,
        cache=None,
        # What a full client declares, since a server may offer more to one; what it then asks for is refused.
        sampling_callback=_refuse,
        sampling_capabilities=_sampling(),
        elicitation_callback=_refuse,
        list_roots_callback=_refuse,
    )
    async with client:
        watch.connected = True
        watch.modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
        watch.modern_seen = watch.modern_seen or watch.modern
        await _listings(client, collector, watch)


def _why(error: BaseException, target: Target, watch: Watch) -> str:
    """The reason for an error, or for the end of the server's output if that is what it comes from."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if watch.met_the_end(error):
        # A refusal that the client did not stop at tells more than the end that followed.
        return OWN_SERVER if refusal(watch.refused) == OWN_SERVER else watch.end
    return explain(error, target.kind, watch.status)


async def _refuse(context: Any, params: Any = None) -> Any:
    del context, params  # the SDK's names
    from mcp_types import INVALID_REQUEST, ErrorData

    return ErrorData(code=INVALID_REQUEST, message="an audit answers no requests")


def _sampling() -> Any:
    from mcp_types import SamplingCapability, SamplingContextCapability, SamplingToolsCapability

    return SamplingCapability(context=SamplingContextCapability(), tools=SamplingToolsCapability())


async def _listings(client: "Client", collector: Collector, watch: Watch) -> None:
    """Every listing, and again while the server says that one changed."""
    for _ in range(_ROUNDS):
        watch.changed = False
        for capability, name in _LISTINGS:
            await _listing(client, capability, name, collector, watch)
        collector.new_listing()
        # What it says after its last answer has come before it answers once more.
        await _listing(client, *_LISTINGS[0], collector, watch)
        collector.new_listing()
        if not watch.changed:
            return
    collector.unaudited(
        f"its lists changed each of the {_ROUNDS} times they were read; let it offer all it has before it is asked"
    )


async def _listing(client: "Client", capability: str, name: str, collector: Collector, watch: Watch) -> None:
    from mcp.shared.exceptions import MCPError

    fetch: Callable[..., Awaitable[Any]] = getattr(client, name)
    bounds = collector.bounds
    what = name.removeprefix("list_").replace("_", " ")
    cursor: str | None = None
    cursors: set[str] = set()
    entries = 0
    for _ in range(bounds.pages):
        try:
            page = await fetch(cursor=cursor)
        except MCPError as error:
            if watch.met_the_end(error):
                raise
            declared = getattr(client.server_capabilities, capability, None) is not None
            # A server of resources may have no templates, and then often no such method. What else it declares and
            # does not list is hidden: by a session that is lost, a firewall, or on purpose.
            excused = name == "list_resource_templates" and error.code == _METHOD_NOT_FOUND
            if cursor is not None or (declared and not excused):
                collector.unaudited(f"listing its {what} failed: {error}; its own log tells why")
            return
        except ValueError as malformed:
            collector.unaudited(f"its list of {what} is malformed: {told(malformed)}; {MALFORMED}")
            return
        entries += max((len(v) for v in vars(page).values() if isinstance(v, list)), default=0)
        if entries > bounds.entries:
            collector.unaudited(f"it lists more than {bounds.entries} {what}; {MALFORMED}")
            return
        cursor = page.next_cursor
        if cursor is None:
            return
        if cursor in cursors:
            collector.unaudited(f"it repeats a cursor while listing its {what}: {cursor[:80]!r}; {MALFORMED}")
            return
        cursors.add(cursor)
    collector.unaudited(f"its list of {what} has more than {bounds.pages} pages; {MALFORMED}")


# --- transports --------------------------------------------------------------------------------------------


def _connect(target: Target, bounds: Bounds, watch: Watch) -> Transport:
    if target.kind == "mcp":
        command = shlex.split(target.value)
        if not command:
            raise ValueError("the command is empty")
        return launched(command, bounds, watch.note, watch.ended)
    if target.kind == "sse":
        from mcp.client.sse import sse_client

        from .http import client

        def factory(headers: Any = None, timeout: Any = None, auth: Any = None) -> "httpx2.AsyncClient":
            del timeout  # the bounds decide
            return client(bounds, watch, watch.answered_events, headers=headers, auth=auth)

        return sse_client(
            target.value, timeout=bounds.seconds, sse_read_timeout=bounds.seconds, httpx_client_factory=factory
        )
    return _streamable_http(target.value, bounds, watch)


@asynccontextmanager
async def _streamable_http(url: str, bounds: Bounds, watch: Watch) -> AsyncIterator[tuple[Any, Any]]:
    from mcp.client.streamable_http import streamable_http_client

    from .http import client

    async with client(bounds, watch, watch.answered) as http, streamable_http_client(url, http_client=http) as streams:
        yield streams

"""Looks at one MCP server as a stranger with the official client would: every listing, every page.

It reads what the server offers, never calls a tool, gets a prompt or reads a resource: an audit has no side
effects. A server that speaks the revision without a handshake is asked again in the older one, since a
stranger may choose either.
"""

import re
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.lowlevel

from .advice import MALFORMED, OWN_SERVER, TIME, explain, refusal
from .collect import Collector
from .files import ambiguous, told
from .launch import TransportError, launched
from .result import Bounds, Target

if TYPE_CHECKING:
    import httpx2
    from mcp.client import Client

__all__ = ["probe_server"]

Transport = AbstractAsyncContextManager[tuple[Any, Any]]

_METHOD_NOT_FOUND: Final = -32601
# How often a server is asked again that says its lists changed; one that still says so is never done changing.
_ROUNDS: Final = 3
_CHANGED: Final = re.compile(r"notifications/(?:tools|prompts|resources)/list_changed")
_LISTINGS: Final = (
    ("tools", "list_tools"),
    ("prompts", "list_prompts"),
    ("resources", "list_resources"),
    ("resources", "list_resource_templates"),
)


class _Watch:
    """Ends a probe at the first fault of its transport, and remembers it."""

    def __init__(self, collector: Collector, scope: anyio.CancelScope) -> None:
        self._collector = collector
        self._scope = scope
        self.closing = False
        self.failed = False
        self.status = 0
        """The last HTTP status, if it was no success, else 0."""
        self.end = ""
        """Why no more can come from a command that closed its output; empty while it may."""
        self.refused = ""
        """The last answer's error, if it was one."""
        self.changed = False
        """Whether it said that its lists changed, since this was last made False."""

    def fail(self, reason: str) -> None:
        if not self.closing and not self.failed:
            self.failed = True
            self._collector.unaudited(reason)
            self._scope.cancel()

    def ended(self, reason: str) -> None:
        """The command says no more. What it said before is still handled; then whoever waits for more finds this."""
        self.end = reason

    def met_the_end(self, error: BaseException) -> bool:
        """Whether an error of the client is the end of the output, and not an answer that has the same code."""
        from mcp_types import CONNECTION_CLOSED

        closed = getattr(error, "code", None) == CONNECTION_CLOSED
        return bool(self.end) and closed and str(error) != self.refused

    def note(self, reason: str) -> None:
        """Something that others may see otherwise; the probe goes on."""
        self._collector.unaudited(reason)


async def probe_server(target: Target, collector: Collector) -> None:
    """Look at one MCP server, within `collector.bounds`. Every failure becomes a reason; nothing is raised."""
    bounds = collector.bounds
    with anyio.CancelScope() as faults, anyio.move_on_after(bounds.seconds) as limit:
        watch = _Watch(collector, faults)
        modern = await _pass(target, collector, watch, "auto")
        if modern and not watch.failed:
            collector.new_listing()
            await _pass(target, collector, watch, "legacy")
    if limit.cancelled_caught and not faults.cancel_called:
        collector.unaudited(f"it did not finish answering within {bounds.seconds:g} seconds; {TIME}")


async def _pass(target: Target, collector: Collector, watch: _Watch, mode: str) -> bool:
    """One connection. True if the server spoke the revision without a handshake."""
    from mcp.client import Client
    from mcp.shared.exceptions import MCPError
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    bounds = collector.bounds
    connected = False
    watch.closing = False
    watch.end = watch.refused = ""
    try:
        transport = _observed(_connect(target, bounds, watch), collector, watch)
        client = Client(
            transport,
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
            connected = True
            modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
            await _listings(client, collector, watch)
        return modern
    except MCPError as error:
        if connected or mode == "auto" or watch.end:
            collector.unaudited(_why(error, target, watch))
        # else: it has no older revision to offer, so there is nothing to see in it.
    except BaseExceptionGroup as group:
        cancelled, others = group.split(anyio.get_cancelled_exc_class())
        if others is not None:
            collector.unaudited(_why(others, target, watch))
        if cancelled is not None:
            raise cancelled from None
    except Exception as error:  # noqa: BLE001 - whatever a server provokes is a reason, and the run goes on
        collector.unaudited(_why(error, target, watch))
    return False


def _why(error: BaseException, target: Target, watch: _Watch) -> str:
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


async def _listings(client: "Client", collector: Collector, watch: _Watch) -> None:
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


async def _listing(client: "Client", capability: str, name: str, collector: Collector, watch: _Watch) -> None:
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
            if cursor is not None or (declared and error.code != _METHOD_NOT_FOUND):
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


def _connect(target: Target, bounds: Bounds, watch: _Watch) -> Transport:
    if target.kind == "mcp":
        command = shlex.split(target.value)
        if not command:
            raise ValueError("the command is empty")
        return launched(command, bounds, watch.note, watch.ended)
    if target.kind == "sse":
        from mcp.client.sse import sse_client

        def factory(headers: Any = None, timeout: Any = None, auth: Any = None) -> "httpx2.AsyncClient":
            del timeout  # the bounds decide
            return _http_client(bounds, watch, "sse", headers=headers, auth=auth)

        return sse_client(
            target.value, timeout=bounds.seconds, sse_read_timeout=bounds.seconds, httpx_client_factory=factory
        )
    return _streamable_http(target.value, bounds, watch)


@asynccontextmanager
async def _streamable_http(url: str, bounds: Bounds, watch: _Watch) -> AsyncIterator[tuple[Any, Any]]:
    from mcp.client.streamable_http import streamable_http_client

    async with _http_client(bounds, watch, "url") as http, streamable_http_client(url, http_client=http) as streams:
        yield streams


def _http_client(bounds: Bounds, watch: _Watch, kind: str, **kwargs: Any) -> "httpx2.AsyncClient":
    """A client that stops at the byte limit. No proxy, no `.netrc`: a stranger has none of the caller's."""
    import httpx2

    received = 0

    class Counted(httpx2.AsyncByteStream):
        def __init__(self, inner: Any, events: bool) -> None:
            self._inner = inner
            self._events = events
            self._said = bytearray()

        async def __aiter__(self) -> AsyncIterator[bytes]:
            nonlocal received
            async for chunk in self._inner:
                received += len(chunk)
                if received > bounds.received:
                    watch.fail(f"it answered with more than {bounds.received} bytes; {MALFORMED}")
                    raise httpx2.ReadError("too much")
                self._said += chunk
                if self._events:  # one message an event, and an event's data is a line
                    *lines, rest = self._said.split(b"\n")
                    self._said = bytearray(rest)
                    for line in lines:
                        self._check(line.removeprefix(b"data:"))
                yield chunk
            self._check(self._said)

        def _check(self, message: bytes | bytearray) -> None:
            if twice := ambiguous(bytes(message)):
                watch.note(f"{twice}; {MALFORMED}")

        async def aclose(self) -> None:
            await self._inner.aclose()

    class Bounded(httpx2.AsyncHTTPTransport):
        async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
            # What is counted is what arrives; a compressed answer would grow only after that.
            request.headers["Accept-Encoding"] = "identity"
            response = await super().handle_async_request(request)
            # Asking to hear more, and hanging up, may be refused by a server that works.
            if request.method == "POST" or kind == "sse":
                watch.status = response.status_code if response.status_code >= 300 else 0
            events = "event-stream" in response.headers.get("content-type", "")
            response.stream = Counted(response.stream, events)
            return response

    return httpx2.AsyncClient(transport=Bounded(), timeout=httpx2.Timeout(bounds.seconds), trust_env=False, **kwargs)


@asynccontextmanager
async def _observed(inner: Transport, collector: Collector, watch: _Watch) -> AsyncIterator[tuple[Any, Any]]:
    """`inner`, with every result that comes through it judged as it is on the wire.

    The client drops fields and tools that it does not understand; another stranger's client may not.
    """
    async with inner as (read, write):
        forward, observed = anyio.create_memory_object_stream[Any](0)

        async def relay() -> None:
            async with forward:
                with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                    async for item in read:
                        if isinstance(item, TransportError):
                            watch.fail(str(item))
                            return
                        if isinstance(item, Exception):
                            watch.fail(f"it answered with something that is not JSON-RPC: {told(item)}; {MALFORMED}")
                            return
                        message = getattr(item, "message", None)
                        if _CHANGED.fullmatch(str(getattr(message, "method", ""))):
                            watch.changed = True
                        watch.refused = str(getattr(getattr(message, "error", None), "message", ""))
                        result = getattr(message, "result", None)
                        if isinstance(result, dict):
                            for _ in collector.result(result):
                                await anyio.lowlevel.checkpoint()  # so that the time limit can end a long list
                        await forward.send(item)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(relay)
            try:
                yield observed, write
            finally:
                watch.closing = True
                observed.close()
                tasks.cancel_scope.cancel()

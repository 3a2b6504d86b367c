"""Stands between a transport and the SDK's client: judges what comes as it is on the wire, and notices how it ends."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Final

import anyio
import anyio.lowlevel

from .advice import MALFORMED, QUIET
from .collect import Collector
from .files import told
from .launch import TransportError

__all__ = ["Transport", "Watch", "observed"]

Transport = AbstractAsyncContextManager[tuple[Any, Any]]

_CHANGED: Final = re.compile(r"notifications/(?:tools|prompts|resources)/list_changed")


class Watch:
    """Ends a probe at the first fault of its transport, and remembers it."""

    def __init__(self, collector: Collector, scope: anyio.CancelScope) -> None:
        self._collector = collector
        self._scope = scope
        self.closing = False
        self.connected = False
        """Whether the client has agreed with it on a revision, and on one without a handshake."""
        self.modern = False
        self.modern_seen = False
        """Whether any connection was modern."""
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

    def answered(self, method: str, status: int) -> None:
        """An HTTP status. Asking to hear more, and hanging up, may be refused by a server that works."""
        if method == "POST":
            self.status = status if status >= 300 else 0

    def answered_events(self, method: str, status: int) -> None:
        """The same over SSE, where hearing more is what a client asks for first."""
        del method
        self.status = status if status >= 300 else 0

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


@asynccontextmanager
async def observed(inner: Transport, collector: Collector, watch: Watch) -> AsyncIterator[tuple[Any, Any]]:
    """`inner`, with every result that comes through it judged as it is on the wire.

    The client drops fields and tools that it does not understand; another stranger's client may not. A question of the
    era without a handshake that gets no answer is answered here after a third of the time: then the client goes on with
    a handshake, as it does where the server knows no such question.
    """
    async with inner as (read, write), anyio.create_task_group() as tasks:
        forward, seen = anyio.create_memory_object_stream[Any](0)
        sent, sending = anyio.create_memory_object_stream[Any](0)
        relay = _Relay(forward, collector, watch)
        tasks.start_soon(_until_closed, relay.inward, read)
        tasks.start_soon(_until_closed, relay.outward, sending, write, tasks)
        try:
            yield seen, sent
        finally:
            watch.closing = True
            for stream in (forward, seen, sent, sending):
                stream.close()
            tasks.cancel_scope.cancel()


async def _until_closed(work: Callable[..., Awaitable[None]], *args: Any) -> None:
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        await work(*args)


class _Relay:
    """Hands messages on, in both directions."""

    def __init__(self, forward: Any, collector: Collector, watch: Watch) -> None:
        self._forward = forward
        self._collector = collector
        self._watch = watch
        self._asked = 0
        self._answered: set[Any] = set()

    async def inward(self, read: Any) -> None:
        """What the server says."""
        async with self._forward:
            async for item in read:
                message = _message(item, self._watch)
                if message is None or self._too_many(message):
                    return
                await anyio.lowlevel.checkpoint()  # so that the time limit comes between a flood's messages
                result = getattr(message, "result", None)
                if isinstance(result, dict):
                    for _ in self._collector.result(result):
                        await anyio.lowlevel.checkpoint()  # so that it can end a long list
                await self._forward.send(item)

    def _too_many(self, message: Any) -> bool:
        if not hasattr(message, "method"):
            self._answered.add(getattr(message, "id", None))
            return False
        self._asked += 1
        most = self._collector.bounds.asked
        if self._asked > most:
            self._watch.fail(f"it sent more than {most} requests and notifications; {QUIET}")
        return self._asked > most

    async def outward(self, sending: Any, write: Any, tasks: anyio.abc.TaskGroup) -> None:
        """What the client says."""
        async for item in sending:
            if getattr(item.message, "method", None) == "server/discover":
                tasks.start_soon(_until_closed, self._instead, item.message.id)
            await write.send(item)

    async def _instead(self, request: Any) -> None:
        from mcp.shared.message import SessionMessage
        from mcp_types import METHOD_NOT_FOUND, ErrorData, JSONRPCError

        await anyio.sleep(self._collector.bounds.seconds / 3)
        if request not in self._answered:
            silence = ErrorData(code=METHOD_NOT_FOUND, message="no answer")
            await self._forward.send(SessionMessage(JSONRPCError(jsonrpc="2.0", id=request, error=silence)))


def _message(item: Any, watch: Watch) -> Any:
    """The message that came, or None if something else did and ended it all."""
    if isinstance(item, TransportError):
        watch.fail(str(item))
        return None
    if isinstance(item, Exception):
        watch.fail(f"it answered with something that is not JSON-RPC: {told(item)}; {MALFORMED}")
        return None
    message = getattr(item, "message", None)
    if _CHANGED.fullmatch(str(getattr(message, "method", ""))):
        watch.changed = True
    watch.refused = str(getattr(getattr(message, "error", None), "message", ""))
    return message

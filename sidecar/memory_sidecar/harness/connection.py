"""JSON-RPC over the sidecar's pipes, from the launching side: requests out, answers matched by id."""

import json
from collections.abc import Mapping
from typing import Any, Final

import anyio
from anyio.abc import Process

from .errors import RequestRefusedError, SidecarDiedError
from .tracing import with_trace

__all__ = ["MAX_FRAME", "Connection", "FrameTooLargeError"]

MAX_FRAME: Final = 1024 * 1024
"""Bytes in a frame, newline not counted, that the sidecar reads."""


class FrameTooLargeError(RequestRefusedError):
    """The request is larger than the wire takes; it was not sent."""


class _Waiting:
    """A request under way: the event to wait for, and the answer once it is there."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.answer: dict[str, Any] | None = None


class Connection:
    """One sidecar's pipes. `receive` must run in a task for as long as requests are made; `close` ends it.

    It outlives a cancellation of the harness: what is still to be said then, a suspend above all, needs its answer.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._waiting: dict[int, _Waiting] = {}
        self._next = 1
        self._writing = anyio.Lock()
        self._closed = False
        self._receiving = anyio.CancelScope(shield=True)
        self._foreign = False

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its result. Cancelling the wait cancels the request.

        The current span of a harness that traces itself goes along (see `tracing`).

        Raises:
            RequestRefusedError: the answer is an error.
            SidecarDiedError: the process ended before it answered.
        """
        number, self._next = self._next, self._next + 1
        waiting = self._waiting[number] = _Waiting()
        try:
            if self._closed:
                raise await self._died()
            await self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": with_trace(params)})
            try:
                await waiting.done.wait()
            except anyio.get_cancelled_exc_class():
                # Said even though this task is being cancelled, but never waited for long.
                with anyio.move_on_after(1, shield=True):
                    await self.notify("notifications/cancelled", {"requestId": number})
                raise
        finally:
            del self._waiting[number]
        if waiting.answer is None:
            raise await self._died()
        if "error" in waiting.answer:
            error = waiting.answer["error"]
            raise RequestRefusedError(error["code"], error["message"])
        result: dict[str, Any] = waiting.answer["result"]
        return result

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification; a sidecar that is gone does not mind."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        try:
            await self._send(message)
        except SidecarDiedError:
            return

    async def receive(self) -> None:
        """Match answers to requests until the sidecar closes its end; then fail what still waits."""
        try:
            with self._receiving:
                await self._receive()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        except ValueError:
            self._foreign = True
        finally:
            self._closed = True
            for waiting in self._waiting.values():
                waiting.done.set()

    def close(self) -> None:
        """Stop receiving, even if something still holds the other end open."""
        self._receiving.cancel()

    async def _receive(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - launched with a pipe
        parts: list[bytes] = []
        async for data in self._process.stdout:
            first, *more = data.split(b"\n")
            parts.append(first)
            for part in more:
                self._match(json.loads(b"".join(parts)))
                parts = [part]

    def _match(self, message: object) -> None:
        if not isinstance(message, dict) or not ("result" in message or "error" in message):
            raise ValueError("this is no answer")
        number = message.get("id")
        waiting = self._waiting.get(number) if isinstance(number, int) else None
        if waiting is not None:
            waiting.answer = message
            waiting.done.set()

    async def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None  # noqa: S101 - launched with a pipe
        frame = json.dumps(message, separators=(",", ":")).encode() + b"\n"
        if len(frame) > MAX_FRAME + 1:
            # The sidecar would not read it, hence could not answer it under its id: the wait would never end.
            raise FrameTooLargeError(-32600, f"the request is longer than {MAX_FRAME} bytes; send less at a time")
        async with self._writing:
            # A frame that was begun must be finished, or the next one would continue it.
            with anyio.CancelScope(shield=True):
                try:
                    await self._process.stdin.send(frame)
                except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError) as error:
                    raise await self._died() from error

    async def _died(self) -> SidecarDiedError:
        if self._foreign:
            return SidecarDiedError("what was launched does not speak as a memory sidecar does; check the command")
        status: int | None = None
        with anyio.move_on_after(2, shield=True):
            status = await self._process.wait()
        how = "closed its pipe" if status is None else f"ended with status {status}"
        return SidecarDiedError(f"the memory sidecar {how} before it answered; its log on stderr may say why")

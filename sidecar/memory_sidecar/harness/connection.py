"""JSON-RPC over the sidecar's pipes, from the launching side: requests out, answers matched by id."""

import json
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import anyio
from anyio.abc import Process

from .errors import RequestRefusedError, SidecarDiedError, SidecarError, ending
from .tracing import with_trace

__all__ = ["MAX_FRAME", "PARSE_ERROR", "Connection", "FrameTooLargeError"]

MAX_FRAME: Final = 1024 * 1024
"""Bytes in a frame, newline not counted, that the sidecar reads."""


PARSE_ERROR: Final = -32700
"""JSON-RPC's code for what is no JSON: found before it was sent, or by the sidecar."""

_INVALID_REQUEST: Final = -32600


class FrameTooLargeError(RequestRefusedError):
    """The request is larger than the wire takes; it was not sent."""


class _Waiting:
    """A request under way: the event to wait for, and the answer once it is there."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.answer: dict[str, Any] | None = None
        self.unread: str | None = None


class Connection:
    """One sidecar's pipes. `receive` and `send` must each run in a task for as long as requests are made.

    Both outlive a cancellation of the harness: what is still to be said then, a suspend above all, needs its answer.
    And no caller writes to the pipe itself: one that is cancelled leaves no half of a frame behind, nor waits for a
    sidecar that does not read.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        self._waiting: dict[int, _Waiting] = {}
        self._next = 1
        self._outgoing: deque[tuple[int, bytes]] = deque()
        self._more = anyio.Event()
        self._closed = False
        self._receiving = anyio.CancelScope(shield=True)
        self._sending = anyio.CancelScope(shield=True)
        self._foreign = False
        self.silent = False
        """Whether the sidecar let somebody wait in vain, and has answered nothing since."""

    async def request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return its result. Cancelling the wait cancels the request.

        The current span of a harness that traces itself goes along (see `tracing`).

        Raises:
            RequestRefusedError: the answer is an error, or the request is none that can be sent.
            SidecarError: the sidecar could not read a request, and this may be it.
            SidecarDiedError: the process ended before it answered.
        """
        number, self._next = self._next, self._next + 1
        frame = _frame({"jsonrpc": "2.0", "id": number, "method": method, "params": with_trace(params)})
        if self._closed:
            raise await self._died()
        waiting = self._waiting[number] = _Waiting()
        self._put(number, frame)
        try:
            await waiting.done.wait()
        except anyio.get_cancelled_exc_class():
            if not self._withdraw(number):
                self.notify("notifications/cancelled", {"requestId": number})
            raise
        finally:
            del self._waiting[number]
        if waiting.unread is not None:
            raise SidecarError(
                f"the sidecar could not read a request, and does not say which ({waiting.unread}); it may be this one, "
                "so look whether it was served before you repeat it"
            )
        if waiting.answer is None:
            raise await self._died()
        if "error" in waiting.answer:
            error = waiting.answer["error"]
            raise RequestRefusedError(error["code"], error["message"])
        result: dict[str, Any] = waiting.answer["result"]
        return result

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification soon; a sidecar that is gone does not mind."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        if not self._closed:
            self._put(0, _frame(message))

    async def receive(self) -> None:
        """Match answers to requests until the sidecar closes its end; then fail what still waits."""
        try:
            with self._receiving:
                await self._receive()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        except (ValueError, RecursionError):
            self._foreign = True
        finally:
            self._closed = True
            for waiting in self._waiting.values():
                waiting.done.set()

    async def send(self) -> None:
        """Write frames, each whole, until the sidecar closes its end; then fail those that it did not get."""
        assert self._process.stdin is not None  # noqa: S101 - launched with a pipe
        with self._sending, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            while not self._closed:
                while self._outgoing:
                    await self._process.stdin.send(self._outgoing[0][1])
                    self._outgoing.popleft()
                self._more = anyio.Event()
                await self._more.wait()
        self._closed = True
        for number, _ in self._outgoing:
            if number in self._waiting:
                self._waiting[number].done.set()

    def close(self) -> None:
        """Stop, even if something still holds the other ends open."""
        self._receiving.cancel()
        self._sending.cancel()

    async def ended(self) -> str:
        """How the process ended, once it has, as the beginning of a sentence."""
        if self._foreign:
            return "what was launched does not speak as a memory sidecar does"
        status: int | None = None
        with anyio.move_on_after(2, shield=True):
            status = await self._process.wait()
        return f"the memory sidecar {ending(status)} before it answered"

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
        if not isinstance(message, dict) or not ("result" in message or _is_error(message.get("error"))):
            raise ValueError("this is no answer")
        self.silent = False
        number = message.get("id")
        if number is None:
            if "result" in message:
                raise ValueError("this is nobody's answer")
            self._fail_unread(message["error"]["message"])
            return
        waiting = self._waiting.get(number) if isinstance(number, int) else None
        if waiting is not None:
            waiting.answer = message
            waiting.done.set()

    def _fail_unread(self, reason: str) -> None:
        """Fail what may be the request that the sidecar could not read: that one would wait for ever."""
        unsent = {number for number, _ in [*self._outgoing][1:]}
        for number, waiting in self._waiting.items():
            if number not in unsent:
                waiting.unread = reason
                waiting.done.set()

    def _put(self, number: int, frame: bytes) -> None:
        self._outgoing.append((number, frame))
        self._more.set()

    def _withdraw(self, number: int) -> bool:
        """Take a request back that was not begun to be written. Whether it could be."""
        queued = [waiting for waiting, _ in self._outgoing]
        if number not in queued[1:]:  # the first may be half way through the pipe
            return False
        del self._outgoing[queued.index(number)]
        return True

    async def _died(self) -> SidecarDiedError:
        how = await self.ended()
        return SidecarDiedError(f"{how}; what it acknowledged is saved: launch it again and resume the run")


def _is_error(value: object) -> bool:
    return isinstance(value, dict) and isinstance(value.get("code"), int) and isinstance(value.get("message"), str)


def _frame(message: dict[str, Any]) -> bytes:
    try:
        frame = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        if isinstance(error, TypeError) or str(error).startswith("Circular"):  # the harness's doing, not a model's
            raise RequestRefusedError(
                _INVALID_REQUEST,
                f"the request is no JSON: {error}; pass dicts, lists, texts, numbers, booleans and None",
            ) from None
        raise RequestRefusedError(
            PARSE_ERROR,
            "the request holds what JSON has no word for (NaN, Infinity), too large a number, or lists and objects "
            "nested too deeply; send it without",
        ) from None
    if len(frame) > MAX_FRAME:
        # The sidecar would not read it, hence could not answer it under its id: the wait would never end.
        raise FrameTooLargeError(_INVALID_REQUEST, f"the request is longer than {MAX_FRAME} bytes; send less at a time")
    return frame + b"\n"

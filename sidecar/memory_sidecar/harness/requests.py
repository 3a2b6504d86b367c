"""Requests under way, and the frames that the pipe has not taken yet: what callers and the pump thread share.

All of it lies under one lock, which is held for moments. Futures are settled outside of it: their callbacks are
somebody else's code.
"""

import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final

from .child import Child
from .errors import RequestRefusedError, SidecarError

__all__ = ["Request", "Requests"]


class Request(Future[dict[str, Any]]):
    """A request under way. Its result is the answer's; `Connection.request` names what it can fail with."""

    def __init__(self, number: int, seconds: float | None = None) -> None:
        super().__init__()
        self.number: Final = number
        self.sent = True
        """Whether the sidecar may have got it."""
        self.deadline = None if seconds is None else time.monotonic() + seconds


class Requests:
    """The table of one connection."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._lock = threading.RLock()  # `wake` may be called by a finalizer, at any moment of the thread that holds it
        self._waiting: dict[int, Request] = {}
        self._timed: dict[int, Request] = {}
        self._outgoing: deque[tuple[int, bytes]] = deque()
        self._begun = False  # whether a part of the first outgoing frame is in the pipe
        self._writable = True
        self._over: Callable[[], SidecarError] | None = None
        self._woken, self._wake = child.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self.woken: Final = self._woken
        """Readable when the thread has something new to look at."""

    def add(self, request: Request, frame: bytes) -> None:
        """Send a request, and wait for its answer."""
        with self._lock:
            over = self._over
            if over is None:
                self._waiting[request.number] = request
                if request.deadline is not None:
                    self._timed[request.number] = request
                self._send(request.number, frame)
        if over is not None:
            request.sent = False
            request.set_exception(over())

    def say(self, frame: bytes) -> None:
        """Send what is not answered."""
        with self._lock:
            if self._over is None:
                self._send(0, frame)

    def _send(self, number: int, frame: bytes) -> None:
        """Write a frame at once where that can neither block nor tear it, else leave it to the thread.

        A caller may be interrupted between any two steps. POSIX takes up to PIPE_BUF bytes whole or not at all.
        """
        if not self._outgoing and self._writable and len(frame) <= select.PIPE_BUF and _survives_a_broken_pipe():
            try:
                os.write(self._child.stdin, frame)
            except BlockingIOError:
                self._outgoing.append((number, frame))
            except OSError:  # it is gone, as the thread is about to see
                return
            else:
                if number not in self._timed:
                    return
        else:
            self._outgoing.append((number, frame))
        self.wake()

    def wake(self) -> None:
        """Let the thread look around."""
        with self._lock:
            if self._over is None:
                with suppress(BlockingIOError):  # it has been woken often enough
                    os.write(self._wake, b"\0")

    def withdraw(self, request: Request) -> bool:
        """Wait for the answer no longer. Whether the sidecar may have got the request, and must be told."""
        with self._lock:
            self._timed.pop(request.number, None)
            if self._waiting.pop(request.number, None) is None:
                return False
            for place, (number, _) in enumerate(self._outgoing):
                if number == request.number and not (place == 0 and self._begun):
                    del self._outgoing[place]
                    return False
            return True

    def limit(self, request: Request, seconds: float) -> None:
        """Let a request that is under way be answered within `seconds` from now."""
        with self._lock:
            if request.number in self._waiting:
                request.deadline = time.monotonic() + seconds
                self._timed[request.number] = request
                self.wake()

    # --- the thread's side ---

    def flush(self) -> None:
        """Write what the pipe takes."""
        with self._lock:
            while self._outgoing and self._writable:
                number, frame = self._outgoing[0]
                try:
                    written = os.write(self._child.stdin, frame)
                except BlockingIOError:
                    return
                except OSError:
                    self._outgoing.clear()
                    return
                self._begun = written < len(frame)
                if self._begun:
                    self._outgoing[0] = number, frame[written:]
                else:
                    self._outgoing.popleft()

    def unsent(self) -> bool:
        return bool(self._outgoing)

    def hang_up(self) -> None:
        """Close the sidecar's stdin."""
        with self._lock:
            self._writable = False
            self._outgoing.clear()
            self._child.close(self._child.stdin)

    def settle(self, message: dict[str, Any]) -> None:
        """Give an answer to whoever waits for it, if anybody still does.

        Raises:
            ValueError: it is nobody's answer.
        """
        number = message.get("id")
        if number is None:
            self._fail_sent(message["error"]["message"])
            return
        with self._lock:
            self._timed.pop(number, None) if isinstance(number, int) else None
            request = self._waiting.pop(number, None) if isinstance(number, int) else None
        if request is None:
            return
        if "error" in message:
            error = message["error"]
            request.set_exception(RequestRefusedError(error["code"], error["message"]))
        else:
            request.set_result(message["result"])

    def _fail_sent(self, reason: str) -> None:
        """Fail what may be the request that the sidecar could not read: that one would wait for ever."""
        with self._lock:
            unsent = {number for number, _ in self._outgoing}
            failed = [request for number, request in self._waiting.items() if number not in unsent]
            for request in failed:
                del self._waiting[request.number]
                self._timed.pop(request.number, None)
        for request in failed:
            request.set_exception(
                SidecarError(
                    f"the sidecar could not read a request, and does not say which ({reason}); it may be this one, "
                    "so look whether it was served before you repeat it"
                )
            )

    def deadline(self) -> float | None:
        """When the first wait is over, on the monotonic clock."""
        with self._lock:
            return min((request.deadline or 0.0 for request in self._timed.values()), default=None)

    def expire(self) -> bool:
        """Fail what has waited long enough with a TimeoutError. Whether there was any."""
        now = time.monotonic()
        with self._lock:
            late = [request for request in self._timed.values() if (request.deadline or 0.0) <= now]
            for request in late:
                del self._timed[request.number]
                self._waiting.pop(request.number, None)
        for request in late:
            request.set_exception(TimeoutError())
        return bool(late)

    def fail(self, error: Callable[[], SidecarError], *, over: bool) -> None:
        """Fail all that waits, each with an error of its own; if `over`, whatever is asked from now on too."""
        with self._lock:
            if over:
                self._over = error
                self._writable = False
                self._outgoing.clear()
                self._child.forget()
            failed = list(self._waiting.values())
            self._waiting.clear()
            self._timed.clear()
        for request in failed:
            request.set_exception(error())


def _survives_a_broken_pipe() -> bool:
    """Whether writing to a sidecar that has died is an error and not the end of this process.

    Python ignores SIGPIPE, but a program may have set it back. The thread blocks the signal.
    """
    return signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN

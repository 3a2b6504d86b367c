"""The thread that attends to one sidecar: reads, writes, keeps the time, and sees to the end of the process.

Nobody can cancel it. What must happen at the end of a launch happens here, within bounds: the pipe is closed; then
comes SIGTERM, then SIGKILL.
"""

import json
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Final

from . import bounds
from .child import Child
from .errors import died, ending, launch_left
from .frames import is_answer
from .requests import Requests

__all__ = ["Pump"]

_FAULTS: Final = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS"}
_LOOK_SECONDS: Final = 0.05
"""How often an ending process is looked at where no descriptor tells."""

_LOG_SECONDS: Final = 1.0
"""How long the end waits for the last lines of a log that goes to an object of the harness's own."""

_FOREIGN: Final = "what was launched does not speak as a memory sidecar does"


class Pump(threading.Thread):
    """The thread of one connection. `ended` is settled once the process has ended and all is closed."""

    def __init__(self, child: Child, requests: Requests, log: threading.Thread | None) -> None:
        super().__init__(name=f"memory-sidecar {child.pid}", daemon=True)
        self.ended: Future[None] = Future()
        self.silent = False
        """Whether the sidecar let somebody wait in vain, and has answered nothing since."""
        self.left = False
        """Whether the harness wants it to end."""
        self.forced: str | None = None
        """The signal that it took to end the process; None if it took none."""
        self.how: str | None = None
        """How the process ended, as the beginning of a sentence."""
        self._child = child
        self._requests = requests
        self._log = log
        self._parts: list[bytes] = []
        self._foreign = False
        self._deaf = False  # whether stdout is at its end
        self._hung_up = False
        self._limit: float | None = None  # when the next of the steps is due
        self._steps: list[Callable[[], None]] = [child.terminate, child.kill]
        self._poll = select.poll()
        self._writing = False
        self._handlers: dict[int, Callable[[], object]] = {}
        self._watch(requests.woken, lambda: os.read(requests.woken, 4096))
        self._watch(child.stdout, self._read)
        if child.pidfd is not None:
            self._watch(child.pidfd, lambda: None)

    def run(self) -> None:
        # A signal that this thread got would not interrupt the main one, which may be waiting for it.
        faults = {number for number in signal.Signals if number.name in _FAULTS}
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - faults)
        while not self._turn():
            pass
        self._finish()

    def _turn(self) -> bool:
        """Wait for something to do, and do it. Whether the process has ended."""
        if self._requests.unsent() != self._writing and not self._hung_up:
            self._writing = not self._writing
            if self._writing:
                self._watch(self._child.stdin, self._requests.flush, select.POLLOUT)
            else:
                self._ignore(self._child.stdin)
        for descriptor, _ in self._poll.poll(self._milliseconds()):
            self._handlers.get(descriptor, int)()
        if self._requests.expire():
            self.silent = True
        self._see_to_the_end()
        return self._child.status() is not None

    def end_within(self, seconds: float) -> None:
        """Let the sidecar end, by itself for so long. From any thread; the shortest time that was said counts."""
        limit = time.monotonic() + seconds
        if len(self._steps) == 2 and (self._limit is None or limit < self._limit):
            self._limit = limit
            self._requests.wake()

    def _see_to_the_end(self) -> None:
        if self._limit is None:
            return
        late = time.monotonic() >= self._limit
        if not self._hung_up and (late or not self._requests.unsent()):
            if self._writing:
                self._ignore(self._child.stdin)
            self._hung_up = True
            self._requests.hang_up()
        if late and self._steps:
            if self._deaf:
                self._fail()  # it will answer nothing any more, and waits are over before it is
            self.forced = "SIGKILL" if self.forced else "SIGTERM"
            self._steps.pop(0)()
            self._limit = time.monotonic() + bounds.KILL_SECONDS

    def _finish(self) -> None:
        if not self._deaf:
            self._read()
        if self._log is not None:
            self._log.join(_LOG_SECONDS)
        self.how = how = self._ending()
        self._requests.fail(lambda: launch_left() if self.left else died(how), over=True)
        self.ended.set_result(None)

    def _fail(self) -> None:
        self.how = how = self._ending()
        self._requests.fail(lambda: died(how), over=False)

    def _ending(self) -> str:
        return _FOREIGN if self._foreign else f"the memory sidecar {ending(self._child.status())} before it answered"

    def _milliseconds(self) -> float | None:
        due = [moment for moment in (self._limit, self._requests.deadline()) if moment is not None]
        if self._limit is not None and self._child.pidfd is None:
            due.append(time.monotonic() + _LOOK_SECONDS)
        return max(0.0, (min(due) - time.monotonic()) * 1000 + 1) if due else None

    def _watch(self, descriptor: int, handler: Callable[[], object], events: int = select.POLLIN) -> None:
        self._handlers[descriptor] = handler
        self._poll.register(descriptor, events)

    def _ignore(self, descriptor: int) -> None:
        if self._handlers.pop(descriptor, None):
            self._poll.unregister(descriptor)

    def _read(self) -> None:
        """Take in what the sidecar has written."""
        while not self._deaf:
            try:
                data = os.read(self._child.stdout, 65536)
            except BlockingIOError:
                return None
            except OSError:
                data = b""
            if not data:
                return self._go_deaf()
            first, *more = data.split(b"\n")
            self._parts.append(first)
            for part in more:
                line = b"".join(self._parts)
                self._parts = [part]
                try:
                    message = json.loads(line)
                    if not is_answer(message):
                        raise ValueError("this is no answer")
                except (ValueError, RecursionError):
                    self._foreign = True
                    self._fail()
                    return self._go_deaf()
                self.silent = False
                self._requests.settle(message)
            if len(data) < 65536:
                return None
        return None

    def _go_deaf(self) -> None:
        self._deaf = True
        self._ignore(self._child.stdout)
        self.end_within(bounds.KILL_SECONDS)

"""The main thread: it waits on signals, on the parent's death and on the pipe, and on nothing else.

It never writes and never touches a store, so whatever a lane waits for, the harness is heard and the end is noticed.
While no lane is busy, the one that answered last hears the pipe in its place: see `reader`.
"""

import os
import select
import time
from collections.abc import Callable
from contextlib import suppress

from ..hints import TYPE_CHECKING, Final
from ..system.inherited import stopping_signals
from ..system.signals import signal
from .reader import Reader
from .stdio import Parent

if TYPE_CHECKING:
    from .lanes import Lane
    from .outline import Outline

__all__ = ["Loop"]

_LOOK: Final = 1.0
"""Seconds between two looks at the parent, where the system has no descriptor that tells of its death."""


class Loop:
    """Hands each frame to `receive`, unless it is held or `is_full` says that enough is waiting.

    `receive` returns the lane that serves the frame, if one does.
    """

    def __init__(
        self,
        source: int,
        parent: Parent,
        receive: "Callable[[bytes | Outline], Lane | None]",
        is_full: Callable[[], bool],
        is_busy: Callable[[], bool],
    ) -> None:
        self._parent = parent
        self._ends_at: float | None = None
        self._late_status = 0
        self._problem: BaseException | None = None
        self.exit_status: int | None = None
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        self.poll = select.poll()
        """What the main thread waits for."""
        self.reader = Reader(source, self, receive, is_full, is_busy)

    def run(self) -> int:
        """Serve until something ends the session, and return its exit status."""
        for number in stopping_signals():
            signal.signal(number, lambda *_: self.end(0))
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for descriptor in (self._wake_read, *self._parent.descriptors):
            self.poll.register(descriptor, select.POLLIN)
        if self._parent.is_gone():
            self.end(0)
        while self.exit_status is None:
            self.reader.look()
            self._react({descriptor for descriptor, _ in self.poll.poll(self._patience())})
        self.reader.close()
        if self._problem is not None:
            raise self._problem
        return self.exit_status

    def end(self, status: int) -> None:
        """Stop reading and end the session. The first word stands. Any thread may call it, and a signal handler."""
        if self.exit_status is None:
            self.exit_status = status
        self.wake()

    def fail(self, problem: BaseException) -> None:
        """Have `run` raise what went wrong where another thread read in its place."""
        self._problem = problem
        self.end(1)

    def end_later(self, seconds: float, status: int) -> None:
        """End the session after so many seconds, unless `stay` is called before."""
        self._ends_at, self._late_status = time.monotonic() + seconds, status
        self.wake()

    def stay(self) -> None:
        """Forget `end_later`."""
        self._ends_at = None

    def hold(self) -> None:
        """Hand out no frame until `release`: how the next ones are served depends on the answer to this one."""
        self.reader.hold()

    def release(self) -> None:
        self.reader.release()
        self.wake()

    def wake(self) -> None:
        """Have the main thread look again at what it waits for."""
        with suppress(BlockingIOError):  # full: the main thread has enough to wake it
            os.write(self._wake_write, b"\0")

    def _react(self, ready: set[int]) -> None:
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
        if not ready.isdisjoint(self._parent.descriptors) or self._parent.is_gone():
            self.end(0)
        elif self.reader.descriptor in ready:
            self.reader.take()
        ends_at = self._ends_at
        if ends_at is not None and time.monotonic() >= ends_at:
            self.end(self._late_status)

    def _patience(self) -> float | None:
        """Milliseconds to wait for an event; None for as long as it takes."""
        waits = [] if self._parent.descriptors else [_LOOK]
        ends_at = self._ends_at
        if ends_at is not None:
            waits.append(max(0.0, ends_at - time.monotonic()))
        return min(waits) * 1000 + 1 if waits else None

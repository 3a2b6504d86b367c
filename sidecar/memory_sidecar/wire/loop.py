"""The main thread: it waits on the pipe, on signals and on the parent's death, and on nothing else.

It never writes and never touches a store, so whatever a lane waits for, the harness is heard and the end is noticed.
"""

import os
import select
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from ..hints import Final
from ..system.inherited import stopping_signals
from .codec import Splitter
from .outline import Outline
from .stdio import Parent, receive

__all__ = ["Loop"]

_READ_SIZE: Final = 1 << 16
"""What a pipe holds at most. A larger buffer would be mapped and unmapped anew for every read."""

_LOOK: Final = 1.0
"""Seconds between two looks at the parent, where the system has no descriptor that tells of its death."""


class Loop:
    """Hands each frame to `receive`, unless it is held or `is_full` says that enough is waiting."""

    def __init__(
        self,
        source: int,
        parent: Parent,
        receive: Callable[[bytes | Outline], None],
        is_full: Callable[[], bool],
    ) -> None:
        self._source = source
        self._parent = parent
        self._receive = receive
        self._is_full = is_full
        self._frames: deque[bytes | Outline] = deque()
        self._splitter = Splitter()
        self._paused = False
        self._ends_at: float | None = None
        self._late_status = 0
        self.exit_status: int | None = None
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)

    def run(self) -> int:
        """Serve until something ends the session, and return its exit status."""
        for number in stopping_signals():
            signal.signal(number, lambda *_: self.end(0))
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        poll = select.poll()
        for descriptor in (self._wake_read, *self._parent.descriptors):
            poll.register(descriptor, select.POLLIN)
        listening = False
        if self._parent.is_gone():
            self.end(0)
        while self.exit_status is None:
            want = not self._frames and not self._paused and not self._is_full()
            if want and not listening:
                poll.register(self._source, select.POLLIN)
            elif listening and not want:
                poll.unregister(self._source)
            listening = want
            self._react({descriptor for descriptor, _ in poll.poll(self._patience())})
        return self.exit_status

    def end(self, status: int) -> None:
        """Stop reading and end the session. The first word stands. Any thread may call it, and a signal handler."""
        if self.exit_status is None:
            self.exit_status = status
        self.wake()

    def end_later(self, seconds: float, status: int) -> None:
        """End the session after so many seconds, unless `stay` is called before. For the main thread."""
        self._ends_at, self._late_status = time.monotonic() + seconds, status

    def stay(self) -> None:
        """Forget `end_later`. For the main thread."""
        self._ends_at = None

    def hold(self) -> None:
        """Hand out no frame until `release`: how the next ones are served depends on the answer to this one."""
        self._paused = True

    def release(self) -> None:
        self._paused = False
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
        elif self._source in ready:
            data = self._read()
            if data is not None:
                self._frames.extend(self._splitter.feed(data))
        while self._frames and not self._paused and self.exit_status is None:
            self._receive(self._frames.popleft())
        if self._ends_at is not None and time.monotonic() >= self._ends_at:
            self.end(self._late_status)

    def _patience(self) -> float | None:
        """Milliseconds to wait for an event; None for as long as it takes."""
        waits = [] if self._parent.descriptors else [_LOOK]
        if self._ends_at is not None:
            waits.append(max(0.0, self._ends_at - time.monotonic()))
        return min(waits) * 1000 + 1 if waits else None

    def _read(self) -> bytes | None:
        """What the pipe holds; None if that is nothing after all. Its end closes the session."""
        try:
            data = receive(self._source, _READ_SIZE)
        except OSError:  # the other end of a socket pair was reset
            data = b""
        if data == b"":
            self.end(0)
        return data

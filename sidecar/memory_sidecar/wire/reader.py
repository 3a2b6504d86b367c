"""Who reads the pipe: the lane that answered last, or the main thread. One at a time, and never nobody.

A harness mostly waits for an answer before it asks again. Were the main thread to read each request, every call would
cost two changes of threads, as much as all the rest of a short one. So who has read a frame leaves the reading to the
lane that the frame is for, its heir: that serves the call, and then waits for the next frame itself. What comes while
it still serves (a cancellation, a call of another run, the end of the pipe) is the main thread's to read, and so is
what follows while several calls are under way: the lanes are busy with those.

    who reads next              heir    armed   what leads on
    ----------------------------------------------------------------------------------------------------------------
    the main thread             None    yes     it read a frame for lane L, the only one under way  -> L or main
    nobody: held, full, over    None    no      the main thread was woken, and looks again          -> main
    L or main, who comes first  L       yes     L has nothing left to serve, or but an answer       -> L
                                                the pipe can be read, and L serves still            -> main
    L                           L       no      it read a frame for lane M (often itself)           -> M or main
                                                other calls are under way besides                   -> main
                                                its answer has to wait, or its run has ended        -> L or main
                                                it may not go on: held, full, over                  -> nobody

`armed` says that the main thread's poll hears the pipe. It is done through an epoll descriptor within that poll, since
a lane can change what is in there while the main thread waits. Whatever changes the table, and the handing out of
frames, happens under the lock, so frames reach their lanes in the order in which they came. Only waiting and reading
happen without it, by who reads next alone. A system without epoll has no heirs: there the main thread reads everything.
"""

import os
import select
import threading
from collections import deque
from collections.abc import Callable

from ..hints import TYPE_CHECKING, Final
from .codec import Splitter
from .stdio import receive

if TYPE_CHECKING:
    from .lanes import Lane
    from .loop import Loop
    from .outline import Outline

__all__ = ["Reader"]

_READ_SIZE: Final = 1 << 16
"""What a pipe holds at most. A larger buffer would be mapped and unmapped anew for every read."""


class Reader:
    """Reads frames from `source` and gives each to `hand_out`, which returns the lane that serves it, if one does."""

    def __init__(
        self,
        source: int,
        loop: "Loop",
        hand_out: "Callable[[bytes | Outline], Lane | None]",
        is_full: Callable[[], bool],
        is_busy: Callable[[], bool],
    ) -> None:
        """`is_full` says that enough is waiting, `is_busy` that several calls are under way."""
        self._source = source
        self._loop = loop
        self._hand_out = hand_out
        self._is_full = is_full
        self._is_busy = is_busy
        self._lock = threading.Lock()
        self._heir: Lane | None = None
        self._armed = False
        self._turns = 0
        """How often the main thread was made deaf to the pipe."""
        self._turn = 0
        """The same when the main thread began to wait. If that has changed, what it then found may be read by now."""
        self._held = False
        self._frames: deque[bytes | Outline] = deque()
        self._splitter = Splitter()
        self._lane_poll = select.poll()
        self._kick: int | None = None
        self._outer: select.epoll | select.poll = loop.poll
        self.descriptor = source
        """What the main thread's poll finds readable when there is something for it to read."""
        self._share()

    def _share(self) -> None:
        """Let lanes read too, if the system has what it takes."""
        try:
            outer = select.epoll()
            self._kick = os.eventfd(0, os.EFD_CLOEXEC)
        except (AttributeError, OSError):
            return
        for descriptor in (self._source, self._kick):
            self._lane_poll.register(descriptor, select.POLLIN)
        self._loop.poll.register(outer.fileno(), select.POLLIN)
        self._outer, self.descriptor = outer, outer.fileno()

    def listen(self, lane: "Lane") -> bool:
        """Wait for a frame on the thread of `lane`, if it is to read next and has nothing to do; else return False.

        True says that the same may be asked again.
        """
        if not self._begin(lane):
            return False
        try:
            self._lane_poll.poll()
            self._read()
        except BaseException as error:  # noqa: BLE001 - it ends the process, as on the main thread
            self._loop.fail(error)
        return True

    def _begin(self, lane: "Lane") -> bool:
        with self._lock:
            if self._heir is not lane:
                return False
            is_free = not lane.has_jobs()
            self._arm(not is_free)
            return is_free

    def claim(self, lane: "Lane") -> bool:
        """Let `lane` be next before it sends its last answer, so that the main thread isn't woken by what follows that.

        If True, nobody hears the pipe until the lane does: it must not wait for anything before, unless it gives up.
        """
        with self._lock:
            claimed = self._heir is lane and not lane.has_jobs()
            if claimed:
                self._arm(False)
            return claimed

    def give_up(self, lane: "Lane") -> None:
        """Undo `claim`: the lane has to wait."""
        with self._lock:
            if self._heir is lane:
                self._arm(True)

    def take(self) -> None:
        """On the main thread: the pipe can be read. If that is nobody else's affair, read it."""
        with self._lock:
            if self._turn != self._turns:
                return  # a lane was quicker, and perhaps has read it: then a read would wait
            self._heir = None
        self._read()

    def look(self) -> None:
        """On the main thread, before it waits: hear the pipe or don't, as frames may be handed out now or not."""
        with self._lock:
            if self._heir is None:
                self._go_on()
            self._turn = self._turns

    def hold(self) -> None:
        """Hand out no frame until `release`. To be called while one is handed out."""
        self._held = True

    def release(self) -> None:
        """Hand out frames again. The main thread has to `look` after it."""
        self._held = False

    def close(self) -> None:
        """The session is over, as the loop's exit status says: nobody reads any more, and no lane waits to."""
        with self._lock:
            self._heir = None
            self._arm(False)
        if self._kick is not None:
            os.eventfd_write(self._kick, 1)

    def _read(self) -> None:
        if self._loop.exit_status is not None:
            return  # a lane that waited was only to learn of that
        try:
            data = receive(self._source, _READ_SIZE)
        except OSError:  # the other end of a socket pair was reset
            data = b""
        if data == b"":
            self._loop.end(0)
        with self._lock:
            if data:
                self._frames.extend(self._splitter.feed(data))
            self._go_on()

    def _go_on(self) -> None:
        """Hand out what has been read, and settle who reads next. Under the lock, for who reads now."""
        last = None
        while (may_go_on := not self._held and self._loop.exit_status is None) and self._frames:
            last = self._hand_out(self._frames.popleft()) or last
        if not may_go_on or self._is_full():
            self._arm(False)
            if self._heir is not None:
                self._heir = None
                self._loop.wake()
        elif last is not None or self._heir is None:
            self._heir = last if self._kick is not None and not self._is_busy() else None
            self._arm(True)

    def _arm(self, wanted: bool) -> None:
        if wanted is not self._armed:
            # Not `modify` to no events: the end of the pipe would be told all the same, without end.
            if wanted:
                self._outer.register(self._source, select.POLLIN)
            else:
                self._outer.unregister(self._source)
                self._turns += 1
            self._armed = wanted

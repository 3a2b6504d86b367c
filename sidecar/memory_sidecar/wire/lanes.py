"""Lanes: a thread a run, which serves what concerns the run in the order in which it was asked.

A run's lane is there from the first request that opens it until the run is closed and nothing waits for it any more.
So two requests for one run are never answered out of order, and never by an older state than that of the answer
before; runs do not wait for each other. One lane more, `control`, serves what belongs to no run.
"""

import threading
from collections.abc import Callable

from ..hints import TYPE_CHECKING, Final
from ..named_tuple import NamedTuple
from ..system import inherited
from .codes import REFUSED, Error
from .last_word import NO_THREADS
from .states import RunState

if TYPE_CHECKING:
    from ..run.session import Run
    from .messages import RequestId

try:
    from _queue import SimpleQueue
except ImportError:  # another Python than CPython, whose own needs three modules less
    from queue import SimpleQueue

__all__ = ["MAX_OPEN_RUNS", "Lane", "Lanes", "Listen", "Name"]

MAX_OPEN_RUNS: Final = 256
"""Runs of one identity that a harness opens at once in one process, beside the process's own; each has a thread. A
harness needs one, a fleet endpoint some. How many identities have runs is limited by what the system gives."""


_THREAD_ROOM: Final = (8 + 1) << 20
"""Bytes of address space that must be left for one thread more: its stack, as systems give it, and its first steps."""


Listen = Callable[["Lane"], bool]
"""What a lane does with its time while it has nothing to serve, again and again while it returns True: see `reader`."""


class Name(NamedTuple):
    """What tells a run of this process from all others: a run id is a name within an identity.

    `identity` is None in a process that serves one.
    """

    identity: str | None
    run: str


class Lane:
    """A thread and its jobs. What it holds of its run is touched by that thread alone, but for `waiting`."""

    def __init__(self, name: Name | None, listen: Listen, state: RunState = RunState.CLOSED) -> None:
        self.name = name
        self._listen = listen
        self.state = state
        self.run: Run | None = None
        self.unsaved: str | None = None
        """What was last told of the run's journal: see `unsaved` of the run."""
        self.opened_by: RequestId | None = None
        """The request that opened the run, until another one shows that the harness knows of it."""
        self.waiting = 0
        """Jobs that are not done yet. Guarded."""
        self.is_counted = False
        """Whether it is one of the runs of which there are so many at most. Guarded."""
        self.busy = threading.Lock()
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        # A thread without memory for its first steps ends unheard, and `start` would wait for it for ever. This is not
        # touched, so it costs a mapping that is given back at once.
        bytes(_THREAD_ROOM)
        self.thread = threading.Thread(target=self._work, name=name.run if name else "control", daemon=True)
        self.thread.start()

    def told(self) -> dict[str, str | None]:
        """The fields that say in the log which run it is; whose, where the log does not name one identity for all."""
        if self.name is None or self.name.identity is None:
            return {"run": None if self.name is None else self.name.run}
        return self.name._asdict()

    def put(self, job: Callable[[], None]) -> None:
        self._jobs.put(job)

    def stop(self) -> None:
        """The thread ends after what has been put."""
        self._jobs.put(None)

    def has_jobs(self) -> bool:
        """Whether something was put that is not begun yet. True is certain only on the lane's own thread."""
        return not self._jobs.empty()

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job()

    def _next(self) -> Callable[[], None] | None:
        while self._listen(self):
            pass
        return self._jobs.get()


class Lanes:
    """The lanes of one process, by run. `own` is the process's own run, if it has one."""

    def __init__(self, guard: threading.RLock, own: Name | None, listen: Listen) -> None:
        self._guard = guard
        self._own = own
        self._listen = listen
        self._by_run: dict[Name, Lane] = {}
        self._own_existed = False
        self.control = Lane(None, listen)

    def all(self) -> list[Lane]:
        """Those of the runs."""
        with self._guard:
            return list(self._by_run.values())

    def find(self, run: Name) -> Lane | None:
        """The lane of a run that is open, or about to be; None if there is none."""
        return self._by_run.get(run)

    def own(self) -> Lane | None:
        """The lane of the process's own run, made if it never was; None once that has ended, or if there is none."""
        if self._own is None:
            return None
        lane = self.find(self._own)
        if lane is None and not self._own_existed:
            lane = self._make(self._own, RunState.UNUSED)
        return lane

    def to_open(self, run: Name) -> Lane:
        """The lane for a run that is to be opened, made if there is none.

        Raises:
            Error: there are as many as may be, or as the system lets this process have.
        """
        lane = self.find(run)
        if lane is None or not lane.is_counted:
            if run != self._own and self._count(run.identity) >= MAX_OPEN_RUNS:
                raise Error(REFUSED, f"{MAX_OPEN_RUNS} runs are open; end one first")
            lane = lane or self._make(run, RunState.CLOSED)
            lane.is_counted = run != self._own
        return lane

    def put(self, lane: Lane, job: Callable[[], None]) -> None:
        """Have `lane` do `job` after all that it was given before."""

        def work() -> None:
            try:
                job()
            finally:
                self._done(lane)

        with self._guard:
            lane.waiting += 1
            lane.put(work)

    def settle(self, lane: Lane) -> None:
        """A job has changed how the run stands. To be called before that is answered, so that the answer is true."""
        with self._guard:
            lane.is_counted = lane.is_counted and (lane.state is not RunState.CLOSED or lane.waiting > 1)

    def _count(self, identity: str | None) -> int:
        return sum(lane.is_counted for name, lane in self._by_run.items() if name.identity == identity)

    def _make(self, run: Name, state: RunState) -> Lane:
        if not inherited.has_room():
            raise Error(REFUSED, "this system lets the sidecar open no more files; end a run first, or raise ulimit -n")
        try:
            lane = self._by_run[run] = Lane(run, self._listen, state)
        except (RuntimeError, MemoryError) as error:  # the system's limit of threads
            more = "this system lets the sidecar start no more threads; end a run first"
            raise Error(REFUSED, more if self._by_run else str(NO_THREADS)) from error
        self._own_existed = self._own_existed or run == self._own
        return lane

    def _done(self, lane: Lane) -> None:
        with self._guard:
            lane.waiting -= 1
            if lane.state is RunState.CLOSED and not lane.waiting and lane.name is not None:
                if self._by_run.get(lane.name) is lane:
                    del self._by_run[lane.name]
                lane.stop()

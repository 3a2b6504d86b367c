"""Who reads the pipe, in every order in which its threads may act: each frame is heard, once and in order."""

import itertools
import os
import random
import select
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import pytest

from memory_sidecar.wire.reader import Reader

if TYPE_CHECKING:
    from memory_sidecar.wire.lanes import Lane
    from memory_sidecar.wire.loop import Loop

Choose = Callable[[int], int]
"""One of so many ways to go on."""

A, B = "a", "b"
NOTE: Final = "note"
"""A frame that no lane serves, as a notification is."""
HOLD: Final = "hold"
"""A frame after which none is handed out until it was answered, as a handshake is. Lane A serves it."""
END: Final = "end"
"""Not a frame: a signal ends the session."""
EOF: Final = "eof"
"""Not a frame: the harness closes its end."""


class OneLane:
    """A lane whose steps are taken by the test: it is idle, waits for the pipe, or is somewhere in a call."""

    def __init__(self) -> None:
        self.jobs: deque[str] = deque()
        self.steps: Iterator[None] | None = None
        self.is_listening = False
        self.is_parked = False
        self.is_reading = False
        self.is_blocked = False

    def has_jobs(self) -> bool:
        return bool(self.jobs)


class World:
    """A reader over a real pipe, two lanes and a main thread, which act one step at a time."""

    def __init__(self, script: tuple[str, ...], choose: Choose, *, patient: bool) -> None:
        self.choose = choose
        self.patient = patient
        """Whether the harness waits for each answer before it goes on, as most do."""
        self.script = deque(enumerate(script))
        self.sent: list[str] = []
        self.handed: list[str] = []
        self.answered: list[str] = []
        self.moves: Counter[str] = Counter()
        # What the reader asks of its loop.
        self.exit_status: int | None = None
        self.poll = select.poll()
        self.woken = False
        self.ready: set[int] | None = None
        """What the main thread has found since it waits; it looks again first where it does not wait."""
        self.main_waits = False
        self.is_main_reading = False
        self.left = False

        self.source, self.sink = os.pipe()
        self.lanes = {A: OneLane(), B: OneLane()}
        self.reader = Reader(self.source, cast("Loop", self), self.hand_out, lambda: False, self.is_busy)
        # That somebody may read, and that it does, are two steps, between which others act.
        self.reads = 0
        self.read = self.reader._read
        cast("Any", self.reader)._read = self._may_read

    def close(self) -> None:
        for descriptor in {self.source, self.sink} - {-1}:
            os.close(descriptor)
        if self.reader._kick is not None:
            os.close(self.reader._kick)
            cast("select.epoll", self.reader._outer).close()

    def end(self, status: int) -> None:
        self.exit_status = status if self.exit_status is None else self.exit_status
        self.wake()

    def wake(self) -> None:
        self.woken = True

    def fail(self, problem: BaseException) -> None:
        raise problem

    def is_busy(self) -> bool:
        return sum(NOTE not in name for name in self.handed) - len(self.answered) > 1

    def hand_out(self, frame: Any) -> Any:
        name = frame.decode()
        self.handed.append(name)
        kind = name.split()[1]
        if kind == NOTE:
            return None
        if kind == HOLD:
            self.reader.hold()
        lane = self.lanes[B if kind == B else A]
        lane.jobs.append(name)
        lane.is_parked = False
        return lane

    # Each actor: what it does next, or None if it has to wait.

    def harness(self) -> Callable[[], object] | None:
        waits = self.patient and len(self.answered) < sum(NOTE not in name for name in self.sent)
        return self._send if self.script and not waits else None

    def _send(self) -> None:
        number, kind = self.script.popleft()
        if kind == END:
            self.end(0)
        elif kind == EOF:
            os.close(self.sink)
            self.sink = -1
        else:
            name = f"{number} {kind}"
            self.sent.append(name)
            os.write(self.sink, name.encode() + b"\n")

    def _may_read(self) -> None:
        self.reads += 1
        assert self.reads == 1, "two threads read at once"

    def _read(self) -> None:
        is_there = self.exit_status is not None or select.select([self.source], [], [], 0)[0]
        assert is_there, "a thread waits where only the harness can wake it"
        self.read()
        self.reads -= 1

    def main(self) -> Callable[[], object] | None:
        if self.left:
            return None
        if self.is_main_reading:
            return self._main_reads
        if not self.main_waits:
            return self._look
        if self.ready is not None:
            return self._react
        return self._find if self.woken or self.poll.poll(0) else None

    def _look(self) -> None:
        if self.exit_status is not None:
            self.reader.close()
            self.left = True
            return
        self.reader.look()
        self.main_waits = True

    def _find(self) -> None:
        self.ready = {descriptor for descriptor, _ in self.poll.poll(0)}
        self.woken = False

    def _react(self) -> None:
        ready, self.ready, self.main_waits = self.ready or set(), None, False
        if self.reader.descriptor in ready:
            before = self.reads
            self.reader.take()
            self.is_main_reading = self.reads > before

    def _main_reads(self) -> None:
        self.is_main_reading = False
        self.moves["main read"] += 1
        self._read()

    def lane(self, name: str) -> Callable[[], object] | None:
        lane = self.lanes[name]
        is_unheard = bool(self.script) or self.handed != self.sent
        if lane.is_blocked and is_unheard and self.exit_status is None and not self.reader._held:
            return None  # the harness writes all it has before it reads an answer
        if lane.steps is not None:
            return lambda: self._step(lane)
        if lane.is_reading:
            return lambda: self._lane_reads(lane)
        if lane.is_listening:
            return (lambda: self._hear(lane)) if self.reader._lane_poll.poll(0) else None
        if lane.is_parked and not lane.jobs:
            return None
        return lambda: self._next(lane)

    def _next(self, lane: OneLane) -> None:
        lane.is_listening = self.reader._begin(cast("Lane", lane))
        if lane.is_listening:
            self.moves["lane waited"] += 1
        elif lane.jobs:
            lane.steps = self._serve(lane, lane.jobs.popleft())
        else:
            lane.is_parked = True

    def _hear(self, lane: OneLane) -> None:
        lane.is_listening = False
        lane.is_reading = True
        self._may_read()

    def _lane_reads(self, lane: OneLane) -> None:
        lane.is_reading = False
        self._read()

    def _step(self, lane: OneLane) -> None:
        if next(lane.steps or iter(()), self) is self:
            lane.steps = None

    def _serve(self, lane: OneLane, name: str) -> Iterator[None]:
        yield
        if self.reader.claim(cast("Lane", lane)):
            self.moves["claimed"] += 1
            yield
            if self.choose(2):  # the answer does not fit into the pipe
                self.reader.give_up(cast("Lane", lane))
                self.moves["gave up"] += 1
                lane.is_blocked = not self.patient
                yield
                lane.is_blocked = False
        self.answered.append(name)
        if HOLD in name:
            self.reader.release()
            self.wake()

    def run(self) -> None:
        """Until nobody can do anything more."""
        while able := [step for step in (self.harness(), self.main(), self.lane(A), self.lane(B)) if step]:
            able[self.choose(len(able)) if len(able) > 1 else 0]()
            listeners = sum(lane.is_listening for lane in self.lanes.values())
            assert listeners <= 1, "two lanes read at once"
            assert not (listeners and self.reader._armed), "a lane reads, and the main thread too"
        assert not self.script
        assert self.handed == self.sent[: len(self.handed)], "frames were lost, or changed places"
        assert sorted(self.answered) == sorted(name for name in self.handed if NOTE not in name)
        for name in (A, B):
            mine = [one for one in self.handed if (B if one.endswith(f" {B}") else A) == name and NOTE not in one]
            assert [one for one in self.answered if one in mine] == mine, "a lane's calls changed places"
        if self.exit_status is None:
            assert self.handed == self.sent, "nobody hears the pipe any more"
        else:
            assert self.left
            assert not any(lane.is_listening for lane in self.lanes.values()), "a lane waits for a pipe that is over"


def every_order(script: tuple[str, ...], *, patient: bool) -> Counter[str]:
    """Run `script` in each order in which the actors may act, and count what happened."""
    found: Counter[str] = Counter()
    path: list[list[int]] = []  # of each choice: which it was, and of how many
    while True:
        depth = itertools.count()

        def choose(ways: int, depth: Iterator[int] = depth) -> int:
            at = next(depth)
            if at == len(path):
                path.append([0, ways])
            return path[at][0]

        run(script, choose, patient, found)
        while path and path[-1][0] + 1 == path[-1][1]:
            path.pop()
        if not path:
            return found
        path[-1][0] += 1


def run(script: tuple[str, ...], choose: Choose, patient: bool, found: Counter[str]) -> None:
    world = World(script, choose, patient=patient)
    try:
        world.run()
    finally:
        world.close()
    found.update(world.moves)
    found["orders"] += 1


@pytest.mark.parametrize("script", [(END,), (A,), pytest.param((NOTE, A), marks=pytest.mark.long)], ids=" ".join)
def test_in_every_order_each_frame_is_heard(script: tuple[str, ...]) -> None:
    found = every_order(script, patient=script[-1] not in (EOF, END))
    assert found["orders"] > len(script), found


@pytest.mark.parametrize("orders", [600, pytest.param(20_000, marks=pytest.mark.long)])
def test_in_many_orders_of_long_scripts_each_frame_is_heard(orders: int) -> None:
    chance = random.Random(19)
    found: Counter[str] = Counter()
    for _ in range(orders):
        script = tuple(chance.choices((A, B, NOTE, HOLD), (5, 3, 1, 1), k=chance.randrange(2, 12)))
        script += tuple(chance.choices(((), (EOF,), (END,)))[0])
        run(script, chance.randrange, chance.random() < 0.5, found)
    assert all(found[move] for move in ("main read", "lane waited", "claimed", "gave up")), found

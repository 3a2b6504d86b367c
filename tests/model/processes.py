"""The model against whole sidecars: two processes that share one memory, driven over their pipes.

Moves beside those of one process: a sidecar is killed with SIGKILL between calls or in the middle of a write, and its
runs go on in whichever process; a broker is killed and started again. The processes live on from example to example.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, multiple, precondition, rule
from tests.support.sidecar import RefusedError, Sidecar, launched

from memory_sidecar.store.authority import Store
from memory_sidecar.store.document import serialize
from memory_sidecar.store.errors import KeyNotFoundError

from .machine import KEYS, TEXTS, Machine

__all__ = ["Processes", "World"]

PLACES = st.sampled_from([0, 1])
LUCK = st.integers(0, 3)
"""What takes long is done only with some luck, so that most moves are calls."""


class World:
    """Two sidecars on the same memory, another writer beside them, and perhaps a broker.

    Such a broker can be restarted, and written to by a program that knows nothing of this product.
    """

    def __init__(
        self,
        base: Path,
        arguments: tuple[str, ...],
        other: Store,
        *,
        restart: Callable[[], None] | None = None,
        put: Callable[[str, bytes], None] | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        self._launch = lambda: launched(base, *arguments, **({"env": dict(env)} if env else {}))
        self.other = other
        self.restart = restart
        self.put = put
        self.sidecars: list[Sidecar] = []
        self.runs = 0

    def __enter__(self) -> "World":
        self.sidecars = [self._launch(), self._launch()]
        return self

    def __exit__(self, *_: object) -> None:
        for sidecar in self.sidecars:
            sidecar.__exit__()

    def kill(self, place: int) -> None:
        """SIGKILL, and another one in its place."""
        self.sidecars[place].kill()
        self.sidecars[place].__exit__()
        self.sidecars[place] = self._relaunch()

    def _relaunch(self) -> Sidecar:
        """A broker that was just restarted may still be reading what it has stored, on a busy machine for long."""
        for _ in range(5):
            with suppress(RefusedError):
                return self._launch()
        return self._launch()

    def clear(self) -> None:
        for item in self.other.list():
            self.other.delete(item.key)


class Processes(Machine):
    """Bind it to a `world` by subclassing. `open` tells in which process a run is."""

    world: World
    refusals = (RefusedError,)
    revisions_repeat = True

    @initialize(target=Machine.runs)
    def begin(self) -> Any:
        self.other = self.world.other
        self.world.clear()
        self.notes = {}
        self.clock = 0
        self.open = {}
        self.seen = {}
        first = self.start_in(0)
        return multiple(first, self.start_in(1))

    def teardown(self) -> None:
        for run, place in getattr(self, "open", {}).items():
            if self.world.sidecars[place].process.poll() is None:
                self.world.sidecars[place].finish(run, "completed")

    def new_run(self) -> str:
        self.world.runs += 1
        return f"run{self.world.runs}"

    def _open(self, run: str, resume: Any) -> None:
        opened = self.world.sidecars[self.where].open(run, resume=resume)
        assert opened["resumed"] == (resume == "require")
        assert set(opened["scope"]["keys"]) == set(self.seen[run])
        self.open[run] = self.where

    def _leave(self, run: str, how: Any) -> None:
        if how == "killed":
            self._crash(self.open[run])
            return
        sidecar = self.world.sidecars[self.open.pop(run)]
        ended = sidecar.suspend(run) if how == "suspended" else sidecar.finish(run, how)
        assert set(ended["scope"]["keys"]) == set(self.seen[run])

    def _held(self, run: str) -> set[str]:
        return set(self.seen[run])  # looked at whenever a run is opened or left

    def _call(self, run: str, tool: str, **arguments: object) -> dict[str, Any]:
        self.moves[tool] += 1
        answer = self.world.sidecars[self.open[run]].call(tool, arguments, run)
        assert not answer.get("isError"), answer
        assert set(answer["_meta"]) == {"memory-sidecar/run"}, answer
        found: dict[str, Any] = answer["structuredContent"]
        return found

    def _crash(self, place: int) -> None:
        self.moves["SIGKILL"] += 1
        left = [run for run, at in self.open.items() if at == place]
        self.world.kill(place)
        for number, run in enumerate(left):
            del self.open[run]
            self.where = (place + number) % 2
            self._open(run, "require")

    @rule(target=Machine.runs, place=PLACES)
    def start_in(self, place: int) -> str:
        self.where = place
        return self.start()

    @rule(place=PLACES, luck=LUCK)
    def crash(self, place: int, luck: int) -> None:
        if luck == 3:
            self._crash(place)

    @rule(run=Machine.runs, key=KEYS, content=TEXTS, pause=st.sampled_from([0.0, 0.001, 0.003, 0.01, 0.03]), luck=LUCK)
    def crash_in_a_write(self, run: str, key: str, content: str, pause: float, luck: int) -> None:
        if luck < 2:
            return
        place = self.open[run]
        sidecar = self.world.sidecars[place]
        arguments = {"key": key, "description": "cut short", "content": content, "overwrite": True}
        sidecar.send(sidecar.tool("memory_write", arguments, run))
        time.sleep(pause)  # to meet the write at another moment each time; nothing depends on it
        os.kill(sidecar.pid, signal.SIGKILL)
        self.moves["SIGKILL in a write"] += 1
        sidecar.wait()
        may_write = self.current(run, key) or not self.guard
        try:
            found = self.other.read(key)[:2]
        except KeyNotFoundError:
            found = None
        before = self.notes[key][0] if key in self.notes else None
        assert found == before or (may_write and found == ("cut short", content))
        if found is not None and found != before:
            self.put(key, ("cut short", content))
        # What the run knew or learnt of this key depends on the moment. All else it had is there.
        held = self._resumed(place, run)
        assert held - {key} == set(self.seen[run]) - {key}
        if found is None:
            self.seen[run].pop(key, None)
        self.read(run, key)

    def _resumed(self, place: int, cut: str) -> set[str]:
        """The other runs of the killed process are resumed as they were; this is what the one cut short holds."""
        left = [run for run, at in self.open.items() if at == place]
        self.world.kill(place)
        for run in left:
            del self.open[run]
            self.where = place
            if run != cut:
                self._open(run, "require")
        opened = self.world.sidecars[place].open(cut, resume="require")
        self.open[cut] = place
        return set(opened["scope"]["keys"])

    @precondition(lambda self: self.world.restart is not None)
    @rule(luck=LUCK)
    def restart_the_broker(self, luck: int) -> None:
        if luck < 3:
            return
        assert self.world.restart is not None
        self.moves["broker killed and started"] += 1
        self.world.restart()

    @precondition(lambda self: self.world.put is not None)
    @rule(key=KEYS, description=TEXTS, content=TEXTS)
    def another_program(self, key: str, description: str, content: str) -> None:
        assert self.world.put is not None
        self.moves["another program"] += 1
        self.world.put(key, serialize(description, content))
        self.put(key, (description, content))

    @invariant()
    def processes_live(self) -> None:
        assert all(sidecar.process.poll() is None for sidecar in self.world.sidecars)

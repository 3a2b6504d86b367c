"""Calls without end for one real sidecar, over its pipes, and what it costs: memory, descriptors, threads, journals.

Several runs at once, each opened, used and then suspended, finished or resumed, and one that goes on all the time and
overwrites one note. The calls are pipelined, so that the process is what is measured and not this driver.
"""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from tests.support.sidecar import FINISH, LIST, OPEN, SUSPEND, Frame, Sidecar, environment, guarded, launched

__all__ = ["Growth", "Report", "Sample", "growth", "soak"]

RUNS: Final = 4
"""Runs that come and go, beside the one that stays."""
ROUND: Final = 1000
"""Calls between two samples."""
PIPELINED: Final = 100
"""Calls that are sent before their answers are read."""
STEADY: Final = "steady"
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Sample(NamedTuple):
    """The process at rest: every call answered, and the same runs open."""

    calls: int
    memory: float
    """MiB resident."""
    descriptors: int
    threads: int
    steady: int
    """Bytes of the journal of the run that stays."""
    journals: int
    """Bytes in the journal directory."""
    files: int
    """Journals in it."""


class Report(NamedTuple):
    samples: list[Sample]
    tools: dict[str, int]
    refusals: int
    overwrites: int
    """Of one note by one run."""
    opened: int
    ended: int
    pruned: int
    seconds: float


class Growth(NamedTuple):
    """What grew after the warm-up: MiB in a million calls by a straight line through the samples, and the spans."""

    memory: float
    spread: float
    descriptors: int
    threads: int


def growth(samples: list[Sample], warm_up: float) -> Growth:
    """Judge the samples after the first part, `warm_up`, in which caches fill and the allocator finds its size."""
    settled = samples[int(len(samples) * warm_up) :]
    calls = [sample.calls for sample in settled]
    memory = [sample.memory for sample in settled]
    middle, mean = sum(calls) / len(calls), sum(memory) / len(memory)
    above = sum((x - middle) * (y - mean) for x, y in zip(calls, memory, strict=True))
    slope = above / sum((x - middle) ** 2 for x in calls)
    return Growth(
        slope * 1_000_000,
        max(memory) - min(memory),
        _span(sample.descriptors for sample in settled),
        _span(sample.threads for sample in settled),
    )


def _span(numbers: Iterable[int]) -> int:
    found = [*numbers]
    return max(found) - min(found)


def soak(
    base: Path, calls: int, tell: Callable[[Sample], None] = lambda _: None, seed: int = 1, *, each: int = ROUND
) -> Report:
    """Make `calls` tool calls of a fresh sidecar over `base`, and take a sample after `each` so many.

    Fails if one answer is an error or missing.
    """
    # Locked down it hides its descriptors from all but root.
    lockdown = () if os.geteuid() == 0 else ("--lockdown", "off")
    with launched(base, *guarded(base), *lockdown) as sidecar:
        one = _Soak(sidecar, base, Random(seed))
        began = time.monotonic()
        one.begin()
        while one.calls < calls:
            one.round(min(each, calls - one.calls))
            tell(one.samples[-1])
        seconds = time.monotonic() - began
        status = sidecar.leave()
        assert status == 0, f"it ended with {status}: {sidecar.stderr}"
    return Report(one.samples, one.tools, one.refusals, one.overwrites, one.opened, one.ended, one.pruned, seconds)


class _Soak:
    def __init__(self, sidecar: Sidecar, base: Path, chance: Random) -> None:
        self._sidecar = sidecar
        self._base = base
        self._chance = chance
        self._slots: dict[int, str] = {}
        self._rounds = 0
        self.samples: list[Sample] = []
        self.tools: Counter[str] = Counter()
        self.calls = self.refusals = self.overwrites = self.opened = self.ended = self.pruned = 0

    def begin(self) -> None:
        self._sidecar.open(STEADY)
        self._sidecar.write("steady", "0", STEADY)
        for slot in range(RUNS):
            self._open(slot, f"run-{slot}-0")

    def round(self, calls: int) -> None:
        for answer in self._answers(self._frames(calls)):
            assert "error" not in answer, f"refused: {answer}"
            assert not answer["result"]["isError"], f"failed: {answer}"
            self.refusals += "code" in answer["result"]["structuredContent"]
        self.calls += calls
        self._rounds += 1
        self._turn_over(self._rounds % RUNS)
        if self._rounds % 10 == 0:
            self._prune()
        self.samples.append(self._sample())

    # --- calls -----------------------------------------------------------------------------------------------------

    def _frames(self, calls: int) -> Iterator[Frame]:
        for _ in range(calls):
            if self._chance.random() < 0.11:
                self.overwrites += 1
                arguments = {"key": "steady", "description": "One note", "content": f"for the {self.overwrites}th time"}
                yield self._call("memory_write", {**arguments, "overwrite": True}, STEADY)
            else:
                slot = self._chance.randrange(RUNS)
                yield self._call(*self._any(slot), self._slots[slot])

    def _any(self, slot: int) -> tuple[str, dict[str, Any]]:
        chance = self._chance.random()
        key = f"note-{slot}-{self._chance.randrange(8)}"
        if chance < 0.55:
            return "memory_read", {"key": key}
        if chance < 0.75:
            return "memory_list", {}
        if chance < 0.80:
            return "memory_delete", {"key": key}
        arguments = {
            "key": key,
            "description": self._chance.choice(("A plain note", 'A note: "quoted"', "Eine Notiz über \U0001f404")),
            "content": "text " * self._chance.randrange(400),
            "overwrite": self._chance.random() < 0.8,
        }
        return "memory_write", arguments

    def _call(self, tool: str, arguments: dict[str, Any], run: str) -> Frame:
        self.tools[tool] += 1
        return self._sidecar.tool(tool, arguments, run)

    def _answers(self, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Send some at a time and wait for their answers, each exactly one."""
        batch: list[Frame] = []
        for frame in frames:
            batch.append(frame)
            if len(batch) == PIPELINED:
                yield from self._exchange(batch)
                batch = []
        yield from self._exchange(batch)

    def _exchange(self, batch: list[Frame]) -> list[Frame]:
        self._sidecar.send(*batch)
        answers = [self._sidecar.receive(120) for _ in batch]
        assert sorted(answer["id"] for answer in answers) == [frame["id"] for frame in batch]
        return answers

    # --- runs ------------------------------------------------------------------------------------------------------

    def _open(self, slot: int, run: str) -> None:
        self._sidecar.request(OPEN, {"run": run})
        self._slots[slot] = run
        self.opened += 1

    def _turn_over(self, slot: int) -> None:
        """End a run in one of its ways, and go on: with the same one, or with another."""
        run = self._slots[slot]
        self.ended += 1
        how = self._chance.choice(("suspended", "suspended", "completed", "error", "budget"))
        if how == "suspended":
            self._sidecar.request(SUSPEND, {"run": run})
        else:
            self._sidecar.request(FINISH, {"run": run, "reason": how, "message": "of a round"})
        self._open(slot, f"run-{slot}-{self._rounds}" if how == "completed" else run)

    def _prune(self) -> None:
        """As an operator does, while the sidecar runs."""
        whose = ["--store-dir", str(self._base), "--identity", self._sidecar.identity]
        words = [sys.executable, "-m", "memory_sidecar", "runs", "prune", "--state", "completed", "--json", *whose]
        done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=True)
        self.pruned += len(json.loads(done.stdout)["removed"])
        states = {run["run"]: run["state"] for run in self._sidecar.request(LIST)["runs"]}
        assert "completed" not in states.values()
        assert states[STEADY] == "open"

    def _sample(self) -> Sample:
        process = Path("/proc", str(self._sidecar.pid))
        runs = self._base / "runs" / self._sidecar.identity
        # Threads: the main one, the control lane's, the default run's, the open ones'. The thread of a run that has
        # just ended may still be on its way out.
        deadline = time.monotonic() + 2
        while (threads := len(os.listdir(process / "task"))) > RUNS + 4 and time.monotonic() < deadline:
            time.sleep(0.001)
        return Sample(
            self.calls,
            int((process / "statm").read_text().split()[1]) * PAGE / 2**20,
            len(os.listdir(process / "fd")),
            threads,
            (runs / f"{STEADY}.jsonl").stat().st_size,
            sum(path.stat().st_size for path in runs.iterdir()),
            len(os.listdir(runs)),
        )

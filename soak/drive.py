"""Calls without end for one real sidecar, over its pipes, and what it costs: memory, descriptors, threads, journals.

One process serves many identities, in requests of both eras. Several runs at once, each of an identity of its own, are
opened, used and then suspended, finished or resumed; one goes on all the time and overwrites one note. The calls are
pipelined, so that the process is what is measured and not this driver.
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

from tests.support.apart import IDENTITY, MANY
from tests.support.sidecar import (
    FINISH,
    LIST,
    OPEN,
    RUN,
    SUSPEND,
    Frame,
    Sidecar,
    environment,
    guarded,
    launched,
    result,
)

__all__ = ["Growth", "Report", "Sample", "growth", "soak"]

RUNS: Final = 4
"""Runs that come and go, beside the one that stays."""
IDENTITIES: Final = 64
"""How many identities each of these gets in turn."""
ROUND: Final = 1000
"""Calls between two samples."""
PIPELINED: Final = 100
"""Calls that are sent before their answers are read."""
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Whose(NamedTuple):
    """A run, and the identity it is of."""

    identity: str
    run: str


STEADY: Final = Whose("steady", "steady")


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
    """Journals in it, and directories of identities."""


class Report(NamedTuple):
    samples: list[Sample]
    tools: dict[str, int]
    refusals: int
    overwrites: int
    """Of one note by one run."""
    opened: int
    ended: int
    pruned: int
    identities: int
    modern: int
    """Requests of the era without a handshake, of all."""
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
    with launched(base, *guarded(base), MANY, *lockdown, identity="") as sidecar:
        one = _Soak(sidecar, base, Random(seed))
        began = time.monotonic()
        one.begin()
        while one.calls < calls:
            one.round(min(each, calls - one.calls))
            tell(one.samples[-1])
        seconds = time.monotonic() - began
        status = sidecar.leave()
        assert status == 0, f"it ended with {status}: {sidecar.stderr}"
    counts = (one.refusals, one.overwrites, one.opened, one.ended, one.pruned, len(one.identities), one.modern)
    return Report(one.samples, one.tools, *counts, seconds)


class _Soak:
    def __init__(self, sidecar: Sidecar, base: Path, chance: Random) -> None:
        self._sidecar = sidecar
        self._base = base
        self._chance = chance
        self._slots: dict[int, Whose] = {}
        self._rounds = 0
        self._done: set[str] = set()
        """Identities that have a run which is completed, and may be removed."""
        self.samples: list[Sample] = []
        self.tools: Counter[str] = Counter()
        self.identities = {STEADY.identity}
        self.calls = self.refusals = self.overwrites = self.opened = self.ended = self.pruned = self.modern = 0

    def begin(self) -> None:
        self._ask(OPEN, STEADY)
        arguments = {"key": "steady", "description": "One note", "content": "0"}
        for _ in self._exchange([self._call("memory_write", arguments, STEADY)]):
            pass
        self.tools.clear()
        for slot in range(RUNS):
            self._open(slot, Whose(f"user-{slot}", f"run-{slot}-0"))

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

    def _call(self, tool: str, arguments: dict[str, Any], whose: Whose) -> Frame:
        self.tools[tool] += 1
        meta = {RUN: whose.run, IDENTITY: whose.identity}
        return self._request("tools/call", {"name": tool, "arguments": arguments, "_meta": meta})

    def _request(self, method: str, params: dict[str, Any]) -> Frame:
        """A request of either era, by chance."""
        message = self._sidecar.message(method, params)
        if self._chance.random() < 0.5:
            return message
        self.modern += 1
        return self._sidecar.modern(message, params)

    def _ask(self, method: str, whose: Whose, **more: Any) -> Frame:
        message = self._request(method, {**whose._asdict(), **more})
        self._sidecar.send(message)
        return result(self._sidecar.answer(message, 120))

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

    def _open(self, slot: int, whose: Whose) -> None:
        self._ask(OPEN, whose)
        self._slots[slot] = whose
        self.identities.add(whose.identity)
        self.opened += 1

    def _turn_over(self, slot: int) -> None:
        """End a run in one of its ways, and go on: with the same one, or with another identity's."""
        whose = self._slots[slot]
        self.ended += 1
        how = self._chance.choice(("suspended", "suspended", "completed", "error", "budget"))
        if how == "suspended":
            self._ask(SUSPEND, whose)
        else:
            self._ask(FINISH, whose, reason=how, message="of a round")
        if how == "completed":
            self._done.add(whose.identity)
            whose = Whose(f"user-{slot}-{self._rounds % IDENTITIES}", f"run-{slot}-{self._rounds}")
        self._open(slot, whose)

    def _prune(self) -> None:
        """As an operator does, while the sidecar runs."""
        words = [sys.executable, "-m", "memory_sidecar", "runs", "prune", "--state", "completed", "--json"]
        for identity in self._done:
            place = ["--store-dir", str(self._base), "--identity", identity]
            done = subprocess.run([*words, *place], env=environment(), capture_output=True, text=True, check=True)
            self.pruned += len(json.loads(done.stdout)["removed"])
        self._done.clear()
        for whose, state in ((STEADY, "open"), (self._slots[0], "open")):
            states = {run["run"]: run["state"] for run in self._ask(LIST, whose)["runs"]}
            assert states[whose.run] == state
            assert "completed" not in states.values()

    def _sample(self) -> Sample:
        process = Path("/proc", str(self._sidecar.pid))
        runs = self._base / "runs"
        # Threads: the main one, the control lane's, the open runs'. The thread of a run that has just ended may still
        # be on its way out.
        deadline = time.monotonic() + 2
        while (threads := len(os.listdir(process / "task"))) > RUNS + 3 and time.monotonic() < deadline:
            time.sleep(0.001)
        found = [*runs.rglob("*")]
        return Sample(
            self.calls,
            int((process / "statm").read_text().split()[1]) * PAGE / 2**20,
            len(os.listdir(process / "fd")),
            threads,
            (runs / STEADY.identity / f"{STEADY.run}.jsonl").stat().st_size,
            sum(path.stat().st_size for path in found if path.is_file()),
            len(found),
        )

"""Measures the audit's rules on published servers: whom they find among memories, and whom they take for one.

    python -m tests.policy.corpus            the recorded answers again, in seconds; fails below the figures promised
    python -m tests.policy.corpus --record   ask the registries anew (see `record`), then measure

A server is *held out* if it was recorded after the last change of a rule and nobody has looked at what it offers: those
figures are what to expect of any other. Who looks at one, or makes a rule, takes the mark off all of them (they are
what rules are made from then) and records others, drawn by lot: `record --held-out`. Whether a server is a memory is
decided by its package's summary alone.
"""

import json
import runpy
import sys
from pathlib import Path
from typing import Any, NamedTuple

from exposure_policy.audit.collect import Collector
from exposure_policy.audit.result import Bounds, Finding

RECORDED = Path(__file__).parent / "recorded"


class Measured(NamedTuple):
    """One published server, and what the audit says of it."""

    package: str
    memory: bool
    held_out: bool
    findings: tuple[Finding, ...]


class Figures(NamedTuple):
    """Of one set of servers."""

    memories: int
    others: int
    found: int
    mistaken: int

    @property
    def recall(self) -> float:
        """How many of the memories are found; 1 if there are none."""
        return self.found / self.memories if self.memories else 1.0

    @property
    def precision(self) -> float:
        """How many of those that are found are memories; 1 if none are."""
        return self.found / (self.found + self.mistaken) if self.found + self.mistaken else 1.0


def judged(server: dict[str, Any]) -> tuple[Finding, ...]:
    """What the audit finds in a server's recorded results."""
    collector = Collector("mcp", server["package"], Bounds())
    for result in server["results"]:
        for _ in collector.result(result):
            pass
    return collector.report().findings


def measure() -> list[Measured]:
    """Every recorded server."""
    measured = []
    for file in sorted(RECORDED.glob("*.json")):
        server = json.loads(file.read_text(encoding="utf-8"))
        held_out = server.get("held_out", False)
        measured.append(Measured(server["package"], server["kind"] == "memory", held_out, judged(server)))
    return measured


def figures(measured: list[Measured]) -> Figures:
    """The figures of these."""
    memories = [one for one in measured if one.memory]
    others = [one for one in measured if not one.memory]
    return Figures(
        len(memories), len(others), sum(bool(m.findings) for m in memories), sum(bool(o.findings) for o in others)
    )


def report(measured: list[Measured]) -> str:
    """Both figures of both halves and of all, and who was got wrong."""
    sets = {
        "rules were made from": [one for one in measured if not one.held_out],
        "held out": [one for one in measured if one.held_out],
        "all": measured,
    }
    lines = []
    for name, some in sets.items():
        of = figures(some)
        told = f"recall {of.recall:6.1%}, precision {of.precision:6.1%}"
        lines.append(f"{name:<22} {of.memories:3} memories, {of.others:3} others: {told}")
    wrong = [one for one in measured if one.memory != bool(one.findings)]
    lines += [f"{'missed' if one.memory else 'mistaken':<22} {one.package}" for one in wrong]
    return "\n".join(lines)


if __name__ == "__main__":
    if "--record" in sys.argv:
        sys.argv.remove("--record")
        runpy.run_module("tests.policy.corpus.record", run_name="__main__")
    print(report(measure()))

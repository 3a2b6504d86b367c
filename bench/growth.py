"""What calls cost as a state directory grows: with many journals of one agent, and with many agents beside it.

A hundred thousand journals are an ordinary state directory, so nothing but what lists them may cost more with them.
"""

import os
import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack

from memory_sidecar.run import records

from .contestants import SidecarOnFiles
from .measure import Case, notes, prepared

__all__ = ["KINDS", "OPERATIONS", "fill", "growth"]

KINDS = ("journals", "identities")
OPERATIONS = ("ready", "open", "read", "create", "suspend", "list runs")

_CASE = Case(100, 2048)
_CALLS = 5

Found = dict[str, dict[int, dict[str, list[float]]]]
"""Seconds by kind, by how many of it there are, by operation."""


def growth(counts: Sequence[int], rounds: int, work: str, say: Callable[[str], None]) -> Found:
    """Launch on a directory with so many journals of the agent, and on one with so many other agents."""
    found: Found = {}
    stored = notes(_CASE)
    for kind in KINDS:
        with ExitStack() as stack:
            places = {}
            for count in counts:
                beside = os.path.join(work, f"{count}-{kind}")
                (places[count],) = stack.enter_context(prepared([SidecarOnFiles()], stored, beside, say)).values()
                fill(places[count], kind, count)
            # In turns, so that what disturbs the machine for a while disturbs all of them.
            for number in range(rounds):
                for count in random.Random(number).sample(counts, len(counts)):
                    _turn(places[count], number, found.setdefault(kind, {}).setdefault(count, {}))
        found[kind] = dict(sorted(found[kind].items()))
        say(f"growth: {kind}")
    return found


def fill(directory: str, kind: str, count: int) -> None:
    for number in range(count):
        identity, run = ("bench", f"old-{number}") if kind == "journals" else (f"agent-{number}", "old")
        runs = os.path.join(directory, "runs", identity)
        os.makedirs(runs, mode=0o700, exist_ok=True)
        if kind == "identities":
            os.makedirs(os.path.join(directory, "memory", identity), mode=0o700)
        written = (
            records.meta(run=run, identity=identity, tools=["memory_list", "memory_read"], store="file:0"),
            records.snapshot({"note-0001": "0"}),
            records.terminal("completed"),
            records.snapshot({"note-0001": "0"}),
        )
        with open(os.path.join(runs, f"{run}.jsonl"), "wb") as file:
            file.write(b"".join(records.encode(record, seq) for seq, record in enumerate(written, 1)))


def _turn(directory: str, number: int, taken: dict[str, list[float]]) -> None:
    who = SidecarOnFiles()
    with who.launch(directory) as session:
        taken.setdefault("ready", []).append(session.ready)

        def time_it(operation: str, method: str, **params: object) -> None:
            start = time.perf_counter()
            session.process.call(f"memory-sidecar/run/{method}", params).check()
            taken.setdefault(operation, []).append(time.perf_counter() - start)

        for call in range(_CALLS):
            run = f"new-{number}-{call}"
            time_it("open", "open", run=run)
            for operation, arguments in (
                ("read", {"key": "note-0001"}),
                ("create", {"key": run, "description": "A new note", "content": "new"}),
            ):
                tool = "memory_read" if operation == "read" else "memory_write"
                answer = session.process.tool(tool, arguments, run)
                answer.check()
                taken.setdefault(operation, []).append(answer.seconds)
            time_it("suspend", "suspend", run=run)
        time_it("list runs", "list")

"""The measurements. Everything is taken in rounds; in each round every contestant has its turn, in another order.

So what disturbs the machine for a while disturbs all of them, and a ratio is taken within a round, between numbers
that are seconds apart. What is reported is the median over the rounds, with the quartiles as its spread.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from .contestants import Call, Contestant, Note, Session
from .driver import DeadError

__all__ = ["OPERATIONS", "Case", "interpreter", "prompts", "rounds", "throughput"]

OPERATIONS = ("ready", "rss", "pss", "index", "list", "create", "overwrite", "read", "delete")

_TURN_SECONDS = 4.0
"""For the calls of one contestant in one round. A slow peer makes fewer calls, never none."""


class Case(NamedTuple):
    entries: int
    size: int
    """Bytes of a content."""

    @property
    def name(self) -> str:
        return f"{self.entries} x {self.size // 1024} KiB"


def notes(case: Case) -> list[Note]:
    """The same notes for everyone: words, so that nothing compresses or escapes them better than real text."""
    source = random.Random(case.entries)
    words = [
        "parser",
        "convention",
        "the",
        "build",
        "of",
        "module",
        "decided",
        "on",
        "after",
        "tests",
        "with",
        "release",
    ]
    return [
        Note(f"note-{number:04d}", f"What was decided on subject {number}", text(source, words, case.size))
        for number in range(case.entries)
    ]


def text(source: random.Random, words: Sequence[str], size: int) -> str:
    """`size` bytes of lines."""
    parts, length = [], 0
    while length < size:
        line = " ".join(source.choices(words, k=12)) + "\n"
        parts.append(line)
        length += len(line)
    return "".join(parts)[:size]


Samples = dict[str, list[float]]
Round = dict[str, Samples]
"""By contestant, by operation."""


def rounds(
    case: Case, contestants: Sequence[Contestant], count: int, calls: int, work: str, say: Callable[[str], None]
) -> list[Round]:
    """Measure one case. A contestant that fails is left out from there on, with a word."""
    stored = notes(case)
    alive = list(contestants)
    with prepared(alive, stored, work, say) as directories:
        alive = [who for who in alive if who.name in directories]
        time.sleep(0.3)  # notes that were just written are looked at anew by whoever caches them
        taken: list[Round] = []
        for number in range(count):
            order = list(alive)
            random.Random(number).shuffle(order)
            this: Round = {}
            for who in order:
                try:
                    this[who.name] = turn(who, directories[who.name], stored, case, calls)
                except (DeadError, RuntimeError, subprocess.SubprocessError, KeyError) as error:
                    say(f"{who.label}: left out of {case.name}: {error}")
                    alive.remove(who)
            taken.append(this)
            say(f"{case.name}: round {number + 1} of {count}")
    return taken


@contextmanager
def prepared(
    contestants: Sequence[Contestant], stored: Sequence[Note], work: str, say: Callable[[str], None]
) -> Iterator[dict[str, str]]:
    """A directory for each, with the notes in it."""
    directories: dict[str, str] = {}
    try:
        for who in contestants:
            directory = os.path.join(work, who.name)
            shutil.rmtree(directory, ignore_errors=True)
            os.makedirs(directory)
            try:
                who.seed(directory, stored)
            except (DeadError, OSError) as error:
                say(f"{who.label}: cannot be seeded: {error}")
                continue
            directories[who.name] = directory
        yield directories
    finally:
        for who in contestants:
            shutil.rmtree(os.path.join(work, who.name), ignore_errors=True)


def turn(who: Contestant, directory: str, stored: Sequence[Note], case: Case, calls: int) -> Samples:
    """Launch one contestant and make each kind of call a few times; the first of each kind warms up, uncounted."""
    taken: Samples = {}
    with who.launch(directory) as session:
        taken["ready"] = [session.ready]

        def time_it(operation: str, seconds: float | None, number: int) -> None:
            if seconds is not None and number > 0:
                taken.setdefault(operation, []).append(seconds)

        source = random.Random(calls)
        fresh = text(source, ["a", "new", "version", "of", "this", "note", "about", "deployment"], case.size)
        deadline = time.monotonic() + _TURN_SECONDS
        for number in range(calls + 1):
            if number > 1 and time.monotonic() > deadline:
                break
            time_it("index", session.index(), number)
            time_it("list", once(session, who.list()), number)
            # Delete and create the same key, so that as much is stored as the case says.
            note = stored[(number * 37) % len(stored)] if stored else Note("note", "The only note", fresh)
            steps: list[tuple[str, Sequence[Call] | None]] = [
                ("create", who.create(note)),
                ("overwrite", who.overwrite(note._replace(content=fresh))),
                ("read", who.read(note.key)),
            ]
            delete = ("delete", who.delete(note.key))
            for operation, what in [delete, *steps] if stored else [*steps, delete]:
                time_it(operation, once(session, what), number)
        resident = session.process.resident()
        taken["rss"] = [float(resident.rss)]
        if resident.pss is not None:
            taken["pss"] = [float(resident.pss)]
    return taken


def once(session: Session, calls: Sequence[Call] | None) -> float | None:
    return None if calls is None else session.do(calls)


def interpreter(count: int) -> list[float]:
    """Seconds of a bare interpreter that starts and ends: below it no program in Python can launch."""
    taken = []
    for _ in range(count):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-I", "-c", "pass"], check=True)
        taken.append(time.perf_counter() - start)
    return taken


def prompts(contestants: Sequence[Contestant], work: str) -> dict[str, dict[str, int]]:
    """Bytes of the tool definitions: of what a model is shown (name, description, arguments), and of all of it."""
    measured = {}
    with prepared(contestants, [], work, lambda _: None) as directories:
        for who in contestants:
            if who.name not in directories or who.name == "floor":
                continue
            with who.launch(directories[who.name]) as session:
                tools = session.process.call("prompt").result["tools"] if who.library else session.tools
            shown = [{name: tool.get(name) for name in ("name", "description", "inputSchema")} for tool in tools]
            if tools:
                measured[who.name] = {"tools": len(tools), "shown": _bytes(shown), "all": _bytes(tools)}
    return measured


def _bytes(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def throughput(
    contestants: Sequence[Contestant],
    lanes: Sequence[int],
    calls: int,
    count: int,
    work: str,
    say: Callable[[str], None],
) -> dict[str, dict[str, dict[int, list[float]]]]:
    """Calls a second with one call under way in each of so many runs, at 100 entries of 2 KiB: reads, and creates.

    In one process each: runs of ours, requests in flight or tasks elsewhere. That a peer answers says nothing about
    what it has kept; the races count that.
    """
    case = Case(100, 2048)
    stored = notes(case)
    found: dict[str, dict[str, dict[int, list[float]]]] = {}
    contestants = [who for who in contestants if who.name != "floor"]
    for number in range(count):
        with prepared(contestants, stored, work, say) as directories:
            for who in contestants:
                if who.name not in directories:
                    continue
                with who.launch(directories[who.name]) as session:
                    for width in lanes:
                        for operation in ("read", "create"):
                            keys = [f"new-{width}-{number}-{at}" for at in range(calls)]
                            if operation == "read":
                                keys = [stored[at % len(stored)].key for at in range(calls)]
                            rate = calls / burst(session, operation, keys, stored[0].content, width)
                            by_lanes = found.setdefault(who.name, {}).setdefault(operation, {})
                            by_lanes.setdefault(width, []).append(rate)
                        if who.delete("") is not None:  # room for the next
                            for at in range(calls):
                                session.do(who.delete(f"new-{width}-{number}-{at}") or [])
        say(f"throughput: round {number + 1} of {count}")
    return found


def burst(session: Session, operation: str, keys: Sequence[str], content: str, width: int) -> float:
    """Seconds for one call a key, `width` at a time."""
    who = session.who
    if who.library:
        call = {"op": operation, "keys": keys, "content": content, "lanes": width}
        inside: float = session.process.tool("burst", call).result["seconds"]
        return inside
    lanes = session.lanes(width)
    start = time.perf_counter()
    waiting: dict[int, str | None] = {}
    jobs = iter(keys)

    def send(lane: str | None) -> None:
        key = next(jobs, None)
        if key is None:
            return
        calls = who.read(key) if operation == "read" else who.create(Note(key, "A new note", content))
        assert calls is not None
        params: dict[str, Any] = {"name": calls[0].tool, "arguments": calls[0].arguments}
        if lane is not None:
            params["_meta"] = {"memory-sidecar/run": lane}
        waiting[session.process.send("tools/call", params)] = lane

    for lane in lanes:
        send(lane)
    while waiting:
        message, _, _ = session.process.receive()
        if message["id"] in waiting:
            send(waiting.pop(message["id"]))
    seconds = time.perf_counter() - start
    session.leave(lanes)
    return seconds

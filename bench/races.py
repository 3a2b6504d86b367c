"""Of N writes that were acknowledged, how many are there afterwards? Asked of every contestant in the same way.

Three races: calls that are sent to one process without waiting for answers; two processes that each create notes of
their own; two processes that each add lines to one and the same note, by whatever the contestant offers against losing
one (an append of its own, compare and swap, a guard, or nothing). A fresh process does the counting.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from .contestants import Call, Contestant, Note, Session
from .driver import DeadError
from .measure import prepared

__all__ = ["Survival", "race"]


class Survival(NamedTuple):
    acknowledged: int
    survived: int


def race(
    contestants: Sequence[Contestant], count: int, times: int, work: str, say: Callable[[str], None]
) -> dict[str, dict[str, Survival]]:
    """The three races by contestant and race: `count` writes each, run so many `times` and added up.

    Chance decides whether a write that can be lost is lost, so once is not enough.
    """
    found: dict[str, dict[str, Survival]] = {}
    races: dict[str, Callable[[Contestant, str, int], Survival]] = {
        "pipelined": pipelined,
        "two processes": two_processes,
        "one note": one_note,
    }
    for name, run in [(name, run) for name, run in races.items() for _ in range(times)]:
        with prepared(contestants, [], work, say) as directories:
            for who in contestants:
                if who.name not in directories:
                    continue
                try:
                    acknowledged, survived = run(who, directories[who.name], count)
                except (DeadError, KeyError, RuntimeError) as error:
                    say(f"{who.label}: {name}: {error}")
                    continue
                ran = found.setdefault(who.name, {})
                before = ran.get(name, Survival(0, 0))
                ran[name] = Survival(before.acknowledged + acknowledged, before.survived + survived)
        say(f"race: {name}")
    return found


def pipelined(who: Contestant, directory: str, count: int) -> Survival:
    keys = [f"race-{number}" for number in range(count)]
    with who.launch(directory) as session:
        acknowledged = _create_all(session, keys)
    return _count(who, directory, acknowledged)


def two_processes(who: Contestant, directory: str, count: int) -> Survival:
    halves = [[f"race-{side}-{number}" for number in range(count // 2)] for side in range(2)]
    with who.launch_two(directory) as sessions, ThreadPoolExecutor(2) as threads:
        done = threads.map(_create_each, sessions, halves)
        acknowledged = [key for keys in done for key in keys]
    return _count(who, directory, acknowledged)


def one_note(who: Contestant, directory: str, count: int) -> Survival:
    with who.launch(directory) as session:
        session.do(who.create(Note("shared", "A shared log", "")) or [])
    with who.launch_two(directory) as sessions, ThreadPoolExecutor(2) as threads:

        def add(side: int) -> int:
            lines = (f"{side}-{number}\n" for number in range(count // 2))
            return sum(who.append(sessions[side], "shared", line) for line in lines)

        acknowledged = sum(threads.map(add, range(2)))
    with who.launch(directory) as session:
        return Survival(acknowledged, who.lines(session, "shared"))


def _create_all(session: Session, keys: Sequence[str]) -> list[str]:
    """Send every create before the first answer is read. Those that were acknowledged."""
    if session.who.library:
        call = {"op": "create", "keys": keys, "content": "x" * 2048, "lanes": len(keys)}
        done: list[str] = session.process.tool("burst", call).result["done"]
        return done
    sent = {}
    for key in keys:
        create = _create(session.who, key)
        number = session.process.send("tools/call", {"name": create.tool, "arguments": create.arguments})
        sent[number] = key, create
    acknowledged = []
    while sent:
        message, _, _ = session.process.receive()
        if message["id"] in sent:
            key, create = sent.pop(message["id"])
            result = message.get("result", {"isError": True})
            if not result.get("isError") and session.who.refused(create, result) is None:
                acknowledged.append(key)
    return acknowledged


def _create_each(session: Session, keys: Sequence[str]) -> list[str]:
    acknowledged = []
    for key in keys:
        call = _create(session.who, key)
        try:
            result = session.process.tool(call.tool, call.arguments).result
        except DeadError:
            continue
        if session.who.refused(call, result) is None:
            acknowledged.append(key)
    return acknowledged


def _create(who: Contestant, key: str) -> Call:
    calls = who.create(Note(key, "A note of the race", "x" * 2048))
    assert calls is not None
    return calls[0]


def _count(who: Contestant, directory: str, acknowledged: Sequence[str]) -> Survival:
    with who.launch(directory) as session:
        return Survival(len(acknowledged), who.stored(session, acknowledged))

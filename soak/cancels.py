"""Random cancels of the Python library on each event loop: nothing hangs, no run's id is lost, no process is left.

    python -m soak.cancels [--cancels 10000] [--seed N] [--loop asyncio|uvloop|trio]

Most cancel a conversation within one launch, after a random time; each hundredth cancels a whole launch. Some cancel
again while the first is being obeyed. After each the run of that name is opened again, within bounds.
"""

import argparse
import asyncio
import functools
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import trio
import uvloop

from memory_sidecar.harness import MemorySidecar, SidecarError

NOTE = {"key": "plan", "description": "the plan", "content": "text", "overwrite": True}
LOOPS = ("asyncio", "uvloop", "trio")
LAUNCHES = 100
"""One of so many cancels is of a whole launch."""
BOUND = 60.0
"""Seconds within which whatever was cancelled must be over; the documented bounds add up to less."""

Talk = Callable[[], Coroutine[Any, Any, None]]
Cancel = Callable[[Talk, float, bool], Awaitable[bool]]


async def cancel_task(talk: Talk, after: float, again: bool) -> bool:
    """As `task.cancel` does it. Whether the talk was cancelled before its end."""
    task = asyncio.create_task(talk())
    await asyncio.sleep(after)
    for _ in range(3 if again else 1):
        task.cancel()
        await asyncio.sleep(0)
    await asyncio.wait([task], timeout=BOUND)
    if not task.done():
        raise TimeoutError
    return task.cancelled()


async def cancel_by_timeout(talk: Talk, after: float, again: bool) -> bool:
    """As `asyncio.wait_for` does it, within another one."""
    try:
        await asyncio.wait_for(asyncio.wait_for(talk(), after), after if again else None)
    except TimeoutError:
        return True
    return False


async def cancel_scope(talk: Talk, after: float, again: bool) -> bool:
    """As scopes of anyio and of trio do it."""
    with anyio.move_on_after(after), anyio.move_on_after(after / 2 if again else None):
        await talk()
        return False
    return True


async def rounds(cancels: int, chance: random.Random, ways: list[Cancel], place: Path) -> Counter[str]:
    counts: Counter[str] = Counter()

    def launch() -> AbstractAsyncContextManager[MemorySidecar]:
        return MemorySidecar.launch(identity="soak", store_dir=place, log_level="error")

    async def whole(name: str) -> None:
        async with launch() as memory:
            await talk(memory, name)

    async def talk(memory: MemorySidecar, name: str) -> None:
        async with memory.run(name) as run:
            await run.call("memory_write", NOTE)
            if chance.random() < 0.3:
                await run.suspend()

    async with launch() as memory:
        mine = children()
        for number in range(cancels):
            name = f"run-{chance.randrange(50)}"
            is_whole = number % LAUNCHES == 0
            what = functools.partial(whole, name) if is_whole else functools.partial(talk, memory, name)
            after = chance.uniform(0, 0.3) if is_whole else chance.expovariate(150)
            started = time.monotonic()
            counts["tried"] += 1
            try:
                counts["cancelled"] += await chance.choice(ways)(what, after, chance.random() < 0.3)
            except TimeoutError:
                counts["hangs"] += 1
            counts["orphans"] += len(children() - mine)
            try:
                with anyio.fail_after(BOUND):
                    async with memory.run(name) as run:
                        await run.call("memory_list")
            except (SidecarError, TimeoutError) as error:
                counts["lost ids"] += 1
                print(f"{name}: {error!r}", file=sys.stderr)
            counts["slowest ms"] = max(counts["slowest ms"], int((time.monotonic() - started) * 1000))
    return counts


def children() -> set[str]:
    words: set[str] = set()
    for task in os.listdir("/proc/self/task"):
        try:
            words.update(Path(f"/proc/self/task/{task}/children").read_text().split())
        except FileNotFoundError:
            continue
    return words


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cancels", type=int, default=10_000, help="on each loop")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("--loop", choices=LOOPS, action="append", help="one of them alone")
    options = parser.parse_args()
    asyncio_ways: list[Cancel] = [cancel_task, cancel_by_timeout, cancel_scope]
    bad = 0
    print(f"seed {options.seed}")
    for loop in options.loop or LOOPS:
        with tempfile.TemporaryDirectory() as directory:
            ways = [cancel_scope] if loop == "trio" else asyncio_ways
            work = functools.partial(rounds, options.cancels, random.Random(options.seed), ways, Path(directory))
            before = children()
            if loop == "trio":
                counts = trio.run(work)
            else:
                factory = uvloop.new_event_loop if loop == "uvloop" else None
                with asyncio.Runner(loop_factory=factory) as runner:
                    counts = runner.run(work())
            counts["orphans"] += len(children() - before)
        wrong = {name: counts[name] for name in ("hangs", "lost ids", "orphans")}
        bad += sum(wrong.values())
        shown = {"tried": counts["tried"], "cancelled in time": counts["cancelled"], **wrong}
        shown["slowest ms"] = counts["slowest ms"]
        print(f"{loop}: {', '.join(f'{name} {count}' for name, count in shown.items())}", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

"""Cancellation, as asyncio programs, uvloop and trio use it: at every place where a coroutine waits, once or again.

Whatever is cancelled is left within bounds; the process has ended, the run is suspended, and its id can be used again.
"""

import asyncio
import os
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
import uvloop
from tests.support.processes import children
from tests.support.sidecar import environment, is_gone, until

from memory_sidecar.harness import MemorySidecar, bounds, sync

NOTE = {"key": "plan", "description": "the plan", "content": "text", "overwrite": True}


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    return {"identity": "tester", "store_dir": tmp_path / "state", "env": environment()}


@pytest.fixture
def witness(options: dict[str, Any]) -> Iterator[sync.MemorySidecar]:
    """Another sidecar over the same journals: it sees whether a run is free. No other is left at the end."""
    with sync.MemorySidecar.launch(**options) as memory:
        before = children()
        yield memory
        assert children() == before


@types.coroutine
def watched(coroutine: Coroutine[Any, Any, Any], at: Callable[[int], object]) -> Generator[Any, Any, Any]:
    """Await `coroutine`, and call `at` with 0, 1, ... each time just before it waits."""
    waits, send, thrown = 0, None, None
    while True:
        try:
            yielded = coroutine.send(send) if thrown is None else coroutine.throw(thrown)
        except StopIteration as done:
            return done.value
        at(waits)
        waits += 1
        send = thrown = None
        try:
            send = yield yielded
        except BaseException as error:  # noqa: BLE001 - it is the coroutine's
            thrown = error


Scenario = Callable[[], Coroutine[Any, Any, None]]
Cancels = Callable[[int], bool]


async def cancelled_on_asyncio(scenario: Scenario, cancels: Cancels) -> bool:
    """Whether the scenario was cancelled when it waited for the n-th time with `cancels(n)`."""

    def at(wait: int) -> None:
        if cancels(wait):
            task.cancel()

    async def watch() -> None:
        await watched(scenario(), at)

    task = asyncio.ensure_future(watch())
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return task.cancelled()


async def cancelled_on_trio(scenario: Scenario, cancels: Cancels) -> bool:
    with trio.CancelScope() as scope:

        def at(wait: int) -> None:
            if cancels(wait):
                scope.cancel()

        await watched(scenario(), at)
    return scope.cancelled_caught


def on_uvloop(main: Callable[..., Coroutine[Any, Any, bool]], *arguments: Any) -> bool:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main(*arguments))


LOOPS: dict[str, Callable[[Scenario, Cancels], bool]] = {
    "asyncio": lambda scenario, cancels: asyncio.run(cancelled_on_asyncio(scenario, cancels)),
    "uvloop": lambda scenario, cancels: on_uvloop(cancelled_on_asyncio, scenario, cancels),
    "trio": lambda scenario, cancels: trio.run(cancelled_on_trio, scenario, cancels),
}


def at_every_wait(loop: str, scenario: Scenario, after: Callable[[], None], *, again: bool) -> int:
    """Run the scenario once for each place where it waits, cancelled there; how many there are."""
    for number in range(100):
        reached = 0

        def cancels(wait: int) -> bool:
            nonlocal reached
            reached = max(reached, wait)
            return wait >= number if again else wait == number  # noqa: B023

        cancelled = LOOPS[loop](scenario, cancels)
        after()
        if reached < number:
            assert not cancelled
            return number
    raise AssertionError("it never comes to its end")


@pytest.mark.parametrize("again", [False, True], ids=["once", "again and again"])
@pytest.mark.parametrize("loop", LOOPS)
def test_a_conversation_is_cancelled_wherever_it_waits(
    loop: str, again: bool, options: dict[str, Any], witness: sync.MemorySidecar
) -> None:
    # The witness, and what other tests have for good, such as the resource tracker of multiprocessing.
    before = children()

    async def talk() -> None:
        async with MemorySidecar.launch(**options) as memory, memory.run("monday") as run:
            await run.call("memory_write", NOTE)
            await memory.runs()

    def left() -> None:
        assert children() == before
        with witness.run("monday") as run:  # nobody holds it
            assert not run.call("memory_list").is_error

    assert at_every_wait(loop, talk, left, again=again) >= 6


@pytest.mark.parametrize("again", [False, True], ids=["once", "again and again"])
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("end", ["leave", "suspend", "finish"])
def test_a_run_that_is_cancelled_wherever_it_waits_can_be_opened_again_at_once(
    loop: str, again: bool, end: str, options: dict[str, Any]
) -> None:
    with sync.MemorySidecar.launch(**options) as kept:
        # The same connection, used by another face on another loop each time.
        memory = MemorySidecar(kept._connection)

        async def talk() -> None:
            async with memory.run("monday") as run:
                await run.call("memory_write", NOTE)
                if end == "suspend":
                    await run.suspend()
                elif end == "finish":
                    await run.finish("budget")

        async def once_more() -> None:
            async with memory.run("monday") as run:
                assert not (await run.call("memory_list")).is_error

        def left() -> None:
            assert not LOOPS[loop](once_more, lambda _: False)
            assert {run["state"] for run in kept.runs()} == {"suspended"}
            assert memory._runs == {}

        assert at_every_wait(loop, talk, left, again=again) >= 3


def test_a_time_limit_of_asyncio_loses_no_run(options: dict[str, Any]) -> None:
    async def main() -> int:
        lost = 0
        async with MemorySidecar.launch(**options) as memory:

            async def talk(name: str) -> None:
                async with memory.run(name) as run:
                    for _ in range(3):
                        await run.call("memory_write", NOTE)

            for number in range(60):
                name = f"run-{number}"
                try:
                    await asyncio.wait_for(talk(name), number * 0.0002)
                except TimeoutError:
                    lost += 1
                async with asyncio.timeout(20), memory.run(name) as run:
                    await run.call("memory_list")
            assert {run["state"] for run in await memory.runs()} == {"suspended"}
        return lost

    assert asyncio.run(main()) > 0


PROGRAM = """
import asyncio, sys
from memory_sidecar.harness import MemorySidecar

async def main():
    async with MemorySidecar.launch(store_dir=sys.argv[1], identity="tester") as memory, memory.run("monday") as run:
        print(memory.pid, flush=True)
        while True:
            await run.call("memory_write", {"key": "plan", "description": "d", "content": "c", "overwrite": True})

asyncio.run(main())
"""

SYNC_PROGRAM = """
import sys
from memory_sidecar.harness.sync import MemorySidecar

with MemorySidecar.launch(store_dir=sys.argv[1], identity="tester") as memory, memory.run("monday") as run:
    print(memory.pid, flush=True)
    while True:
        run.call("memory_write", {"key": "plan", "description": "d", "content": "c", "overwrite": True})
"""


@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize("program", [PROGRAM, SYNC_PROGRAM], ids=["asyncio", "sync"])
def test_ctrl_c_ends_the_program_and_its_sidecar(tmp_path: Path, program: str, times: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        env=environment(),
        process_group=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as harness:
        assert harness.stdout is not None
        sidecar = int(harness.stdout.readline())
        for _ in range(times):
            os.killpg(harness.pid, signal.SIGINT)
        _, said = harness.communicate(timeout=60)
    assert harness.returncode in (-signal.SIGINT, 1)
    # With a colon, where another one comes while the interpreter ends and nobody is left to be told.
    assert said.rstrip().rstrip(":").endswith("KeyboardInterrupt")
    until(lambda: is_gone(sidecar), "the sidecar has ended")
    with sync.MemorySidecar.launch(store_dir=tmp_path, identity="tester", env=environment()) as memory:
        assert [run["state"] for run in memory.runs()] == ["suspended"]


def frozen(memory: MemorySidecar) -> None:
    os.kill(memory.pid, signal.SIGSTOP)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_frozen_sidecar_is_left_within_bounds_however_often_one_cancels(
    loop: str, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def talk() -> None:
        async with MemorySidecar.launch(**options) as memory, memory.run("monday") as run:
            await run.call("memory_write", NOTE)
            frozen(memory)
            await run.call("memory_list")

    before = children()
    with monkeypatch.context() as impatient:  # with the frozen one alone: any other may take its time
        for name in ("STOP_SECONDS", "IDLE_STOP_SECONDS", "KILL_SECONDS"):
            impatient.setattr(bounds, name, 0.2)
        assert LOOPS[loop](talk, lambda wait: wait >= 3)
    assert children() == before
    with sync.MemorySidecar.launch(**options) as memory, memory.run("monday", resume="require") as run:
        assert list(run.scope["keys"]) == ["plan"]

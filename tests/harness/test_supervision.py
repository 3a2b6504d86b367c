"""A sidecar that dies is launched again, if that is asked for: its runs go on, and nobody is told what is not known."""

import asyncio
import logging
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.support.processes import children
from tests.support.sidecar import environment, guarded

from memory_sidecar.harness import MemorySidecar, SidecarDiedError, sync

NOTE = {"key": "plan", "description": "the plan", "content": "text"}


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    config = guarded(tmp_path)[1]
    return {"config": config, "identity": "tester", "store_dir": tmp_path / "state", "env": environment()}


def kill(memory: Any) -> None:
    ended = memory._connection._pump.ended
    os.kill(memory.pid, signal.SIGKILL)
    ended.result(30)


def test_a_run_goes_on_with_its_authority(options: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "memory_sidecar.harness")
    before = children()
    with sync.MemorySidecar.launch(**options, restarts=2) as memory, memory.run("monday") as run:
        run.call("memory_write", NOTE)
        for _ in range(2):
            first = memory.pid
            kill(memory)
            written = run.call("memory_write", {**NOTE, "overwrite": True})  # never sent to the dead one
            assert written.structured == {"written": True, "key": "plan"}
            assert memory.pid != first
            assert memory.alive
        assert [record.getMessage() for record in caplog.records] == [
            "the memory sidecar died and was launched again (1 of 2)",
            "the memory sidecar died and was launched again (2 of 2)",
        ]
        kill(memory)
        with pytest.raises(SidecarDiedError):
            run.call("memory_list")  # that is enough
        run._ended = True
    assert children() == before


def test_a_run_is_suspended_by_the_next_sidecar(options: dict[str, Any]) -> None:
    with sync.MemorySidecar.launch(**options, restarts=1) as memory:
        with memory.run("monday") as run:
            run.call("memory_write", NOTE)
            kill(memory)
        assert [found["state"] for found in memory.runs()] == ["suspended"]


def test_calls_under_way_are_asked_again_or_told_as_unknown(options: dict[str, Any]) -> None:
    with (
        sync.MemorySidecar.launch(**options, restarts=1) as memory,
        memory.run("monday") as run,
        ThreadPoolExecutor(2) as pool,
    ):
        run.call("memory_write", NOTE)
        os.kill(memory.pid, signal.SIGSTOP)
        read = pool.submit(run.call, "memory_read", {"key": "plan"})
        write = pool.submit(run.call, "memory_write", {**NOTE, "key": "other"})
        while len(memory._connection._requests._waiting) < 2:
            pass
        os.kill(memory.pid, signal.SIGKILL)
        assert read.result(60).structured == {"found": True, **NOTE}
        told = write.result(60)
        assert told.is_error
        assert "not known" in told.text
        assert "memory_read" in told.text


def test_nothing_is_launched_again_unless_asked_for(options: dict[str, Any]) -> None:
    with pytest.raises(SidecarDiedError), sync.MemorySidecar.launch(**options) as memory, memory.run("monday"):
        kill(memory)


def test_a_launch_that_cannot_be_repeated_is_told(options: dict[str, Any], tmp_path: Path) -> None:
    command = tmp_path / "once"
    command.write_text(f'#!/bin/sh\nrm "$0"\nexec {sys.executable} -P -m memory_sidecar serve "$@"\n')
    command.chmod(0o755)
    with sync.MemorySidecar.launch(**options, command=[command], restarts=3) as memory:
        kill(memory)
        with pytest.raises(SidecarDiedError) as caught:
            memory.runs()
        assert "once" in str(caught.value.__cause__)


def test_a_cancelled_wait_for_the_next_sidecar_leaves_it_to_the_others(options: dict[str, Any]) -> None:
    async def main() -> None:
        async with MemorySidecar.launch(**options, restarts=1) as memory, memory.run("monday") as run:
            kill(memory)
            task = asyncio.create_task(run.call("memory_list"))
            await asyncio.sleep(0)
            task.cancel()
            assert not (await run.call("memory_list")).is_error

    before = children()
    asyncio.run(main())
    assert children() == before

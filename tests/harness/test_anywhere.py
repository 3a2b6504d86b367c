"""Any loop, any thread, any task, no loop at all: a run answers wherever it is asked, or says at once why not."""

import asyncio
import copy
import gc
import io
import json
import logging
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trio
import uvloop
from tests.support.processes import children
from tests.support.sidecar import environment

import memory_sidecar.harness as library
from memory_sidecar.harness import (
    MemorySidecar,
    RequestRefusedError,
    SidecarDiedError,
    SidecarError,
    StartError,
    sync,
)
from memory_sidecar.harness.command import LaunchOptions
from memory_sidecar.harness.frames import FrameTooLargeError
from memory_sidecar.harness.log import destination

NOTE = {"key": "plan", "description": "the plan", "content": "text", "overwrite": True}


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    return {"identity": "tester", "store_dir": tmp_path / "state", "env": environment()}


# --- loops, threads, tasks -------------------------------------------------------------------------------------------


def test_calls_from_other_loops_and_threads_are_answered(options: dict[str, Any]) -> None:
    async def main() -> None:
        async with MemorySidecar.launch(**options) as memory, memory.run("monday") as run:
            await run.call("memory_write", NOTE)

            async def ask() -> str:
                return (await run.call("memory_read", {"key": "plan"})).text

            def on_uvloop() -> str:
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    return runner.run(ask())

            here = await ask()
            for way in (lambda: asyncio.run(ask()), lambda: trio.run(ask), on_uvloop):
                assert await asyncio.to_thread(way) == here
                # What run_sync of a framework does: another loop in a thread, while this one is blocked.
                with ThreadPoolExecutor(1) as pool:
                    assert pool.submit(way).result(30) == here

    asyncio.run(main())


def test_a_block_is_left_by_another_task_than_entered_it(options: dict[str, Any]) -> None:
    async def main() -> None:
        launch = MemorySidecar.launch(**options)
        memory = await asyncio.create_task(launch.__aenter__())
        block = memory.run("monday")
        run = await asyncio.create_task(block.__aenter__())
        assert not (await run.call("memory_write", NOTE)).is_error
        await asyncio.create_task(block.__aexit__(None, None, None))
        await asyncio.create_task(launch.__aexit__(None, None, None))
        assert memory.exit_status == 0

    asyncio.run(main())


def test_a_block_is_left_on_another_loop_than_entered_it(options: dict[str, Any]) -> None:
    launch = MemorySidecar.launch(**options)
    memory = asyncio.run(launch.__aenter__())
    block = memory.run("monday")
    run = trio.run(block.__aenter__)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert not runner.run(run.call("memory_write", NOTE)).is_error
    asyncio.run(block.__aexit__(None, None, None))
    trio.run(launch.__aexit__, None, None, None)
    assert memory.exit_status == 0


def test_an_abandoned_generator_ends_its_sidecar(options: dict[str, Any]) -> None:
    before = children()

    async def notes() -> AsyncIterator[str]:
        async with MemorySidecar.launch(**options) as memory, memory.run("monday") as run:
            while True:
                yield (await run.call("memory_list")).text

    async def main() -> None:
        async for _ in notes():
            break

    asyncio.run(main())
    assert children() == before


def test_a_block_that_is_entered_and_forgotten_ends_its_sidecar(options: dict[str, Any]) -> None:
    memory = asyncio.run(MemorySidecar.launch(**options).__aenter__())
    run = asyncio.run(memory.run("monday").__aenter__())
    ended = memory._connection._pump.ended
    del memory, run
    gc.collect()
    ended.result(30)
    with sync.MemorySidecar.launch(**options) as memory_again:
        assert [run["state"] for run in memory_again.runs()] == ["suspended"]


def test_a_run_that_is_entered_and_forgotten_can_be_opened_again(options: dict[str, Any]) -> None:
    with sync.MemorySidecar.launch(**options) as memory:
        memory.run("monday").__enter__().call("memory_write", NOTE)
        gc.collect()
        with memory.run("monday") as run:
            assert run.resumed


def test_a_program_that_ends_inside_a_block_ends_its_sidecar(tmp_path: Path) -> None:
    program = (
        "import sys; from memory_sidecar.harness.sync import MemorySidecar\n"
        "launch = MemorySidecar.launch(store_dir=sys.argv[1], identity='tester')\n"
        "run = launch.__enter__().run('monday'); run.__enter__(); print('entered')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert (done.stdout, done.stderr) == ("entered\n", "")
    with sync.MemorySidecar.launch(store_dir=tmp_path, identity="tester", env=environment()) as memory:
        assert [run["state"] for run in memory.runs()] == ["suspended"]


def test_a_coroutine_without_a_loop_names_the_synchronous_face(options: dict[str, Any]) -> None:
    with sync.MemorySidecar.launch(**options) as kept:
        os.kill(kept.pid, signal.SIGSTOP)
        call = MemorySidecar(kept._connection).runs()
        with pytest.raises(RuntimeError, match=r"memory_sidecar\.harness\.sync"):
            call.send(None)
        os.kill(kept.pid, signal.SIGCONT)


# --- without a loop --------------------------------------------------------------------------------------------------


def test_the_synchronous_face_does_the_main_job(options: dict[str, Any]) -> None:
    with sync.MemorySidecar.launch(**options) as memory, memory.run("monday") as run:
        assert memory.alive
        assert run.call("memory_write", NOTE).structured == {"written": True, "key": "plan"}
        assert next(tool["name"] for tool in run.tools) == "memory_list"
        with pytest.raises(RequestRefusedError, match="open already"), memory.run("monday"):
            pytest.fail("it opened twice")
        assert list(run.suspend()["keys"]) == ["plan"]
        with memory.run("friday") as friday:
            friday.finish()
    assert (memory.alive, memory.exit_status) == (False, 0)
    with sync.MemorySidecar.launch(**options) as memory:
        assert {found["run"]: found["state"] for found in memory.runs()} == {
            "monday": "suspended",
            "friday": "completed",
        }
    with pytest.raises(SidecarDiedError, match="block was left"):
        memory.runs()


def test_threads_share_a_run(options: dict[str, Any]) -> None:
    with sync.MemorySidecar.launch(**options) as memory, memory.run() as run, ThreadPoolExecutor(8) as pool:

        def work(number: int) -> str:
            key = f"k{number}"
            run.call("memory_write", {**NOTE, "key": key, "content": key * 3000})
            return run.call("memory_read", {"key": key}).structured["content"]  # type: ignore[index]

        assert list(pool.map(work, range(40))) == [f"k{number}" * 3000 for number in range(40)]


def test_both_faces_have_the_same_words() -> None:
    for one, other in ((library.MemorySidecar, sync.MemorySidecar), (library.Run, sync.Run)):
        assert {name for name in dir(one) if name[0] != "_"} == {name for name in dir(other) if name[0] != "_"}
        for name in ("launch", "run", "call", "finish"):
            if hasattr(one, name):
                ours, theirs = (set(getattr(face, name).__annotations__) for face in (one, other))
                assert ours == theirs


# --- copies, forks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, pickle.dumps])
def test_a_copy_is_refused_and_the_original_works(way: Any, options: dict[str, Any]) -> None:
    with sync.MemorySidecar.launch(**options) as memory, memory.run("monday") as run:
        for original in (memory, run):
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                way(original)
            with pytest.raises(TypeError, match="cannot be copied or pickled"):
                way({"deep": [original]} if way is not copy.copy else original)
        gc.collect()
        assert not run.call("memory_list").is_error


ERRORS: list[SidecarError] = [
    SidecarError("a"),
    StartError("b"),
    SidecarDiedError("c"),
    RequestRefusedError(-32602, "d"),
    FrameTooLargeError(-32600, "e"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_are_copied_and_pickled(error: SidecarError) -> None:
    for twin in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert (type(twin), str(twin), vars(twin)) == (type(error), str(error), vars(error))


def _refused(_: object) -> None:
    raise RequestRefusedError(-32602, "there is no such tool")


def test_an_error_goes_through_a_process_pool() -> None:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(RequestRefusedError, match="no such tool") as caught:
            pool.submit(_refused, None).result()
        assert caught.value.code == -32602


def test_a_forked_process_is_refused_and_takes_nothing_with_it(options: dict[str, Any]) -> None:
    with sync.MemorySidecar.launch(**options) as memory, memory.run("monday") as run:
        run.call("memory_write", NOTE)
        told, tells = os.pipe()
        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            try:
                run.call("memory_list")
                said = "it answered"
            except SidecarError as error:
                said = str(error)
            os.write(tells, said.encode())
            os._exit(0)
        try:
            os.close(tells)
            with open(told, "rb") as pipe:
                assert b"forked from the one that launched" in pipe.read()
        finally:
            os.waitpid(child, 0)
        assert not run.call("memory_list").is_error


def test_a_fork_that_lives_on_does_not_keep_the_sidecar(options: dict[str, Any]) -> None:
    with sync.MemorySidecar.launch(**options) as memory, memory.run("monday"):
        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            signal.pause()
            os._exit(0)
        ended = memory._connection._pump.ended
    try:
        assert ended.done()
        assert memory.exit_status == 0  # by itself: its pipe was closed everywhere
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


# --- the log ---------------------------------------------------------------------------------------------------------


class Odd:
    """What notebooks and test runners put in the place of sys.stderr."""

    def __init__(self) -> None:
        self.text = ""

    def fileno(self) -> int:
        raise io.UnsupportedOperation("fileno")

    def write(self, text: str) -> int:
        self.text += text
        return len(text)


@pytest.mark.parametrize("kind", [io.StringIO, io.BytesIO, Odd])
def test_the_log_goes_to_whatever_can_be_written(kind: Any, options: dict[str, Any]) -> None:
    there = kind()
    with sync.MemorySidecar.launch(**options, stderr=there, log_level="info"):
        pass
    said = there.text if isinstance(there, Odd) else there.getvalue()
    text = said.decode() if isinstance(said, bytes) else said
    assert "started" in text.splitlines()[0]


@pytest.mark.parametrize("kind", [5.0, object(), "log.txt", subprocess.PIPE, subprocess.STDOUT])
def test_a_log_that_can_go_nowhere_is_explained(kind: Any, options: dict[str, Any]) -> None:
    with (
        pytest.raises(TypeError, match=r"stderr is where .* logging\.Logger"),
        sync.MemorySidecar.launch(**options, stderr=kind),
    ):
        pytest.fail("it started")


def test_a_log_that_raises_or_blocks_holds_nobody(options: dict[str, Any]) -> None:
    blocked = threading.Event()

    class Bad:
        def write(self, _: str) -> None:
            blocked.wait(60)
            raise OSError

    with sync.MemorySidecar.launch(**options, stderr=Bad(), log_level="debug") as memory, memory.run() as run:
        for _ in range(100):
            assert not run.call("memory_list").is_error
    blocked.set()


@pytest.mark.parametrize("line", [b"[" * 50_000, b"\xff", b"7", b"{}", b'{"level": [], "event": 1}', b"x" * 200_000])
def test_a_line_that_is_none_of_its_log_stops_no_later_one(line: bytes, caplog: pytest.LogCaptureFixture) -> None:
    _, take = destination(logging.getLogger("memory"), LaunchOptions())
    assert take is not None
    take(line + b"\n")
    take(b'{"level": "error", "event": "later"}\n')
    assert caplog.records[-1].getMessage() == "later"


def test_the_log_is_a_logger_s(options: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("memory")
    caplog.set_level(logging.INFO, "memory")
    with sync.MemorySidecar.launch(**options, stderr=logger) as memory, memory.run("monday"):
        pass
    started = caplog.records[0]
    assert (started.name, started.levelno) == ("memory", logging.INFO)
    assert started.getMessage().startswith("started ")
    assert started.memory_sidecar["event"] == "started"  # type: ignore[attr-defined]
    assert json.dumps(started.memory_sidecar)  # type: ignore[attr-defined]


# --- systems ---------------------------------------------------------------------------------------------------------


def test_a_system_without_posix_is_told_in_one_sentence() -> None:
    code = "import sys; sys.modules['fcntl'] = None; import memory_sidecar.harness"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "ImportError: memory-sidecar runs on Linux, macOS and other POSIX systems" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("value", [None, ""])
def test_an_embedded_python_is_told_to_name_a_command(
    value: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", value)
    with pytest.raises(StartError, match=r"command=\["), sync.MemorySidecar.launch(**options):
        pytest.fail("it started")


def test_a_frozen_program_does_not_start_itself(options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    with pytest.raises(StartError, match=r"command=\["), sync.MemorySidecar.launch(**options):
        pytest.fail("it started")


def test_a_program_that_lets_a_broken_pipe_kill_it_lives_on(tmp_path: Path) -> None:
    program = (
        "import os, signal, sys, time; from memory_sidecar.harness.sync import MemorySidecar, SidecarDiedError\n"
        "signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "try:\n"
        "    with MemorySidecar.launch(store_dir=sys.argv[1], identity='tester') as memory, memory.run() as run:\n"
        "        os.kill(memory.pid, signal.SIGKILL)\n"
        "        for _ in range(100): run.call('memory_list')\n"
        "except SidecarDiedError: print('told')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "told\n", "")

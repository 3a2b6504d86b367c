"""What a newcomer gets wrong is told in one sentence, in the words of the library and with the remedy."""

import asyncio
import errno
import io
import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.support.sidecar import environment

from memory_sidecar.harness import MemorySidecar, RequestRefusedError, StartError, sync
from memory_sidecar.testing import FakeMemory

ENTERED = r"async with MemorySidecar\.launch\(\.\.\.\) as memory, memory\.run\(\.\.\.\) as run"


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    return {"identity": "tester", "store_dir": tmp_path / "state", "env": environment()}


def test_a_launch_or_run_that_is_not_entered_says_how_it_is(options: dict[str, Any]) -> None:
    launch: Any = MemorySidecar.launch(**options)
    plain: Any = sync.MemorySidecar.launch(**options)
    with pytest.raises(AttributeError, match=f"there is no run before the block is entered: {ENTERED}"):
        launch.run("monday")
    with pytest.raises(AttributeError, match=r"there is no run before the block is entered: with MemorySidecar"):
        plain.run("monday")
    assert not hasattr(launch, "pid")
    with plain as memory, pytest.raises(AttributeError, match="there is no call before the block is entered"):
        memory.run("monday").call("memory_list")


def test_a_block_that_is_entered_the_wrong_way_says_the_right_one(options: dict[str, Any]) -> None:
    launch: Any = MemorySidecar.launch(**options)
    plain: Any = sync.MemorySidecar.launch(**options)

    async def awaited() -> None:
        await launch

    async def entered() -> None:
        async with plain:
            pytest.fail("it was entered")

    with pytest.raises(TypeError, match=f"it is not awaited but entered: {ENTERED}"):
        asyncio.run(awaited())
    with pytest.raises(TypeError, match=rf"entered by {ENTERED}.* memory_sidecar\.harness\.sync"), launch:
        pytest.fail("it was entered")
    with pytest.raises(TypeError, match=r"entered by with .* memory_sidecar\.harness has the same"):
        asyncio.run(entered())


def test_no_word_of_the_protocol_is_in_what_an_ended_run_says(options: dict[str, Any]) -> None:
    with sync.MemorySidecar.launch(**options) as memory:
        for end in ("suspend", "finish", "left"):
            with memory.run(end) as run:
                if end != "left":
                    getattr(run, end)()
            uses: list[Callable[[], object]] = [lambda r=run: r.call("memory_list"), run.suspend, run.finish]
            for use in uses:
                with pytest.raises(RequestRefusedError) as refused:
                    use()
                assert str(refused.value).startswith(f"run {end} is not open any more")
                assert f'memory.run("{end}")' in str(refused.value)
                assert "memory-sidecar/" not in str(refused.value)
                assert "tools/" not in str(refused.value)


@pytest.mark.parametrize("name", [None, 7, b"memory_list", ["memory_list"]])
def test_a_tools_name_that_is_no_text_is_told_in_the_librarys_words(name: Any) -> None:
    with FakeMemory().launch_sync() as memory, memory.run() as run:
        with pytest.raises(RequestRefusedError, match=rf"is a text, not {type(name).__name__}; give one of those"):
            run.call(name)
        assert run.call("memory_list").structured == {"memories": []}


@pytest.mark.parametrize("many", [False, True])
def test_no_refusal_of_an_identity_speaks_of_the_wire_or_of_a_command_line(many: bool) -> None:
    named = None if many else "a"
    with FakeMemory(many_identities=many).launch_sync() as memory:
        for asked in (memory.run("monday", identity=named).__enter__, partial(memory.runs, identity=named)):
            with pytest.raises(RequestRefusedError) as refused:
                asked()
            assert "many_identities=True" in str(refused.value)
            assert not re.search(r"--|request|_meta|sidecar", str(refused.value))


@pytest.mark.parametrize("restarts", [-1, 1.5, "x", None, True])
def test_restarts_that_are_no_number_of_them_are_told_at_the_start(options: dict[str, Any], restarts: Any) -> None:
    launch = sync.MemorySidecar.launch(**options, restarts=restarts)
    with (
        pytest.raises(TypeError, match="restarts is how often a sidecar that dies is launched again, 0 or more"),
        launch,
    ):
        pytest.fail("it was entered")


@pytest.mark.parametrize("thread", ["memory-sidecar log", "memory-sidecar "])
def test_a_program_that_may_start_no_thread_is_told_so_and_nothing_is_left(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thread: str
) -> None:
    """The limit of a user's processes is met in between: the sidecar was started, what attends to it cannot be."""
    begin = threading.Thread.start
    launched: list[subprocess.Popen[bytes]] = []

    class Recorded(subprocess.Popen[bytes]):
        def __init__(self, *words: Any, **named: Any) -> None:
            super().__init__(*words, **named)
            launched.append(self)

    def start(this: threading.Thread) -> None:
        if this.name.startswith(thread):
            raise RuntimeError("can't start new thread")
        begin(this)

    tickets = tmp_path / "tickets"
    tickets.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tickets))
    descriptors = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as limited:
        limited.setattr(threading.Thread, "start", start)
        limited.setattr(subprocess, "Popen", Recorded)
        with (
            pytest.raises(StartError, match=r"can't start new thread; raise this user's limit of processes"),
            sync.MemorySidecar.launch(**options, stderr=io.StringIO()),
        ):
            pytest.fail("it was entered")
    assert list(tickets.iterdir()) == []
    assert len(os.listdir("/proc/self/fd")) <= descriptors
    assert [process.returncode for process in launched] == [-signal.SIGKILL]


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.EMFILE, "ulimit -n"), (errno.EAGAIN, "ulimit -u"), (errno.ENOMEM, "ulimit -v"), (errno.ENOENT, "check")],
)
def test_a_limit_that_a_launch_meets_is_named(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    def fail(*_words: Any, **_named: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(subprocess, "Popen", fail)
    with pytest.raises(StartError, match=remedy), sync.MemorySidecar.launch(**options):
        pytest.fail("it was entered")

"""The fixtures for other people's tests, used as they would use them: on each loop, and on none."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.sidecar import environment

from memory_sidecar.harness import Run, sync
from memory_sidecar.testing import FakeMemory
from memory_sidecar.testing.fixtures import fake_memory, memory_run, memory_run_sync

__all__ = ["fake_memory", "memory_run", "memory_run_sync"]

NOTE = {"key": "plan", "description": "the plan", "content": "text"}


@pytest.mark.anyio
async def test_a_run_for_an_event_loop(memory_run: Run) -> None:
    assert (await memory_run.call("memory_list")).structured == {"memories": []}  # each test has its own
    assert (await memory_run.call("memory_write", NOTE)).structured == {"written": True, "key": "plan"}


def test_a_run_for_none(memory_run_sync: sync.Run) -> None:
    assert memory_run_sync.call("memory_list").structured == {"memories": []}
    assert memory_run_sync.call("memory_write", NOTE).structured == {"written": True, "key": "plan"}
    refused = memory_run_sync.call("memory_write", NOTE).structured
    assert refused is not None
    assert refused["code"] == "exists"


def test_a_fake(fake_memory: FakeMemory) -> None:
    assert fake_memory.documents == {}  # each test has its own
    with fake_memory.launch_sync() as memory, memory.run() as run:
        assert run.call("memory_write", NOTE).structured == {"written": True, "key": "plan"}
    assert list(fake_memory.documents) == ["plan"]


def test_they_are_found_as_a_plugin_is(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["memory_sidecar.testing.fixtures"]\n')
    (tmp_path / "test_agent.py").write_text(
        "def test_agent(fake_memory, memory_run_sync):\n"
        "    with fake_memory.launch_sync() as memory, memory.run() as run:\n"
        "        assert run.tools == memory_run_sync.tools\n"
    )
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment())
    assert "1 passed" in done.stdout, done.stdout + done.stderr


def test_the_fake_needs_no_pytest(tmp_path: Path) -> None:
    (tmp_path / "pytest.py").write_text("raise ImportError")
    code = "from memory_sidecar.testing import FakeMemory; FakeMemory()"
    more = {"PYTHONPATH": f"{tmp_path}:{environment().get('PYTHONPATH', '')}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment() | more, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_run_that_the_program_ends_is_left_in_order(memory_run_sync: sync.Run) -> None:
    memory_run_sync.finish()

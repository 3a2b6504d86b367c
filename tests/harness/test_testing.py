"""The fixtures for other people's tests, used as they would use them: on each loop, and on none."""

import pytest

from memory_sidecar.harness import Run, sync
from memory_sidecar.harness.testing import memory_run, memory_run_sync

__all__ = ["memory_run", "memory_run_sync"]

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


def test_a_run_that_the_program_ends_is_left_in_order(memory_run_sync: sync.Run) -> None:
    memory_run_sync.finish()

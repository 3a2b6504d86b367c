"""For the tests of programs that use the library: pytest fixtures with a memory of its own for each test.

    pytest_plugins = ["memory_sidecar.testing.fixtures"]  # in conftest.py

    async def test_my_agent(memory_run):
        await my_agent(memory_run)
        assert (await memory_run.call("memory_read", {"key": "plan"})).structured["found"]

    def test_my_agent_outlives_its_memory(fake_memory):
        with fake_memory.launch_sync(restarts=1) as memory, memory.run("monday") as run:
            fake_memory.kill()
            ...

`fake_memory` is a `FakeMemory`: no process, some ten milliseconds, and it dies or fails when the test says so.
`memory_run` and `memory_run_sync` are open runs of the real sidecar over the test's temporary directory, so they refuse
what that refuses; they need no network and about a tenth of a second. `memory_run` may be awaited on any event loop,
whichever plugin runs the test.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..harness import MemorySidecar, Run, sync
from ..harness.steps import here
from .fake import FakeMemory

try:
    import pytest
except ImportError as error:
    raise ImportError("memory_sidecar.testing.fixtures needs pytest: pip install pytest") from error

__all__ = ["fake_memory", "memory_run", "memory_run_sync"]

_GUARDED = """\
harness:
  memory:
    enabled: true
    options: {require_read_before_update: true}
"""


@pytest.fixture
def fake_memory() -> FakeMemory:
    """A memory without a process; overwrites need a read, as on JetStream."""
    return FakeMemory(guard=True)


@pytest.fixture
def memory_run(tmp_path: Path) -> Iterator[Run]:
    """An open run for a program with an event loop; overwrites need a read, as on JetStream."""
    with _launched(tmp_path) as kept:
        memory = MemorySidecar(kept._connection)  # noqa: SLF001 - another face of it
        run = Run(memory, here(memory._open(None, "auto", None)))  # noqa: SLF001
        yield run
        here(run._leave(None))  # noqa: SLF001


@pytest.fixture
def memory_run_sync(tmp_path: Path) -> Iterator[sync.Run]:
    """The same for a program without one."""
    with _launched(tmp_path) as memory, memory.run() as run:
        yield run


@contextmanager
def _launched(place: Path) -> Iterator[sync.MemorySidecar]:
    directory = place / "memory-sidecar"
    directory.mkdir(exist_ok=True)
    config = directory / "memory.yaml"
    config.write_text(_GUARDED, encoding="utf-8")
    with sync.MemorySidecar.launch(config=config, identity="test", store_dir=directory) as memory:
        yield memory

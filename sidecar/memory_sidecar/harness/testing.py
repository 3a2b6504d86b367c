"""For the tests of programs that use the library: pytest fixtures with a memory of their own for each test.

    from memory_sidecar.harness.testing import memory_run, memory_run_sync  # in conftest.py

    async def test_my_agent(memory_run):
        await my_agent(memory_run)
        assert (await memory_run.call("memory_read", {"key": "plan"})).structured["found"]

It is the real sidecar over the test's temporary directory, so it refuses what the real one refuses; it needs no network
and about a tenth of a second. `memory_run` may be awaited on any event loop, whichever plugin runs the test. Quicker,
and without a process, is the fake in `memory_sidecar.testing.fake`, which answers the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from . import sync
from .sidecar import MemorySidecar, Run
from .steps import here

try:
    import pytest
except ImportError as error:
    raise ImportError("memory_sidecar.harness.testing needs pytest: pip install pytest") from error

__all__ = ["memory_run", "memory_run_sync"]

_GUARDED = """\
harness:
  memory:
    enabled: true
    options: {require_read_before_update: true}
"""


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

"""A program that brings its own store is a sidecar like any other, unless its configuration names another backend."""

import sys
from pathlib import Path

import pytest

from memory_sidecar.harness import MemorySidecar, StartError

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PROGRAM = """\
import sys
sys.path.insert(0, {root!r})
from memory_sidecar.backend.injected import Injected
from memory_sidecar.cli.serve import serve_harness
from tests.support.memory_store import memory_store

words = sys.argv[1:]
options = {{name[2:].replace("-", "_"): value for name, value in zip(words[::2], words[1::2])}}
sys.exit(serve_harness(options, Injected(memory_store())))
"""


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    program = tmp_path / "sidecar.py"
    program.write_text(PROGRAM.format(root=str(ROOT)))
    return [sys.executable, "-P", str(program)]


async def test_a_store_brought_along_serves(command: list[str], tmp_path: Path) -> None:
    launch = MemorySidecar.launch(command=command, store_dir=tmp_path, identity="tester")
    async with launch as memory, memory.run("r") as run:
        await run.call("memory_write", {"key": "k", "description": "d", "content": "c"})
        assert (await run.call("memory_read", {"key": "k"})).structured["content"] == "c"
        assert run.scope["store"].startswith("injected:")
    assert not (tmp_path / "memory").exists()


async def test_another_backend_in_the_configuration_is_refused_naming_both(command: list[str], tmp_path: Path) -> None:
    config = tmp_path / "memory.yaml"
    config.write_text("harness: {memory: {enabled: true, backend: file}}\n")
    with pytest.raises(StartError, match=r"'file'.*'memory'"):
        async with MemorySidecar.launch(command=command, config=config, store_dir=tmp_path, identity="tester"):
            pass

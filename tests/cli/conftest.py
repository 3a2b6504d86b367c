"""The program as an operator starts it: a subprocess, with Python's warnings as errors."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from tests.support.warm import Warm

from memory_sidecar.harness import MemorySidecar, Run

PROGRAM = [sys.executable, "-W", "error", "-P", "-m", "memory_sidecar"]


class Done(NamedTuple):
    status: int
    out: str
    err: str


Cli = Callable[..., Done]


def environment(**more: str) -> dict[str, str]:
    left_out = ("MEMORY_SIDECAR_TICKET", "COLUMNS", "PYTHONUNBUFFERED")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return kept | more


@pytest.fixture(scope="session")
def warm() -> Iterator[Warm]:
    process = Warm()
    yield process
    process.close()


@pytest.fixture
def cli(tmp_path: Path, warm: Warm) -> Cli:
    def run(*words: str | Path, stdin: str = "", env: Mapping[str, str] | None = None, raw: bool = False) -> Any:
        given = environment(**(env or {}))
        if any(name.startswith("PYTHON") for name in env or ()):  # what the interpreter reads as it starts
            done = subprocess.run(
                [*PROGRAM, *map(str, words)],
                cwd=tmp_path,
                input=stdin.encode(),
                env=given,
                capture_output=True,
                check=False,
            )
            status, out, err = done.returncode, done.stdout, done.stderr
        else:
            status, out, err = warm.run([str(word) for word in words], tmp_path, stdin.encode(), given)
        assert b"Traceback" not in err, err.decode()
        shown: Any = out if raw else out.decode()
        return Done(status, shown, err.decode())

    return run


class Place:
    """A store base with the memory of one identity."""

    def __init__(self, path: Path, identity: str = "bot") -> None:
        self.path = path
        self.identity = identity
        self.notes = path / "memory" / identity
        self.journals = path / "runs"
        self.runs = self.journals / identity
        self.options = ("--store-dir", str(path), "--identity", identity)

    def calls(self, run: str, *calls: tuple[str, dict[str, Any]], finish: bool = False, **launch: Any) -> None:
        """Make the tool calls in a run, which is then suspended or completed."""

        async def work(opened: Run) -> None:
            for name, arguments in calls:
                await opened.call(name, arguments)
            if finish:
                await opened.finish("completed")

        self.within(run, work, **launch)

    def within(self, run: str, work: Callable[[Run], Any], **launch: Any) -> None:
        async def main() -> None:
            async with (
                MemorySidecar.launch(store_dir=self.path, identity=self.identity, **launch) as memory,
                memory.run(run) as opened,
            ):
                await work(opened)

        anyio.run(main)

    def write(self, *keys: str, run: str = "monday", **more: str) -> None:
        notes = [{"key": key, "description": f"About {key}", "content": f"The {key}.\n", **more} for key in keys]
        self.calls(run, *(("memory_write", note) for note in notes))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "base")


@pytest.fixture
def other(tmp_path: Path) -> Place:
    return Place(tmp_path / "other")

"""The program as an operator starts it: a subprocess, with Python's warnings as errors."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest

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


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    def run(*words: str | Path, stdin: str = "", env: Mapping[str, str] | None = None, raw: bool = False) -> Any:
        done = subprocess.run(
            [*PROGRAM, *map(str, words)],
            cwd=tmp_path,
            input=stdin.encode(),
            env=environment(**(env or {})),
            capture_output=True,
            check=False,
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        out: Any = done.stdout if raw else done.stdout.decode()
        return Done(done.returncode, out, done.stderr.decode())

    return run


class Place:
    """A store base with the memory of one identity."""

    def __init__(self, path: Path, identity: str = "bot") -> None:
        self.path = path
        self.identity = identity
        self.notes = path / "memory" / identity
        self.runs = path / "runs"
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

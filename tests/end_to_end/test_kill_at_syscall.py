"""Killed at each system call of a write in turn: the old value or the new one, whole, and nothing acknowledged lost.

strace does it: attached to the thread that serves the run, it kills the process as that thread enters the n-th call of
a name. A first pass without a kill tells which calls there are.
"""

import contextlib
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.sidecar import DEADLINE, Sidecar, guarded, launched, until

STRACE = shutil.which("strace")
pytestmark = pytest.mark.skipif(STRACE is None, reason="strace is not installed")

OLD = "old " * 2000
NEW = "new " * 3000
SAMPLE = 10
"""In the default run every tenth kill is tried; the long tests try each, and tests/faults those of seven operations."""


def _begun(task: Path) -> tuple[int, int]:
    """When a thread was started, in ticks, and its number: numbers begin anew at the highest."""
    return int((task / "stat").read_text().rpartition(")")[2].split()[19]), int(task.name)


@contextlib.contextmanager
def attached(sidecar: Sidecar, output: Path, *options: str) -> Iterator[None]:
    """strace on the thread that serves the default run: the youngest, for that run was opened last."""
    thread = max(Path(f"/proc/{sidecar.pid}/task").iterdir(), key=_begun).name
    assert STRACE is not None
    log = output.with_suffix(".log")
    with (
        log.open("w") as errors,
        subprocess.Popen(
            [STRACE, "-p", thread, "-o", str(output), *options], stderr=errors, stdin=subprocess.DEVNULL
        ) as tracer,
    ):
        try:
            until(lambda: "attached" in log.read_text() or tracer.poll() is not None, "strace is attached")
            if "attached" not in log.read_text():
                pytest.skip(f"strace may not attach here: {log.read_text().strip()}")
            yield
        finally:
            tracer.terminate()
            tracer.wait(DEADLINE)


def prepared(base: Path, guard: tuple[str, str], *, overwrite: bool) -> Sidecar:
    """A sidecar whose run may overwrite, on a store that holds the old value or nothing."""
    shutil.rmtree(base, ignore_errors=True)
    sidecar = launched(base, *guard, "--run", "monday")
    if overwrite:
        assert sidecar.write("plan", OLD)["written"]
    else:
        assert sidecar.write("other", OLD)["written"]  # so that both writes meet the same journal
    return sidecar


def attempt(sidecar: Sidecar, *, overwrite: bool) -> bool:
    """Whether the write was acknowledged."""
    try:
        return bool(sidecar.write("plan", NEW, overwrite=overwrite)["written"])
    except (EOFError, BrokenPipeError):
        return False


def calls_of(tmp_path: Path, guard: tuple[str, str], *, overwrite: bool) -> list[tuple[str, int]]:
    """The system calls of the write, as names and how often each had been made."""
    trace = tmp_path / "trace"
    with prepared(tmp_path / "state", guard, overwrite=overwrite) as sidecar:
        with attached(sidecar, trace):
            assert attempt(sidecar, overwrite=overwrite)
        assert sidecar.leave() == 0
    names = re.findall(r"^(?:\d+ +)?(\w+)\(", trace.read_text(), re.MULTILINE)
    assert {"fsync", "flock", "write"} <= set(names)
    assert ("rename" in " ".join(names)) if overwrite else ("link" in " ".join(names))
    made: Counter[str] = Counter()
    calls = []
    for name in names:
        made[name] += 1
        calls.append((name, made[name]))
    return calls


def kill_at(tmp_path: Path, guard: tuple[str, str], call: tuple[str, int], *, overwrite: bool) -> None:
    name, when = call
    base = tmp_path / "state"
    with prepared(base, guard, overwrite=overwrite) as sidecar:
        with attached(sidecar, tmp_path / "trace", "-e", f"inject={name}:signal=KILL:when={when}"):
            acknowledged = attempt(sidecar, overwrite=overwrite)
            if not acknowledged:
                assert sidecar.wait() == -9
        sidecar.kill()
    where = f"killed at {name} number {when}"
    old = {OLD} if overwrite else {None}
    note = base / "memory" / "tester" / "plan.md"
    stored = note.read_text().partition("\n\n")[2] if note.exists() else None
    assert stored in ({NEW} if acknowledged else old | {NEW}), where
    with launched(base, *guard, "--run", "monday") as sidecar:
        assert sidecar.read("plan").get("content") == stored, where
        assert not list(note.parent.glob(".tmp-*")), where
        # The run goes on, with what it had earned before.
        assert sidecar.write("plan", "newest", overwrite=stored is not None)["written"], where
        if not overwrite:
            assert sidecar.write("other", "newest", overwrite=True)["written"], where
        assert sidecar.leave() == 0


@pytest.fixture
def guard(tmp_path: Path) -> tuple[str, str]:
    return guarded(tmp_path)


@pytest.mark.parametrize("overwrite", [False, True], ids=["create", "overwrite"])
def test_a_kill_at_a_sample_of_the_system_calls_of_a_write(
    tmp_path: Path, guard: tuple[str, str], *, overwrite: bool
) -> None:
    calls = calls_of(tmp_path, guard, overwrite=overwrite)
    for call in calls[overwrite::SAMPLE]:
        kill_at(tmp_path, guard, call, overwrite=overwrite)


@pytest.mark.long
@pytest.mark.parametrize("overwrite", [False, True], ids=["create", "overwrite"])
def test_a_kill_at_each_system_call_of_a_write(tmp_path: Path, guard: tuple[str, str], *, overwrite: bool) -> None:
    calls = calls_of(tmp_path, guard, overwrite=overwrite)
    assert len(calls) > 20
    for call in calls:
        kill_at(tmp_path, guard, call, overwrite=overwrite)

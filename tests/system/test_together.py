"""What threads of one process do to one directory together: nothing counts that began before the caller's change."""

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.sidecar import until

from memory_sidecar.system import files
from memory_sidecar.system.together import Together


class Disk:
    """In place of the disk: flushes that wait until they are let go, and fail where they are told to."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended = 0
        self.fails = False
        self._go = threading.Semaphore(0)

    def flush(self, descriptor: int) -> bool:
        self.begun.append(descriptor)
        assert self._go.acquire(timeout=60)
        self.ended += 1
        if self.fails:
            raise OSError(5, "Input/output error")
        return True

    def let_go(self, count: int = 1) -> None:
        self._go.release(count)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    found = Disk()
    monkeypatch.setattr(files, "flush", found.flush)
    return found


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    with files.open_directory(str(tmp_path)) as opened:
        yield opened


class Caller:
    """A thread that flushes, and what came of it."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.error: OSError | None = None
        self.done = threading.Event()
        self._call = call
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._call()
        except OSError as error:
            self.error = error
        self.done.set()


def waiting(together: Together, count: int) -> None:
    """Until so many threads wait for a flush of another."""
    until(lambda: len(together._changed._waiters) == count)  # type: ignore[attr-defined]


def test_those_who_come_during_a_flush_share_the_next_one(disk: Disk, directory: int) -> None:
    together = Together()
    first = Caller(lambda: together.flush(directory))
    until(lambda: disk.begun)
    others = [Caller(lambda: together.flush(directory)) for _ in range(7)]
    waiting(together, 7)

    disk.let_go()
    assert first.done.wait(60)
    until(lambda: len(disk.begun) == 2)
    assert not any(other.done.is_set() for other in others)  # the flush under way may have missed their changes

    disk.let_go()
    assert all(other.done.wait(60) for other in others)
    assert disk.ended == 2


def test_a_flush_that_failed_serves_nobody(disk: Disk, directory: int) -> None:
    together = Together()
    disk.fails = True
    callers = [Caller(lambda: together.flush(directory)) for _ in range(3)]
    until(lambda: disk.begun)
    waiting(together, 2)
    disk.let_go(3)
    assert all(caller.done.wait(60) for caller in callers)
    assert [caller.error is not None for caller in callers] == [True] * 3
    assert disk.ended == 3

    disk.fails = False
    disk.let_go()
    together.flush(directory)


def test_a_flush_of_another_directory_serves_nobody(disk: Disk, directory: int, tmp_path: Path) -> None:
    together = Together()
    (tmp_path / "other").mkdir()
    with files.open_directory(str(tmp_path / "other")) as other:
        first = Caller(lambda: together.flush(directory))
        until(lambda: disk.begun)
        callers = [Caller(lambda: together.flush(directory)), Caller(lambda: together.flush(other))]
        waiting(together, 2)
        disk.let_go(3)
        assert all(caller.done.wait(60) for caller in [first, *callers])
    assert sorted(disk.begun) == sorted([directory, directory, other])


def test_one_at_a_time_holds_the_lock(tmp_path: Path) -> None:
    together, inside, most = Together(), [0], [0]

    def change() -> None:
        with files.open_directory(str(tmp_path)) as opened, together.locked(opened):
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            os.stat(tmp_path)
            inside[0] -= 1

    callers = [Caller(lambda: [change() for _ in range(50)]) for _ in range(8)]
    assert all(caller.done.wait(60) for caller in callers)
    assert most == [1]
    assert not any(caller.error for caller in callers)


def test_a_lock_that_another_process_holds_is_waited_for_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOCK_TIMEOUT", 0.05)
    together = Together()

    def change() -> None:
        with files.open_directory(str(tmp_path)) as opened, together.locked(opened):
            pass

    with files.open_directory(str(tmp_path)) as held, files.locked(held):
        callers = [Caller(change) for _ in range(3)]
        assert all(caller.done.wait(60) for caller in callers)
    assert all(isinstance(caller.error, files.LockTimeoutError) for caller in callers)
    change()


def test_a_lock_that_another_thread_holds_is_waited_for_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOCK_TIMEOUT", 0.05)
    together = Together()

    def change() -> None:
        with files.open_directory(str(tmp_path)) as opened, together.locked(opened):
            pass

    with files.open_directory(str(tmp_path)) as held, together.locked(held):
        caller = Caller(change)
        assert caller.done.wait(20)
    assert isinstance(caller.error, files.LockTimeoutError)
    change()

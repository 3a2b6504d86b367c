"""Directories that can be spoiled under a running sidecar, and small disks that fill up."""

import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

__all__ = ["BREAKAGES", "Breakage", "Disk", "descriptors", "small_disk"]


def _run(*words: object) -> None:
    subprocess.run(list(map(str, words)), check=True, capture_output=True)


@contextmanager
def mounted(at: Path, size: str = "4m") -> Iterator[Path]:
    """A file system of its own at `at`; skips where this user may not mount."""
    at.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", at],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    try:
        yield at
    finally:
        _run("umount", "--lazy", at)


class Disk:
    """A small file system, filled up and freed again."""

    def __init__(self, at: Path) -> None:
        self._filler = at / "filler"

    def fill(self) -> None:
        """Take all that is free, to the last byte of the last file."""
        descriptor = os.open(self._filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            for size in (1 << 16, 1 << 12, 1):
                with suppress(OSError):
                    while True:
                        os.write(descriptor, b"x" * size)
        finally:
            os.close(descriptor)

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)

    @contextmanager
    def filling(self) -> Iterator[None]:
        """It is filled and freed again and again, as fast as it goes."""
        stop = threading.Event()

        def work() -> None:
            while not stop.is_set():
                self.fill()
                self.free()

        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()


@contextmanager
def small_disk(at: Path) -> Iterator[Disk]:
    with mounted(at, "512k"):
        yield Disk(at)


class Breakage(NamedTuple):
    """`spoil` makes the directory useless, `mend` is what an operator would undo it with."""

    spoil: Callable[[Path], object]
    mend: Callable[[Path], object]
    restart: bool = False
    """Whether the process that was there before may not use what was mended: its lockdown knows another directory."""
    root: bool = False
    mount: bool = False
    """Whether the directory has to be a file system of its own."""


def _beside(place: Path) -> Path:
    return place.with_name(place.name + ".away")


def _replace(place: Path) -> None:
    shutil.rmtree(place)
    place.mkdir(mode=0o700)


BREAKAGES = {
    "mode 0500": Breakage(lambda place: place.chmod(0o500), lambda place: place.chmod(0o700)),
    "mode 0000": Breakage(lambda place: place.chmod(0o000), lambda place: place.chmod(0o700)),
    "immutable": Breakage(
        lambda place: _run("chattr", "+i", place), lambda place: _run("chattr", "-i", place), root=True
    ),
    "mounted read-only": Breakage(
        lambda place: _run("mount", "-o", "remount,ro", place),
        lambda place: _run("mount", "-o", "remount,rw", place),
        root=True,
        mount=True,
    ),
    "moved away": Breakage(lambda place: place.rename(_beside(place)), lambda place: _beside(place).rename(place)),
    "removed": Breakage(shutil.rmtree, lambda place: place.mkdir(mode=0o700), restart=True),
    "replaced": Breakage(_replace, lambda _: None, restart=True),
}


def descriptors(pid: int) -> int | None:
    """How many a process has open; None where this user may not look."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None

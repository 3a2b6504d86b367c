"""The power fails at any system call: what the disk holds at that moment is all there is.

The store lives on an ext4 file system in an image. While the writer is stopped, the image is copied: what the kernel
has not yet been made to write is not in it. The copy is mounted, which replays the file system's journal, and
looked at.
The control without flushing must lose acknowledged changes, or the harness would prove nothing.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.tally import Tally

from memory_sidecar.system import files

from . import tracer
from .met import ANSWERS, met, wrong
from .operations import OPERATIONS, prepare, verify

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not tracer.AVAILABLE, reason="the tracer knows x86_64 Linux only"),
    pytest.mark.skipif(os.geteuid() != 0, reason="mounting an image needs root"),
    pytest.mark.skipif(shutil.which("mkfs.ext4") is None, reason="needs mkfs.ext4"),
]


@contextmanager
def mounted(image: Path, at: Path) -> Iterator[Path]:
    at.mkdir(exist_ok=True)
    done = subprocess.run(["mount", "-o", "loop", image, at], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount an image here: {done.stderr.strip()}")
    try:
        yield at
    finally:
        subprocess.run(["umount", at], check=True)


Prepare = Callable[[Path], tuple[Callable[[], bytes], Callable[[], object]]]
"""Makes ready what is to be cut, in an empty directory of the disk, and what closes its files."""
Judge = Callable[[Path, bytes | None], list[str]]
"""What is wrong in that directory, after the answer that had come."""


def cut_everywhere(prepared: Prepare, judge: Judge, tmp_path: Path) -> tuple[int, list[str]]:
    """Cut the power before every call of the operation, and after its answer: how many cuts, and what was wrong."""
    image = tmp_path / "disk"
    with image.open("wb") as disk:
        disk.truncate(8 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-O", "^resize_inode", image], check=True)
    cuts: list[tuple[Path, bytes | None]] = []

    def cut(answer: bytes | None = None) -> None:
        copy = tmp_path / f"cut{len(cuts)}"
        subprocess.run(["cp", "--sparse=always", image, copy], check=True)
        cuts.append((copy, answer))

    with mounted(image, tmp_path / "disk-at") as disk:
        place = disk / "place"
        place.mkdir()
        act, close = prepared(place)
        os.sync()
        answer, _ = tracer.run_traced(act, lambda _: cut())
        cut(answer)
        close()

    wrong = []
    for number, (copy, answer) in enumerate(cuts):
        with mounted(copy, tmp_path / "cut-at") as disk:
            wrong += [f"cut {number}: {text}" for text in judge(disk / "place", answer)]
        copy.unlink()
    return len(cuts), wrong


def operation_cut(name: str, tmp_path: Path) -> tuple[int, list[str]]:
    def prepared(place: Path) -> tuple[Callable[[], bytes], Callable[[], object]]:
        run = prepare(name, place)
        return lambda: OPERATIONS[name].act(run), run._journal.close

    return cut_everywhere(prepared, lambda place, answer: verify(name, place, answer, power_cut=True), tmp_path)


@pytest.mark.parametrize("name", OPERATIONS)
def test_power_cut_at_every_call(name: str, tmp_path: Path, tally: Tally) -> None:
    count, wrong = operation_cut(name, tmp_path)
    tally(name, "power cut at each call", count, wrong)


@pytest.mark.parametrize("name", ["create", "overwrite", "delete"])
def test_control_without_flushing_acknowledged_changes_are_lost(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    monkeypatch.setattr(files, "flush", lambda _: None)
    count, wrong = operation_cut(name, tmp_path)
    lost = [text for text in wrong if "acknowledged change is not there" in text or "neither the old" in text]
    tally(f"{name} without flushing", "power cut at each call", count, lost, control=True)


@pytest.mark.parametrize("what", ANSWERS)
def test_power_cut_while_an_editors_save_is_displaced(what: str, tmp_path: Path, tally: Tally) -> None:
    """Before a save that is on disk is back under its key, the power fails: the next start puts it there."""
    count, lost = cut_everywhere(
        lambda place: (met(place / "notes", what), lambda: None), lambda place, _: wrong(place / "notes"), tmp_path
    )
    tally(f"{what} that meets a save", "power cut at each call", count, lost)

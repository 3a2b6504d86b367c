"""At every system call of every operation: SIGKILL, each error a disk can give, and writes cut short.

Afterwards the store holds the old value or the new one, whole; what was acknowledged is there; the process has
answered; nothing is left behind. The controls show that a store that writes in place is caught.
"""

import errno
import os
from pathlib import Path

import pytest

from memory_sidecar import files

from . import tracer
from .operations import OPERATIONS, prepare, verify

pytestmark = pytest.mark.skipif(not tracer.AVAILABLE, reason="the tracer knows x86_64 Linux only")

ERRORS = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EPERM, errno.EACCES, errno.EROFS, errno.EMFILE, errno.ENOMEM]


def attempt(name: str, place: Path, decide: tracer.Decision) -> tuple[list[str], list[tracer.Stop]]:
    """One operation in a fresh place, spoiled as decided: what is wrong afterwards, and the calls it made."""
    place.mkdir()
    run = prepare(name, place)
    answer, stops = tracer.run_traced(lambda: OPERATIONS[name].act(run), decide)
    run._journal.close()  # the child's copy died with it
    return verify(name, place, answer), stops


def calls_of(name: str, tmp_path: Path) -> list[tracer.Stop]:
    wrong, stops = attempt(name, tmp_path / "whole", lambda _: None)
    assert not wrong
    return stops


@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_at_every_call(name: str, tmp_path: Path) -> None:
    for stop in calls_of(name, tmp_path):
        wrong, _ = attempt(
            name, tmp_path / f"{stop.count}", lambda now, at=stop.count: "kill" if now.count == at else None
        )
        assert not wrong, f"killed before call {stop.count}, {stop.name}"


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("code", ERRORS, ids=lambda code: errno.errorcode[code])
def test_every_call_fails_once(name: str, code: int, tmp_path: Path) -> None:
    for stop in calls_of(name, tmp_path):
        if stop.name is None:
            continue
        wrong, _ = attempt(
            name, tmp_path / f"{stop.count}", lambda now, at=stop.count: code if now.count == at else None
        )
        assert not wrong, f"{errno.errorcode[code]} from call {stop.count}, {stop.name}"


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_disk_stays_broken_from_any_call_on(name: str, tmp_path: Path) -> None:
    changing = {"write", "pwrite64", "fsync", "link", "linkat", "rename", "renameat", "unlink", "unlinkat", "ftruncate"}
    for stop in calls_of(name, tmp_path):
        if stop.name not in changing:
            continue
        wrong, _ = attempt(
            name,
            tmp_path / f"{stop.count}",
            lambda now, at=stop.count: errno.EIO if now.count >= at and now.name in changing else None,
        )
        # What a broken disk does not let go of can't be swept, and an authority that can't be taken back is no ack.
        wrong = [text for text in wrong if "left behind" not in text]
        assert not wrong, f"broken from call {stop.count}, {stop.name}"


@pytest.mark.parametrize("name", OPERATIONS)
def test_short_writes_and_interruptions(name: str, tmp_path: Path) -> None:
    for stop in calls_of(name, tmp_path):
        for spoil in ("short", errno.EINTR) if stop.name in ("write", "pwrite64") else (errno.EINTR,):
            if stop.name is None or stop.name == "close":  # Linux closes even when it says EINTR
                continue
            wrong, _ = attempt(
                name,
                tmp_path / f"{stop.count}-{spoil}",
                lambda now, at=stop.count, spoil=spoil: spoil if now.count == at else None,
            )
            assert not wrong, f"{spoil} at call {stop.count}, {stop.name}"


def test_control_a_store_that_writes_in_place_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_place(directory: int, stage: str, name: str) -> None:
        data = Path(f"/proc/self/fd/{directory}", stage).read_bytes()
        descriptor = os.open(name, os.O_WRONLY | os.O_TRUNC, dir_fd=directory)
        files.write_all(descriptor, data[:1000])
        files.write_all(descriptor, data[1000:])
        os.close(descriptor)

    monkeypatch.setattr(files, "publish_over", in_place)
    found = []
    for stop in calls_of("overwrite", tmp_path):
        place = tmp_path / f"{stop.count}"
        found += attempt("overwrite", place, lambda now, at=stop.count: "kill" if now.count == at else None)[0]
    assert any("neither the old nor the new" in text for text in found)


def test_control_a_journal_written_after_the_reply_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memory_sidecar.run.session.Run._record", lambda *_: None)
    wrong, _ = attempt("read", tmp_path / "whole", lambda _: None)
    assert any("authority" in text for text in wrong)

"""At every system call of every operation: SIGKILL, each error a disk can give, and writes cut short.

Afterwards the store holds the old value or the new one, whole; what was acknowledged is there; the process has
answered; nothing is left behind. The controls show that a store that writes in place is caught.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.tally import Tally

from memory_sidecar.system import exchange, files, staging

from . import tracer
from .operations import OPERATIONS, prepare, verify

pytestmark = pytest.mark.skipif(not tracer.AVAILABLE, reason="the tracer knows x86_64 Linux only")

LONG = pytest.mark.long
ERRORS = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EPERM, errno.EACCES, errno.EROFS, errno.EMFILE, errno.ENOMEM]
ERRORS += [errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENAMETOOLONG, errno.EMLINK, errno.ESTALE]


# Calls that have no name here, of the allocator for one, come and go: what is the tenth call in one attempt may be the
# ninth in another. Only what has a name is spoiled.


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
def test_killed_at_every_call(name: str, tmp_path: Path, tally: Tally) -> None:
    found = []
    for stop in (stops := calls_of(name, tmp_path)):
        wrong, _ = attempt(
            name, tmp_path / f"{stop.count}", lambda now, at=stop.count: "kill" if now.count == at else None
        )
        found += [f"killed before call {stop.count}, {stop.name}: {text}" for text in wrong]
    tally(name, "SIGKILL at each call", len(stops), found)


def some_errors() -> Iterator[Any]:
    """Each error of each operation. In the ordinary run each operation meets EIO, and each other error is met once."""
    for number, name in enumerate(OPERATIONS):
        for place, code in enumerate(ERRORS):
            often = place in (0, 1 + number % (len(ERRORS) - 1))
            yield pytest.param(code, name, marks=() if often else LONG, id=f"{errno.errorcode[code]}-{name}")


@pytest.mark.parametrize(("code", "name"), list(some_errors()))
def test_every_call_fails_once(name: str, code: int, tmp_path: Path, tally: Tally) -> None:
    found = []
    stops = [stop for stop in calls_of(name, tmp_path) if stop.name is not None]
    for stop in stops:
        wrong, _ = attempt(
            name, tmp_path / f"{stop.count}", lambda now, at=stop.count: code if now.count == at and now.name else None
        )
        found += [f"{errno.errorcode[code]} from call {stop.count}, {stop.name}: {text}" for text in wrong]
    tally(name, f"{errno.errorcode[code]} once at each call", len(stops), found)


@pytest.mark.parametrize("name", OPERATIONS)
def test_the_disk_stays_broken_from_any_call_on(name: str, tmp_path: Path, tally: Tally) -> None:
    changing = {"write", "pwrite64", "fsync", "link", "linkat", "rename", "renameat", "unlink", "unlinkat", "ftruncate"}
    found = []
    stops = [stop for stop in calls_of(name, tmp_path) if stop.name in changing]
    for stop in stops:
        wrong, _ = attempt(
            name,
            tmp_path / f"{stop.count}",
            lambda now, at=stop.count: errno.EIO if now.count >= at and now.name in changing else None,
        )
        # What a broken disk does not let go of can't be swept, and an authority that can't be taken back is no ack.
        wrong = [text for text in wrong if "left behind" not in text]
        found += [f"broken from call {stop.count}, {stop.name}: {text}" for text in wrong]
    tally(name, "EIO from each change on", len(stops), found)


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("spoil", ["short", errno.EINTR], ids=["short write", "EINTR"])
def test_short_writes_and_interruptions(name: str, spoil: int | str, tmp_path: Path, tally: Tally) -> None:
    found = []
    # Linux closes even when it says EINTR.
    spoiled = {"write", "pwrite64"} if spoil == "short" else set(tracer.NAMES.values()) - {"close"}
    stops = [stop for stop in calls_of(name, tmp_path) if stop.name in spoiled]
    for stop in stops:
        wrong, _ = attempt(
            name,
            tmp_path / f"{stop.count}",
            lambda now, at=stop.count: spoil if now.count == at and now.name else None,
        )
        found += [f"{spoil} at call {stop.count}, {stop.name}: {text}" for text in wrong]
    tally(name, "short write" if spoil == "short" else "EINTR once at each call", len(stops), found)


def test_control_a_store_that_writes_in_place_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    def in_place(directory: int, stage: str, name: str) -> None:
        data = Path(f"/proc/self/fd/{directory}", stage).read_bytes()
        descriptor = os.open(name, os.O_WRONLY | os.O_TRUNC, dir_fd=directory)
        files.write_all(descriptor, data[:1000])
        files.write_all(descriptor, data[1000:])
        os.close(descriptor)

    monkeypatch.setattr(exchange, "exchange", lambda *_: False)  # else nothing is published over
    monkeypatch.setattr(staging, "publish_over", in_place)
    found = []
    for stop in (stops := calls_of("overwrite", tmp_path)):
        place = tmp_path / f"{stop.count}"
        found += attempt("overwrite", place, lambda now, at=stop.count: "kill" if now.count == at else None)[0]
    torn = [text for text in found if "neither the old nor the new" in text]
    tally("overwrite in place", "SIGKILL at each call", len(stops), torn, control=True)


def test_control_a_journal_written_after_the_reply_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    monkeypatch.setattr("memory_sidecar.run.session.Run._record", lambda *_: None)
    wrong, _ = attempt("read", tmp_path / "whole", lambda _: None)
    tally("read, journaled late", "none", 1, [text for text in wrong if "authority" in text], control=True)

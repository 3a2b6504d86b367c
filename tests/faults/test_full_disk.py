"""A disk that fills up and frees again under a running sidecar: that of the notes, that of the journals, or both.

What is refused is said, nothing stored is lost or torn, and when space returns all goes on by itself. Root gets a small
file system; everybody else a limit to the size of files, which the kernel keeps with short writes and EFBIG.
"""

import json
import os
import resource
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.sidecar import UNSAVED, Sidecar, guarded, launched, patched
from tests.support.tally import Tally

from memory_sidecar.backend.file.store_id import FILE_NAME

from .places import small_disk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts and prlimit are Linux's")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")

KEYS = [f"key{number}" for number in range(8)]
LONG = pytest.mark.long


class Ledger:
    """What was acknowledged of each key, and what is wrong with the answers."""

    def __init__(self) -> None:
        self.notes: dict[str, str] = {}
        self.open: dict[str, str] = {}
        """Writes whose outcome is not known."""
        self.wrong: list[str] = []
        self.tried = self.refused = 0

    def change(self, sidecar: Sidecar, number: int, size: int) -> bool:
        """One create, overwrite or delete; whether it was acknowledged."""
        key, self.tried = KEYS[number % len(KEYS)], self.tried + 1
        content = f"{number} " + "x" * size
        if number % 11 == 10:
            answer = sidecar.call("memory_delete", {"key": key})
        else:
            arguments = {"key": key, "description": "A note", "content": content, "overwrite": key in self.notes}
            answer = sidecar.call("memory_write", arguments)
        text = answer["content"][0]["text"]
        if not answer.get("isError"):
            done = json.loads(text)
            if done.get("written"):
                self.notes[key] = content
            elif "deleted" in done:
                self.notes.pop(key, None)
            else:
                self.wrong.append(f"refused, though it had authority: {text}")
            return True
        self.refused += 1
        if "Nothing was changed" not in text or "no space" not in text or "/" in text:
            self.wrong.append(f"refused with {text}")
        return False

    def check(self, sidecar: Sidecar) -> None:
        for key in KEYS:
            found = sidecar.read(key)
            if found.get("content") != self.notes.get(key):
                self.wrong.append(f"{key} holds {str(found.get('content'))[:20]!r}, not what was acknowledged")
        listed = {item["key"] for item in sidecar.call("memory_list")["structuredContent"]["memories"]}
        if listed != set(self.notes):
            self.wrong.append(f"listed are {listed}")


def fill_notes(tmp_path: Path, rounds: int, **launch: Any) -> Ledger:
    """Change notes while their disk is full, then free, then filled and freed all the time."""
    ledger, base, options = Ledger(), tmp_path / "state", (*guarded(tmp_path), "--run", "monday")
    with small_disk(base / "memory" / "tester") as disk:
        with launched(base, *options, **launch) as sidecar:
            for number in range(8):
                assert ledger.change(sidecar, number, 3000)
            disk.fill()
            for number in range(22, 30):  # no deletion among them
                if ledger.change(sidecar, number, 30_000):
                    ledger.wrong.append("a write on a full disk was acknowledged")
            ledger.check(sidecar)  # what is there can be read and listed
            disk.free()
            for number in range(30, 38):
                if not ledger.change(sidecar, number, 9000):
                    ledger.wrong.append("space returned, and it does not go on")
            with disk.filling():
                for number in range(40, 40 + rounds):
                    ledger.change(sidecar, number, 20_000)
            ledger.check(sidecar)
            assert sidecar.memory is not None
            if left := {path.name for path in sidecar.memory.iterdir() if path.suffix != ".md"} - {FILE_NAME}:
                ledger.wrong.append(f"left behind: {left}")
            sidecar.kill()
        with launched(base, *options) as sidecar:
            ledger.check(sidecar)
            for number in range(8):
                ledger.change(sidecar, number, 100)  # the authority is there too
            assert sidecar.leave() == 0
    return ledger


@needs_root
@pytest.mark.parametrize("rounds", [150, pytest.param(5000, marks=LONG)])
def test_the_disk_of_the_notes(rounds: int, tmp_path: Path, tally: Tally) -> None:
    ledger = fill_notes(tmp_path, rounds)
    assert ledger.refused > 8
    tally("create, overwrite, delete", "notes' disk fills and frees", ledger.tried, ledger.wrong)


@needs_root
def test_control_a_store_that_ignores_a_full_disk_is_caught(tmp_path: Path, tally: Tally) -> None:
    code = """
import memory_sidecar.system.files as files
write_all = files.write_all
def careless(descriptor, data):
    try:
        write_all(descriptor, data)
    except OSError:
        pass
files.write_all = careless
"""
    ledger = fill_notes(tmp_path, 20, env=patched(tmp_path, code))
    tally("write errors ignored", "notes' disk fills and frees", ledger.tried, ledger.wrong, control=True)


def fill_journals(tmp_path: Path, rounds: int, **launch: Any) -> tuple[int, list[str]]:
    """Earn authority while the journals' disk is full; when it frees all of that must get there by itself."""
    wrong: list[str] = []
    base, options = tmp_path / "state", (*guarded(tmp_path), "--run", "monday")
    tried = 0

    def write(sidecar: Sidecar, key: str) -> str | None:
        answer = sidecar.call("memory_write", {"key": key, "description": "A note", "content": key})
        if not answer["structuredContent"]["written"]:
            wrong.append("memory does not work while the journals' disk is full")
        unsaved: str | None = answer["_meta"].get(UNSAVED)
        return unsaved

    with small_disk(base / "runs") as disk:
        with launched(base, *options, **launch) as sidecar:
            for turn in range(rounds):
                disk.fill()
                unsaved, number = None, 0
                while unsaved is None and number < 200:  # what the last page of the file still takes
                    number += 1
                    unsaved = write(sidecar, f"full{turn}-{number}")
                tried += number
                if unsaved is None or "No space" not in unsaved or "/" in unsaved:
                    wrong.append(f"with a full disk it is told {unsaved}")
                opened = sidecar.open(f"meanwhile{turn}")  # a run that begins now works as well
                if UNSAVED not in opened["_meta"] and UNSAVED not in sidecar.suspend(f"meanwhile{turn}")["_meta"]:
                    wrong.append("a run was opened and suspended as if it were saved")
                disk.free()
                if (again := write(sidecar, f"free{turn}")) is not None:
                    wrong.append(f"space returned, and it is told {again}")
            log = sidecar.stderr
            words = ("authority is not saved", "authority is saved again")
            wrong += [f"the log does not say each time that {text}" for text in words if log.count(text) < rounds]
            listed = [item["key"] for item in sidecar.call("memory_list")["structuredContent"]["memories"]]
            sidecar.kill()
        with launched(base, *options) as sidecar:
            for key in listed:
                answer = sidecar.write(key, "newer", overwrite=True)
                if not answer["written"]:
                    wrong.append(f"authority over {key} is lost")
            assert sidecar.leave() == 0
    return tried, wrong


@needs_root
@pytest.mark.parametrize("rounds", [2, pytest.param(25, marks=LONG)])
def test_the_disk_of_the_journals(rounds: int, tmp_path: Path, tally: Tally) -> None:
    tally("earning authority", "journals' disk fills and frees", *fill_journals(tmp_path, rounds))


@needs_root
def test_control_a_journal_that_drops_what_a_full_disk_refused_is_caught(tmp_path: Path, tally: Tally) -> None:
    code = """
import memory_sidecar.run.journal as journal
append = journal.Journal.append
def careless(self, records, **how):
    append(self, records, **how)
    self._waiting = []
journal.Journal.append = careless
"""
    tried, wrong = fill_journals(tmp_path, 1, env=patched(tmp_path, code))
    tally("waiting records dropped", "journals' disk fills and frees", tried, wrong, control=True)


def limit(sidecar: Sidecar, size: int) -> None:
    resource.prlimit(sidecar.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


@pytest.mark.parametrize("size", [0, 1, 2000], ids=lambda size: f"{size} bytes")
def test_no_file_may_grow(size: int, tmp_path: Path, tally: Tally) -> None:
    """Both directories at once, for whom mounting is not allowed."""
    ledger, options = Ledger(), (*guarded(tmp_path), "--run", "monday")
    with launched(tmp_path, *options) as sidecar:
        for number in range(8):
            assert ledger.change(sidecar, number, 3000)
        for turn in range(5):
            limit(sidecar, size)
            for number in range(40):
                # A note cannot be stored; a deletion can be made, and that the run lost its authority is not saved.
                ledger.change(sidecar, 100 + turn * 50 + number, 3000)
            limit(sidecar, resource.RLIM_INFINITY)
            for number in range(8):
                if not ledger.change(sidecar, turn * 8 + number, 3000):
                    ledger.wrong.append("the limit is gone, and it does not go on")
            if UNSAVED in sidecar.call("memory_read", {"key": "key0"})["_meta"]:
                ledger.wrong.append("the limit is gone, and authority is not saved")
        assert ledger.refused > 100
        ledger.check(sidecar)
        sidecar.kill()
    with launched(tmp_path, *options) as sidecar:
        ledger.check(sidecar)
        for number in range(8):
            ledger.change(sidecar, number, 100)
        assert sidecar.leave() == 0
    tally("create, overwrite, delete", "no file may grow, then may", ledger.tried, ledger.wrong)

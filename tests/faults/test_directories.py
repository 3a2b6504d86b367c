"""The memory directory, or that of the journals, is made read-only, moved away, removed or replaced under a running
sidecar.

It lives and says what is wrong and what to do, without a path; it leaks nothing; and once that is done all goes on,
with what was acknowledged.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.processes import drop_privileges
from tests.support.sidecar import UNSAVED, RefusedError, Sidecar, guarded, launched, patched
from tests.support.tally import Tally

from memory_sidecar.backend.file.store_id import FILE_NAME

from .places import BREAKAGES, Breakage, descriptors, mounted

CALLS = {
    "memory_list": {},
    "memory_read": {"key": "old"},
    "memory_write": {"key": "new", "description": "New", "content": "new"},
    "memory_delete": {"key": "old"},
}
MANY = 20


@pytest.fixture(params=BREAKAGES)
def how(request: pytest.FixtureRequest) -> str:
    if BREAKAGES[request.param].root and os.geteuid() != 0:
        pytest.skip("needs root")
    return str(request.param)


@contextmanager
def spoilable(place: Path, how: str) -> Iterator[Breakage]:
    breakage = BREAKAGES[how]
    if not breakage.mount:
        yield breakage
        return
    with mounted(place):
        yield breakage


def lives(sidecar: Sidecar, before: int | None) -> list[str]:
    sidecar.request("ping")
    after = descriptors(sidecar.pid)
    return [] if before == after else [f"{before} descriptors became {after}"]


def told(text: str, place: Path, *wanted: str) -> list[str]:
    wrong = [f"a path is shown: {text}"] if "/" in text or str(place) in text else []
    return wrong + [f"{text!r} does not say {want!r}" for want in wanted if want not in text]


def test_the_memory_directory(how: str, tmp_path: Path, tally: Tally) -> None:
    tally("memory directory", how, *spoil_memory(how, tmp_path))


def spoil_memory(how: str, tmp_path: Path, **launch: Any) -> tuple[int, list[str]]:
    """How many calls met the spoiled directory, and what was wrong with their answers or afterwards."""
    options = (*guarded(tmp_path), "--run", "monday")
    base = tmp_path / "state"
    wrong: list[str] = []
    tried = 0
    with spoilable(base / "memory" / "tester", how) as breakage:
        with launched(base, *options, preexec_fn=drop_privileges, **launch) as sidecar:
            assert sidecar.write("old", "old")["written"]
            assert sidecar.memory is not None
            breakage.spoil(sidecar.memory)
            before = None
            for _ in range(MANY):
                for name, arguments in CALLS.items():
                    answer = sidecar.call(name, arguments)
                    text = answer["content"][0]["text"]
                    tried += 1
                    if answer.get("isError"):
                        wrong += told(text, tmp_path, "Nothing was changed", "operator must")
                        if breakage.restart:
                            wrong += told(text, tmp_path, "restart the sidecar")
                    elif name in ("memory_write", "memory_delete") and "true" in text:
                        wrong.append(f"{name} was acknowledged: {text}")
                before = before or descriptors(sidecar.pid)
            wrong += lives(sidecar, before)
            breakage.mend(sidecar.memory)
            if not breakage.restart:
                wrong += went_on(sidecar)
            else:
                answer = sidecar.call("memory_write", CALLS["memory_write"])
                wrong += told(answer["content"][0]["text"], tmp_path, "Nothing was changed", "restart the sidecar")
            assert sidecar.leave() == 0
        with launched(base, *options, preexec_fn=drop_privileges) as sidecar:
            if breakage.restart:
                if not sidecar.write("new", "new")["written"]:
                    wrong.append("a restart did not help")
            elif sidecar.read("old").get("content") != "newer":
                wrong.append("an acknowledged change is lost")
            assert sidecar.leave() == 0
    return tried, wrong


def went_on(sidecar: Sidecar) -> list[str]:
    """The authority that was earned before the trouble is there, and so is the note."""
    wrong = [] if sidecar.write("old", "newer", overwrite=True).get("written") else ["it does not go on"]
    return wrong + ([] if sidecar.write("new", "new").get("written") else ["it does not go on"])


def test_the_journal_directory(how: str, tmp_path: Path, tally: Tally) -> None:
    if BREAKAGES[how].mount:
        pytest.skip("no file system becomes read-only while a journal is open there")
    tally("journal directory", how, *spoil_journals(how, tmp_path))


def spoil_journals(how: str, tmp_path: Path, **launch: Any) -> tuple[int, list[str]]:
    """How many calls were made without the directory, and what was wrong with their answers or afterwards."""
    options = (*guarded(tmp_path), "--run", "monday")
    base = tmp_path / "state"
    wrong: list[str] = []
    tried = 0
    with spoilable(base / "runs" / "tester", how) as breakage:
        with launched(base, *options, preexec_fn=drop_privileges, **launch) as sidecar:
            assert sidecar.runs is not None
            assert sidecar.write("old", "old")["written"]
            breakage.spoil(sidecar.runs)
            before = None
            for number in range(MANY):
                tried += 1
                wrong += write_unsaved(sidecar, number, tmp_path, breakage)
                wrong += refused_run(sidecar, number, breakage)
                before = before or descriptors(sidecar.pid)
            wrong += lives(sidecar, before)
            breakage.mend(sidecar.runs)
            answer = sidecar.call("memory_read", {"key": "old"})
            if (UNSAVED in answer["_meta"]) != breakage.restart:
                wrong.append(f"it is told {answer['_meta']}")
            if breakage.restart:
                wrong += told(sidecar.suspend("monday")["_meta"].get(UNSAVED, ""), tmp_path, "restart the sidecar")
                assert sidecar.leave() == 0
            else:
                sidecar.kill()  # what was said to be saved is
        with launched(base, *options, preexec_fn=drop_privileges) as sidecar:
            if not breakage.restart:
                for number in range(MANY):
                    if not sidecar.write(f"new{number}", "newer", overwrite=True).get("written"):
                        wrong.append(f"authority over new{number} is lost")
            elif UNSAVED in sidecar.call("memory_read", {"key": "old"})["_meta"]:
                wrong.append("a restart did not help")
            assert sidecar.leave() == 0
    return tried, wrong


def write_unsaved(sidecar: Sidecar, number: int, place: Path, breakage: Breakage) -> list[str]:
    """Memory works; whether its authority is saved is told."""
    answer = sidecar.call("memory_write", {"key": f"new{number}", "description": "New", "content": "new"})
    if not answer["structuredContent"]["written"]:
        return ["memory does not work without the journal"]
    # The open journal stays open: it is written wherever it is now, unless it is in no directory at all.
    unsaved = answer["_meta"].get(UNSAVED)
    if breakage.restart:
        return told(unsaved or "", place, "restart the sidecar")
    return [] if unsaved is None else told(unsaved, place)


def refused_run(sidecar: Sidecar, number: int, breakage: Breakage) -> list[str]:
    """A run that would be opened now is opened, or refused with the remedy (to the harness, so it may name a path)."""
    try:
        sidecar.open(f"other{number}")
    except RefusedError as error:
        remedy = "restart the sidecar" if breakage.restart else ""
        return [] if "journal" in str(error) and remedy in str(error) else [f"it is refused with {error}"]
    sidecar.finish(f"other{number}", "completed")
    return [f"a run was opened {breakage}"] if breakage.restart else []


def test_control_a_sidecar_that_knows_no_remedy_is_caught(tmp_path: Path, tally: Tally) -> None:
    # Twice it is asked at the start, which must succeed.
    env = patched(
        tmp_path,
        """
import memory_sidecar.system.files as files
permitted, calls = files.is_permitted, []
def shut(path, **how):
    calls.append(path)
    return len(calls) <= 2 and permitted(path, **how)
files.is_permitted = shut
""",
    )
    tally("memory directory, no remedy known", "replaced", *spoil_memory("replaced", tmp_path, env=env), control=True)


def test_control_a_journal_that_claims_to_be_saved_is_caught(tmp_path: Path, tally: Tally) -> None:
    env = patched(
        tmp_path,
        "import memory_sidecar.run.journal as journal\njournal.Journal.unsaved = property(lambda self: None)",
    )
    tally("journal directory, claimed saved", "removed", *spoil_journals("removed", tmp_path, env=env), control=True)


def test_without_lockdown_a_directory_made_again_serves_at_once(tmp_path: Path) -> None:
    with launched(tmp_path, *guarded(tmp_path), "--run", "monday", "--lockdown", "off") as sidecar:
        assert sidecar.write("old", "old")["written"]
        assert sidecar.memory is not None
        assert sidecar.runs is not None
        same_memory = (sidecar.memory / FILE_NAME).read_bytes()
        for place in (sidecar.memory, sidecar.runs):
            BREAKAGES["replaced"].spoil(place)
        # A directory without the id of the old one would be another memory at the next start.
        (sidecar.memory / FILE_NAME).write_bytes(same_memory)
        answer = sidecar.call("memory_write", CALLS["memory_write"])
        assert answer["structuredContent"]["written"]
        assert UNSAVED not in answer["_meta"]
        BREAKAGES["removed"].spoil(sidecar.runs)
        assert UNSAVED not in sidecar.call("memory_read", {"key": "new"})["_meta"]
        sidecar.kill()
    with launched(tmp_path, *guarded(tmp_path), "--run", "monday") as sidecar:
        assert sidecar.write("new", "newer", overwrite=True)["written"]

"""Whose run it is: a run id is a name within its identity, and authority never passes from one to another."""

import shutil
from pathlib import Path

import pytest
from tests.support.sidecar import LIST, RefusedError, guarded, launched

MAIN = ("--run", "main")


@pytest.fixture
def guard(tmp_path: Path) -> tuple[str, ...]:
    return guarded(tmp_path)


def test_two_identities_with_one_run_id_know_nothing_of_each_other(tmp_path: Path, guard: tuple[str, ...]) -> None:
    base = tmp_path / "state"
    with launched(base, *guard, *MAIN, identity="a") as first, launched(base, *guard, *MAIN, identity="b") as second:
        first.write("plan", "a's")
        second.write("plan", "b's")
        assert first.states() == {"main": "open"}
        second.suspend("main")
        assert first.states() == {"main": "open"}
        first.kill()
        second.leave()
    for identity, text in (("a", "a's"), ("b", "b's")):
        with launched(base, *guard, *MAIN, identity=identity) as sidecar:
            assert sidecar.call("memory_read", {"key": "plan"})["structuredContent"]["content"] == text
            assert sidecar.write("plan", "newer", overwrite=True)["written"], "its authority is lost"


def test_a_copied_journal_gives_nobody_authority(tmp_path: Path, guard: tuple[str, ...]) -> None:
    base = tmp_path / "state"
    with launched(base, *guard) as sidecar:
        sidecar.open("mon")
        sidecar.write("plan", "x", run="mon")
        sidecar.suspend("mon")
        journal = base / "runs" / "tester" / "mon.jsonl"
        shutil.copy(journal, journal.with_name("tue.jsonl"))
        before = journal.read_bytes()
        with pytest.raises(RefusedError, match=r"tue\.jsonl is not this run's.*run mon of identity tester"):
            sidecar.open("tue")
        assert sidecar.states() == {"mon": "suspended", "tue": "damaged"}
        assert journal.with_name("tue.jsonl").read_bytes() == before
        (base / "runs" / "other").mkdir()
        shutil.move(journal.with_name("tue.jsonl"), base / "runs" / "other" / "mon.jsonl")
    with launched(base, *guard, identity="other") as sidecar:
        with pytest.raises(RefusedError, match="of identity tester"):
            sidecar.open("mon")
        assert sidecar.request(LIST)["runs"] == []


@pytest.mark.parametrize("lockdown", ["auto", "off"])
def test_a_run_of_an_older_version_goes_on(tmp_path: Path, guard: tuple[str, ...], lockdown: str) -> None:
    base = tmp_path / "state"
    with launched(base, *guard, *MAIN) as sidecar:
        sidecar.write("plan", "x")
        sidecar.leave()
    shutil.move(base / "runs" / "tester" / "main.jsonl", base / "runs" / "main.jsonl")
    (base / "runs" / "tester").rmdir()
    (base / "runs" / "theirs.jsonl").write_text("no journal")
    with launched(base, *guard, "--lockdown", lockdown) as sidecar:
        assert sidecar.open("main")["resumed"] is True
        assert sidecar.write("plan", "newer", run="main", overwrite=True)["written"]
        assert [run["run"] for run in sidecar.request(LIST)["runs"]] == ["main"]
    assert sorted(path.name for path in (base / "runs").iterdir()) == ["tester", "theirs.jsonl"]


def test_a_file_of_another_program_under_a_runs_name_is_left(tmp_path: Path) -> None:
    base = tmp_path / "state"
    with launched(base) as sidecar:
        for text in ("somebody's text", "somebody's text\n"):
            (base / "runs" / "tester" / "main.jsonl").write_text(text)
            with pytest.raises(RefusedError, match=r"main\.jsonl is no journal of this program"):
                sidecar.open("main")
            assert (base / "runs" / "tester" / "main.jsonl").read_text() == text

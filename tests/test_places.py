"""Where journals lie, and what becomes of those that an older version kept somewhere else."""

import os
from pathlib import Path

import pytest

from memory_sidecar.exits import StartError
from memory_sidecar.places import default_journal_dir, keep_apart, make_journal_dir, neighbours
from memory_sidecar.run import records


@pytest.mark.parametrize(
    ("store_dir", "state", "home", "journals"),
    [
        ("/base", "/state", "/home/me", "/base/runs"),
        (None, "/state", "/home/me", "/state/memory-sidecar/runs"),
        (None, "", "/home/me", "/home/me/.local/state/memory-sidecar/runs"),
        (None, "relative", "/home/me", "/home/me/.local/state/memory-sidecar/runs"),
        (None, "/state", "nowhere", "/state/memory-sidecar/runs"),
    ],
)
def test_journals_go_under_the_store_base_or_to_the_users_state(
    monkeypatch: pytest.MonkeyPatch, store_dir: str | None, state: str, home: str, journals: str
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", state)
    monkeypatch.setenv("HOME", home)
    assert default_journal_dir(store_dir) == journals


def test_without_a_home_directory_one_is_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "")
    monkeypatch.setenv("HOME", "nowhere")
    with pytest.raises(StartError, match="no home directory") as refused:
        default_journal_dir(None)
    assert "--journal-dir" in str(refused.value)


def left(directory: Path, run: str, identity: str) -> None:
    """As a version left it that kept the journals of all identities in one directory."""
    directory.mkdir(exist_ok=True)
    meta = records.meta(run=run, identity=identity, tools=["t"], store="s")
    (directory / f"{run}.jsonl").write_bytes(records.encode({**meta, "identity": identity}, 1))


def places(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*.jsonl")}


def test_an_identity_gets_a_private_directory_and_the_journals_that_were_its_own(tmp_path: Path) -> None:
    left(tmp_path, "mon", "bot")
    left(tmp_path, "tue", "other")
    assert make_journal_dir(str(tmp_path), "bot") == str(tmp_path / "bot")
    assert (tmp_path / "bot").stat().st_mode & 0o777 == 0o700
    assert places(tmp_path) == {"bot/mon.jsonl", "tue.jsonl"}


def test_for_many_identities_each_gets_its_own_and_what_is_nobodys_stays(tmp_path: Path) -> None:
    for run, identity in (("mon", "bot"), ("tue", "other"), ("wed", "../bad"), ("thu", "linked"), ("fri", "bot")):
        left(tmp_path, run, identity)
    (tmp_path / "linked").symlink_to(tmp_path / "bot")
    assert make_journal_dir(str(tmp_path), None) == str(tmp_path)
    assert places(tmp_path) == {"bot/mon.jsonl", "bot/fri.jsonl", "other/tue.jsonl", "wed.jsonl", "thu.jsonl"}
    assert (tmp_path / "other").stat().st_mode & 0o777 == 0o700
    assert sorted(neighbours(str(tmp_path / "bot"))) == ["bot", "linked", "other"]
    assert neighbours(str(tmp_path / "none" / "bot")) == []


def test_a_journal_directory_that_is_a_file_is_told_with_what_mends_it(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(StartError, match="cannot use the journal directory") as refused:
        make_journal_dir(str(tmp_path / "taken"), "bot")
    assert "set --journal-dir" in str(refused.value)


@pytest.mark.parametrize("journals", ["notes", "notes/runs", "link/runs", ".", "notes/later/runs"])
def test_journals_are_kept_apart_from_memory_that_is_only_read(tmp_path: Path, journals: str) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "link").symlink_to("notes")
    with pytest.raises(StartError, match="where memory is read_only"):
        keep_apart([str(tmp_path / "notes")], os.path.join(tmp_path, journals))
    (tmp_path / "notes-of-others").mkdir()
    keep_apart([str(tmp_path / "notes")], str(tmp_path / "notes-of-others"))

"""A directory of notes knows itself: moved, restored, made anew, read-only or foreign; and what authority does then."""

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.sidecar import guarded, launched

from memory_sidecar.backend.file import FileOptions, open_file, store_id
from memory_sidecar.backend.file.store_id import FILE_NAME, kept_id, make_id
from memory_sidecar.cli import main
from memory_sidecar.system import files
from memory_sidecar.system.digest import digest


def fingerprint(directory: Path, *, read_only: bool = False) -> str:
    return open_file(FileOptions(str(directory)), "agent", None, read_only=read_only).fingerprint


def by_path(directory: Path) -> str:
    return "file:" + digest(os.fsencode(os.path.realpath(directory)))


def test_a_moved_directory_is_the_same_store_and_one_made_anew_is_not(tmp_path: Path) -> None:
    place = tmp_path / "notes"
    first = fingerprint(place)
    place.rename(tmp_path / "moved")
    assert fingerprint(tmp_path / "moved") == first
    assert fingerprint(place) != first
    shutil.rmtree(place)
    assert fingerprint(place) not in (first, by_path(place))


def test_a_copy_has_the_id_of_its_original_and_so_has_a_restored_one(tmp_path: Path) -> None:
    first = fingerprint(tmp_path / "notes")
    shutil.copytree(tmp_path / "notes", tmp_path / "backup")
    shutil.rmtree(tmp_path / "notes")
    assert fingerprint(tmp_path / "notes") != first
    shutil.rmtree(tmp_path / "notes")
    shutil.copytree(tmp_path / "backup", tmp_path / "notes")
    assert fingerprint(tmp_path / "notes") == first


def test_a_directory_of_an_older_version_keeps_the_fingerprint_that_its_journals_have(tmp_path: Path) -> None:
    place = tmp_path / "notes"
    place.mkdir()
    (place / "a.md").write_text("---\ndescription: a\n---\n\ntext")
    assert fingerprint(place) == by_path(place)
    place.rename(tmp_path / "moved")
    assert fingerprint(tmp_path / "moved") == by_path(place)


def test_what_is_no_note_makes_no_older_version(tmp_path: Path) -> None:
    (tmp_path / "README.txt").write_text("ours")
    assert fingerprint(tmp_path) != by_path(tmp_path)


def test_the_id_is_private_and_no_note(tmp_path: Path) -> None:
    assert FILE_NAME == ".memory-sidecar-id"  # by which every release finds it
    opened = open_file(FileOptions(str(tmp_path)), "agent", None)
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert opened.store.list() == []
    assert sorted(os.listdir(tmp_path)) == [FILE_NAME]


def test_who_only_reads_makes_no_id_and_takes_the_one_that_is_there(tmp_path: Path) -> None:
    assert fingerprint(tmp_path, read_only=True) == by_path(tmp_path)
    assert os.listdir(tmp_path) == []
    assert kept_id(str(tmp_path)).why_not
    made = fingerprint(tmp_path)
    assert fingerprint(tmp_path, read_only=True) == made
    assert kept_id(str(tmp_path)).why_not == ""


@pytest.mark.parametrize("kind", ["other text", "empty", "long", "no line", "link", "directory", "fifo"])
def test_what_is_no_id_is_left_alone_and_told(tmp_path: Path, kind: str) -> None:
    planted, other = tmp_path / FILE_NAME, tmp_path / "other"
    other.write_text("a" * 32 + "\n")
    match kind:
        case "link":
            planted.symlink_to(other)
        case "directory":
            planted.mkdir()
        case "fifo":
            os.mkfifo(planted)
        case _:
            planted.write_text(
                {"other text": "mine", "empty": "", "long": "a" * 32 + "\nmore", "no line": "a" * 33}[kind]
            )
    before = planted.lstat().st_ino
    found = make_id(str(tmp_path))
    assert f"file:{found.text}" == by_path(tmp_path)
    assert found.why_not == f"{FILE_NAME} holds something else; remove it"
    assert str(tmp_path) not in found.why_not
    assert planted.lstat().st_ino == before


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_takes_no_id_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(files, "create_exclusively", refuse)
        assert fingerprint(tmp_path) == by_path(tmp_path)
    (tmp_path / "a.md").write_text("text")  # what a run wrote when there was room again
    assert fingerprint(tmp_path) == by_path(tmp_path)
    assert kept_id(str(tmp_path)).why_not == ""


def test_many_who_start_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: make_id(str(tmp_path)), range(40)))
    assert len(found) == 1
    assert found.pop().why_not == ""


def test_the_id_is_on_disk_before_the_store_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    real = files.flush
    monkeypatch.setattr(store_id.files, "flush", lambda opened: flushed.append(os.fstat(opened).st_ino) or real(opened))
    make_id(str(tmp_path))
    assert flushed == [(tmp_path / FILE_NAME).stat().st_ino, tmp_path.stat().st_ino]


# With whole sidecars: authority


def test_moving_keeps_authority_where_the_text_still_fits(tmp_path: Path) -> None:
    base, away = tmp_path / "base", tmp_path / "away"
    options = guarded(tmp_path)
    with launched(base, *options, "--run", "monday") as sidecar:
        for key in ("same", "changed"):
            assert sidecar.write(key, "first")["written"]
        sidecar.kill()
    base.rename(away)
    note = away / "memory" / "tester" / "changed.md"
    note.write_text(note.read_text() + "more")
    with launched(away, *options, "--run", "monday") as sidecar:
        assert sidecar.write("same", "second", overwrite=True)["written"]
        assert sidecar.write("changed", "second", overwrite=True)["code"] == "changed"


def test_a_store_made_anew_honours_no_old_revision(tmp_path: Path) -> None:
    base, options = tmp_path / "base", guarded(tmp_path)
    with launched(base, *options, "--run", "monday") as sidecar:
        assert sidecar.write("plan", "text")["written"]
        scope = sidecar.suspend("monday")["scope"]
    (base / "memory" / "tester").rename(tmp_path / "old")
    with launched(base, *options, "--run", "other") as sidecar:
        assert sidecar.write("plan", "text")["written"]
        for handed in ({}, {"scope": scope}):
            opened = sidecar.open("monday", **handed)
            assert opened["scope"]["keys"] == {}
            assert sidecar.write("plan", "mine", "monday", overwrite=True)["code"] == "not_read"
            sidecar.suspend("monday")


def test_the_ledger_is_not_blinded_by_a_move(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base, away = tmp_path / "base", tmp_path / "away"
    with launched(base, "--run", "monday") as sidecar:
        assert sidecar.write("plan", "poison")["written"]
        assert sidecar.leave() == 0
    base.rename(away)
    words = ["--identity", "tester", "--store-dir", str(away)]
    assert main(["quarantine", "plan", "--reason", "poison", *words]) == 0
    assert "monday" in capsys.readouterr().out


def test_a_memory_and_its_copy_are_two_for_copy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with launched(tmp_path / "base") as sidecar:
        assert sidecar.write("plan", "text")["written"]
    shutil.copytree(tmp_path / "base", tmp_path / "twin")
    for name, directory in (("base", "base"), ("twin", "twin"), ("link", "link")):
        (tmp_path / f"{name}.yaml").write_text(
            f"identity: tester\nharness: {{memory: {{enabled: true, options: {{directory: {tmp_path}/{directory}"
            "/memory/tester}}}\n"
        )
    (tmp_path / "link").symlink_to(tmp_path / "base", target_is_directory=True)

    def copy(source: str, target: str) -> int:
        return main(["copy", "--from", f"{tmp_path}/{source}.yaml", "--to", f"{tmp_path}/{target}.yaml"])

    assert copy("base", "twin") == 0
    assert copy("base", "base") == copy("base", "link") == 64
    assert "the same memory" in capsys.readouterr().err


def test_info_tells_whether_the_directory_keeps_an_id(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["info", "--check", "--identity", "tester", "--store-dir", str(tmp_path)]
    (tmp_path / "memory" / "tester").mkdir(parents=True)
    assert main(words) == 0
    assert "no start has made one yet" in capsys.readouterr().out
    config = str(tmp_path / "memory.yaml")
    (tmp_path / "memory.yaml").write_text("harness: {memory: {enabled: true, read_only: true}}")
    with launched(tmp_path, "--config", config):
        pass
    assert main([*words, "--config", config]) == 0
    shown = capsys.readouterr().out
    assert "none: nothing is written into a memory that is read_only, no id either" in shown
    assert "no start has" not in shown
    with launched(tmp_path):
        pass
    assert main(words) == 0
    assert "kept in it" in capsys.readouterr().out

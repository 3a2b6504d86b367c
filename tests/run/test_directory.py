"""Journals lie in their identity's directory: what is found elsewhere is taken over, refused or left, never lost."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from memory_sidecar.run import ledger, records, runs
from memory_sidecar.run.directory import adopt, directories_aside, identities, names_aside, run_names
from memory_sidecar.run.journal import Journal
from memory_sidecar.run.records import Record
from memory_sidecar.run.runs import list_runs
from memory_sidecar.run.terms import JournalError
from memory_sidecar.system import files


def meta(run: str, identity: str) -> Record:
    return records.meta(run=run, identity=identity, tools=["t"], store="s")


def planted(directory: Path, run: str, identity: str, name: str | None = None) -> bytes:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    data = records.encode(meta(run, identity), 1) + records.encode(records.snapshot({"a": "1"}), 2)
    (directory / f"{name or run}.jsonl").write_bytes(data)
    return data


def opened(directory: Path, run: str, identity: str) -> Journal:
    journal = Journal(str(directory), run, meta=lambda: meta(run, identity), snapshot=lambda: records.snapshot({}))
    journal.open()
    return journal


def everything(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in place.rglob("*") if path.is_file()}


ASIDE = [
    "mon.jsonl.1",
    "mon.jsonl-20260101.gz",
    "mon.jsonl~",
    "tue.jsonl.bak",
    "mon.1.jsonl",
    ".mon.jsonl",
    ".#mon.jsonl",
    "mon.bak",
    "mon.json",
    "mon",
    "sub",
    "mon.sync-conflict-20261201-AAAA.jsonl",
    "-mon.jsonl.1",
    "mon copy.jsonl",
    "mon (1).jsonl",
    "mon\n.jsonl",
]


def test_what_lies_beside_a_journal_under_another_name_is_told(tmp_path: Path) -> None:
    for name in (*ASIDE, "mon.jsonl", ".mon.jsonl.new", "note.md", ".tmp-0123456789abcdef", ".memory-sidecar-id"):
        (tmp_path / name).touch()
    found = names_aside(str(tmp_path))
    assert sorted(name for _, name in found) == sorted(ASIDE)
    assert {run for run, _ in found} == {"mon", "tue", "sub"}
    assert names_aside(str(tmp_path / "none")) == []


def test_what_lies_beside_the_directories_of_identities_and_may_hold_journals_is_told(tmp_path: Path) -> None:
    aside = {"es (copy)": "es", "es~": "es", ".es": "es", "es..x": "es"}
    for name in (*aside, "es", "es.old", ".git"):
        (tmp_path / name).mkdir()
        (tmp_path / name / ("config" if name == ".git" else "r.jsonl")).touch()
    for name in ("old.jsonl", "old.1.jsonl", "notes.txt"):
        (tmp_path / name).touch()
    told = directories_aside(str(tmp_path))
    assert {name: whose for whose, name in told} == aside | {"old.1.jsonl": ""}


@pytest.mark.parametrize("identity", [7, None, ["bot"], {}])
def test_a_journal_of_nobody_that_can_be_named_stays(tmp_path: Path, identity: object) -> None:
    first = meta("mon", "bot") | {"identity": identity}
    (tmp_path / "mon.jsonl").write_bytes(records.encode(first, 1))
    before = everything(tmp_path)
    adopt(str(tmp_path), lambda _: str(tmp_path / "bot"))
    assert everything(tmp_path) == before


# --- what an older version left ----------------------------------------------------------------------------------


def test_an_identity_takes_over_its_own_and_nothing_else(tmp_path: Path) -> None:
    mine = planted(tmp_path, "mon", "bot")
    (tmp_path / ".mon.jsonl.new").write_text("half of a short one")
    planted(tmp_path, "tue", "bot")
    planted(tmp_path, "hers", "other")
    planted(tmp_path, "mon", "bot", "copy")
    (tmp_path / "notes.jsonl").write_text('{"somebody": "else\'s"}\n')
    (tmp_path / "text.jsonl").write_text("no line break")
    (tmp_path / "link.jsonl").symlink_to("tue.jsonl")
    (tmp_path / "bot").mkdir()
    left = {name for name in everything(tmp_path) if name not in ("mon.jsonl", "tue.jsonl", ".mon.jsonl.new")}
    left.discard("link.jsonl")
    adopt(str(tmp_path), {"bot": str(tmp_path / "bot")}.get)
    after = everything(tmp_path)
    assert set(after) == left | {"bot/mon.jsonl", "bot/tue.jsonl"}
    assert after["bot/mon.jsonl"] == mine
    adopt(str(tmp_path), {"bot": str(tmp_path / "bot")}.get)
    assert everything(tmp_path) == after
    assert [run.run for run in list_runs(str(tmp_path / "bot"), "bot")] == ["mon", "tue"]


def test_one_that_is_open_stays_until_it_is_not(tmp_path: Path) -> None:
    planted(tmp_path, "mon", "bot")
    (tmp_path / "bot").mkdir()
    holder = opened(tmp_path, "mon", "bot")
    adopt(str(tmp_path), {"bot": str(tmp_path / "bot")}.get)
    assert run_names(str(tmp_path)) == ["mon"]
    holder.close()
    adopt(str(tmp_path), {"bot": str(tmp_path / "bot")}.get)
    assert (run_names(str(tmp_path)), run_names(str(tmp_path / "bot"))) == ([], ["mon"])


@pytest.mark.parametrize("links", [True, False])
def test_it_never_replaces_a_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, links: bool) -> None:
    planted(tmp_path, "mon", "bot")
    planted(tmp_path / "bot", "mon", "bot")
    (tmp_path / "bot" / "mon.jsonl").write_bytes(records.encode(meta("mon", "bot"), 1))
    if not links:
        monkeypatch.setattr(os, "link", refused)
    before = everything(tmp_path)
    adopt(str(tmp_path), {"bot": str(tmp_path / "bot")}.get)
    assert everything(tmp_path) == before


def refused(*_: object, **__: object) -> None:
    raise OSError(1, "Operation not permitted")


def test_it_works_where_there_are_no_hard_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = planted(tmp_path, "mon", "bot")
    (tmp_path / "bot").mkdir()
    monkeypatch.setattr(os, "link", refused)
    adopt(str(tmp_path), {"bot": str(tmp_path / "bot")}.get)
    assert everything(tmp_path) == {"bot/mon.jsonl": data}


def test_a_crash_between_its_two_steps_is_mended(tmp_path: Path) -> None:
    data = planted(tmp_path, "mon", "bot")
    (tmp_path / "bot").mkdir()
    os.link(tmp_path / "mon.jsonl", tmp_path / "bot" / "mon.jsonl")
    adopt(str(tmp_path), {"bot": str(tmp_path / "bot")}.get)
    assert everything(tmp_path) == {"bot/mon.jsonl": data}


def test_what_is_moved_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    planted(tmp_path, "mon", "bot")
    (tmp_path / "bot").mkdir()
    flushed: list[int] = []
    monkeypatch.setattr(files, "flush", lambda descriptor: flushed.append(os.fstat(descriptor).st_ino))
    adopt(str(tmp_path), {"bot": str(tmp_path / "bot")}.get)
    assert set(flushed) == {tmp_path.stat().st_ino, (tmp_path / "bot").stat().st_ino}


# --- what is somebody else's -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "identity"), [("mon", "bot"), ("tue", "other"), ("Tue", "bot"), ("tue", "Bot")], ids=str
)
def test_the_journal_of_another_run_or_identity_is_refused_and_left(tmp_path: Path, run: str, identity: str) -> None:
    planted(tmp_path, run, identity, "tue")
    before = everything(tmp_path)
    with pytest.raises(JournalError, match=f"it is the journal of run {run} of identity {identity}; move it back"):
        opened(tmp_path, "tue", "bot")
    assert everything(tmp_path) == before
    # Another identity's is no run of this one; a copy of its own is one that cannot be used.
    assert [found.state for found in list_runs(str(tmp_path), "bot")] == (["damaged"] if identity == "bot" else [])


@pytest.mark.parametrize("begins", [b"", b'{"seq":1,"type":"meta"'], ids=["of nothing", "as a journal does"])
def test_a_file_larger_than_any_journal_is_refused_unread(tmp_path: Path, begins: bytes) -> None:
    """It may have been planted, to use up the memory of all runs of the process."""
    planted(tmp_path, "mon", "bot", "mon")
    path = tmp_path / "tue.jsonl"
    path.write_bytes(begins)
    os.truncate(path, 1 << 40)
    with pytest.raises(JournalError, match="no journal has more than 64 MiB"):
        opened(tmp_path, "tue", "bot")
    assert path.stat().st_size == 1 << 40
    assert {found.run: found.state for found in list_runs(str(tmp_path), "bot")}["tue"] == "damaged"


@pytest.mark.parametrize(
    "content",
    [b"somebody's text", b"somebody's\ntext\n", b'{"seq":1}\n', b"{", b"\xff" * 100, b"\n", b'{"seq":1,"type":"mate"'],
)
def test_what_is_no_journal_is_refused_by_name_and_left(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mon.jsonl"
    path.write_bytes(content)
    if content == b"{":  # a journal may begin so
        opened(tmp_path, "mon", "bot").close()
        return
    with pytest.raises(JournalError, match=rf"{path} is no journal of this program.*move it away"):
        opened(tmp_path, "mon", "bot")
    assert path.read_bytes() == content


@pytest.mark.parametrize("length", [0, 1, 20, 60])
@pytest.mark.parametrize("zeros", [0, 100])
def test_a_first_record_that_was_torn_is_no_reason_to_refuse(tmp_path: Path, length: int, zeros: int) -> None:
    line = records.encode(meta("mon", "bot"), 1)
    (tmp_path / "mon.jsonl").write_bytes(line[:length] + bytes(zeros))
    journal = opened(tmp_path, "mon", "bot")
    journal.append([records.snapshot({})])
    assert journal.unsaved is None
    journal.close()
    assert [found.run for found in list_runs(str(tmp_path), "bot")] == ["mon"]


def test_identities_are_the_directories_with_legal_names(tmp_path: Path) -> None:
    for name in ("bot", "a.b", ".hidden", "with space"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    assert identities(str(tmp_path)) == ["a.b", "bot"]
    assert identities(str(tmp_path / "nowhere")) == []


# --- a disk that changes the case of names ----------------------------------------------------------------------------


def test_names_that_the_disk_lists_in_another_case_are_the_runs_that_were_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listings in small letters, and both names for one file, as on such a disk. A copy beside it is none."""
    planted(tmp_path / "Bot", "Monday-2B", "Bot")
    planted(tmp_path / "Bot", "Monday-2B", "Bot", "copy")
    planted(tmp_path / "Bot", "Tuesday", "Bot", "wednesday")
    (tmp_path / "Bot" / "monday-2b.jsonl").hardlink_to(tmp_path / "Bot" / "Monday-2B.jsonl")
    (tmp_path / "bot").symlink_to("Bot")

    def small(list_names: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
        return lambda directory: sorted({name.lower() for name in list_names(directory)})

    for module in (ledger, runs):
        monkeypatch.setattr(module, "run_names", small(run_names))
    monkeypatch.setattr(ledger, "identities", lambda _: ["bot"])
    told = {one.path.rpartition("/")[2]: (one.identity, one.run, one.state) for one in ledger.journals(str(tmp_path))}
    assert told == {
        "monday-2b.jsonl": ("Bot", "Monday-2B", "interrupted"),
        "copy.jsonl": ("bot", "copy", "misplaced"),
        "wednesday.jsonl": ("bot", "wednesday", "misplaced"),
    }
    assert ("Monday-2B", "interrupted") in [(one.run, one.state) for one in list_runs(str(tmp_path / "Bot"), "Bot")]


def test_a_copy_whose_name_differs_by_case_alone_is_another_run_s(tmp_path: Path) -> None:
    planted(tmp_path / "bot", "Monday", "bot", "monday")
    planted(tmp_path / "bot", "Monday", "bot")
    assert [(one.run, one.state) for one in ledger.journals(str(tmp_path))] == [
        ("Monday", "interrupted"),
        ("monday", "misplaced"),
    ]

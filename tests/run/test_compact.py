"""A journal made short says what the long one said, and stays the one journal of its run while it is made."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.run.test_replay import encoded, history, keys, revisions, steps

from memory_sidecar.run import journal as journaling
from memory_sidecar.run import records
from memory_sidecar.run.compact import MAX_MEETINGS, Meeting, compacted, meetings
from memory_sidecar.run.journal import Journal
from memory_sidecar.run.read import read_journal
from memory_sidecar.run.records import Record
from memory_sidecar.run.replay import Replayed, replay
from memory_sidecar.run.runs import list_runs, remove_run
from memory_sidecar.run.terms import RunBusyError, stage_name
from memory_sidecar.store.scope import Change

handed = st.tuples(st.just("handed"), st.dictionaries(keys, revisions, max_size=2))


def long_history(plan: list[Any]) -> list[Record]:
    """As `history`, with snapshots that the harness handed in, and perhaps an ending."""
    written = [records.snapshot(step[1]) for step in plan if step[0] == "handed"]
    more, _, _ = history([step for step in plan if step[0] != "handed"])
    place = max(1, len(more) // 2)
    while more[place - 1]["type"] == "terminal":
        place += 1
    return [*more[:place], *written, *more[place:]]


def replayed(data: bytes) -> Replayed:
    found = replay(data)
    assert found is not None
    return found


def told(found: Replayed) -> dict[tuple[str, str | None, str], str]:
    """Of each kind of meeting, when it was last."""
    return {(one.key, one.met, one.why): one.time for one in meetings(found.records)}


@given(st.lists(steps | handed, max_size=14), st.booleans())
def test_a_short_journal_says_the_same(plan: list[Any], ended: bool) -> None:
    end = [records.terminal("error", "m"), records.snapshot({"a": "9"})] if ended else []
    found = replayed(encoded([*long_history(plan), *end]))
    data = compacted(found)
    again = replayed(data)
    assert again._replace(records=[], length=0) == found._replace(records=[], length=0)
    assert told(again) == told(found)
    assert again.records[0] == {**found.records[0], "compacted": len(data) - data.index(b"\n") - 1}
    assert replayed(compacted(again)).records == again.records, "made short twice it is another"


@given(st.lists(steps | handed, max_size=14), st.integers(0, 3))
def test_what_is_too_much_is_forgotten_from_the_oldest_on(plan: list[Any], most: int) -> None:
    found = replayed(encoded(long_history(plan)))
    again = replayed(compacted(found, most))
    assert (again.keys, again.store, again.tools) == (found.keys, found.store, found.tools)
    kept, all_of_it = told(again), told(found)
    assert kept.items() <= all_of_it.items()
    assert ("forgotten" in again.records[0]) == (kept != all_of_it)
    assert len(kept) <= most + len(found.keys)
    newest: dict[str, Meeting] = {one.key: one for one in meetings(found.records) if one.why != "shown"}
    assert all((one.key, one.met, one.why) in kept for one in newest.values() if one.key in found.keys)


def test_it_says_what_it_has_forgotten_until_the_end() -> None:
    changes = [records.scope_change(Change("a", str(number), "updated")) for number in range(4)]
    for number, change in enumerate(changes):
        change["time"] = f"t{number}"
    first = compacted(replayed(encoded([records.meta(run="r", identity="i", tools=[], store="s"), *changes])), 1)
    assert replayed(first).records[0]["forgotten"] == "t1"
    assert replayed(compacted(replayed(first), 1)).records[0]["forgotten"] == "t1"


def test_how_much_it_keeps_is_what_is_published() -> None:
    assert MAX_MEETINGS == 4096


def test_of_listings_it_keeps_one_of_each_kind_and_since_when_there_were_some() -> None:
    written = [records.meta(run="r", identity="i", tools=[], store="s")]
    for number, what in enumerate(("index", "memory_list", "memory_list", "index", "memory_list")):
        written.append({**records.listed(what, number + 1), "time": f"t{number}"})  # type: ignore[arg-type]
    again = replayed(compacted(replayed(encoded(written))))
    twice = replayed(compacted(replayed(encoded([*again.records, {**written[-1], "time": "t9"}]))))
    for found, last in ((again, ("t4", 5)), (twice, ("t9", 5))):
        kept = [one for one in found.records if one["type"] == "listed"]
        assert {one["what"]: (one["since"], one["time"], one["notes"]) for one in kept} == {
            "index": ("t0", "t3", 4),
            "memory_list": ("t1", *last),
        }


def test_what_was_shown_after_a_grant_does_not_stand_for_it() -> None:
    changes = [Change("a", "1", "read"), Change("a", "2", "shown")]
    written = [records.meta(run="r", identity="i", tools=[], store="s"), *map(records.scope_change, changes)]
    again = replayed(compacted(replayed(encoded(written)), most=0))
    assert again.keys == {"a": "1"}
    assert [(one.why, one.met) for one in meetings(again.records)] == [("read", "1")]


def test_what_was_shown_is_kept() -> None:
    written = [records.meta(run="r", identity="i", tools=[], store="s")]
    written += [records.scope_change(Change("a", revision, "shown")) for revision in "121"]
    again = replayed(compacted(replayed(encoded(written))))
    assert [(one.key, one.why, one.met) for one in meetings(again.records)] == [
        ("a", "shown", "2"),
        ("a", "shown", "1"),
    ]
    assert again.keys == {}


def test_it_keeps_in_which_stores_the_run_has_been() -> None:
    written = [records.meta(run="r", identity="i", tools=[], store="s")]
    written += [records.resumed(tools=["t"], store=store) for store in "tuutvt"]
    again = replayed(compacted(replayed(encoded(written))))
    assert [one["store"] for one in again.records if one["type"] in ("meta", "resumed")] == ["s", "u", "v", "t"]
    assert again.store == "t"


def test_it_keeps_on_which_hosts_the_run_has_been() -> None:
    written = [records.meta(run="r", identity="i", tools=[], store="s") | {"host": "one"}]
    written += [records.resumed(tools=["t"], store="s") | {"host": host} for host in "abab"]
    again = replayed(compacted(replayed(encoded(written))))
    assert [one["host"] for one in again.records if one["type"] in ("meta", "resumed")] == ["one", "a", "b"]


@given(st.permutations(["a", "b", "c", "d", "e"]))
def test_what_is_kept_stays_in_its_order(order: list[str]) -> None:
    again = records.resumed(tools=["t"], store="s")
    changes = [records.scope_change(Change(key, "1", "read")) for key in order]
    written = [records.meta(run="r", identity="i", tools=[], store="s"), again, *changes[:2], again, *changes[2:]]
    kept = replayed(compacted(replayed(encoded(written)))).records
    assert [record.get("key", record["type"]) for record in kept] == [
        "meta",
        *order[:2],
        "resumed",
        *order[2:],
        "scope",
    ]


def test_a_loss_keeps_what_was_known_before_it() -> None:
    written = [
        records.meta(run="r", identity="i", tools=[], store="s"),
        *(
            records.scope_change(Change("a", revision, why))  # type: ignore[arg-type]
            for revision, why in (
                ("1", "read"),
                (None, "stale"),
                (None, "stale"),
                ("2", "read"),
                (None, "deleted"),
                ("1", "read"),
                ("2", "read"),
            )
        ),
    ]
    again = replayed(compacted(replayed(encoded(written))))
    assert [(one.why, one.met) for one in meetings(again.records)] == [
        ("stale", "1"),
        ("stale", None),
        ("deleted", "2"),
        ("read", "1"),
        ("read", "2"),
    ]


# On disk


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journaling, "_COMPACT_AFTER", 4000)
    monkeypatch.setattr(journaling, "_LOOK", 0.0)


def opened(directory: Path, scope: dict[str, str]) -> Journal:
    journal = Journal(
        str(directory),
        "r",
        meta=lambda: records.meta(run="r", identity="i", tools=["t"], store="s"),
        snapshot=lambda: records.snapshot(scope),
    )
    if journal.open() is None:
        journal.start([])
    return journal


def overwrite(journal: Journal, number: int) -> None:
    journal.append([records.scope_change(Change("a", str(number % 10), "updated"))])


@pytest.mark.usefixtures("small")
def test_a_journal_stays_short_and_its_runs(tmp_path: Path) -> None:
    journal = opened(tmp_path, {})
    largest = 0
    for number in range(500):
        overwrite(journal, number)
        assert journal.unsaved is None
        largest = max(largest, (tmp_path / "r.jsonl").stat().st_size)
        if number % 50 == 0:
            with pytest.raises(RunBusyError):
                opened(tmp_path, {})
            assert [run.state for run in list_runs(str(tmp_path), "i")] == ["open"]
            assert remove_run(str(tmp_path), "r", "i", lambda _: True) is None
    assert largest < 8000
    assert os.listdir(tmp_path) == ["r.jsonl"]
    journal.close()
    found, is_open = read_journal(str(tmp_path / "r.jsonl"))
    assert not is_open
    assert found is not None
    assert found.keys == {"a": "9"}
    assert {one.met for one in meetings(found.records)} == set("0123456789")


@pytest.mark.usefixtures("small")
def test_a_long_journal_is_made_short_once_it_is_resumed_and_only_once(tmp_path: Path) -> None:
    long = opened(tmp_path, {})
    long.append([records.scope_change(Change(f"k{number}", "1", "read")) for number in range(100)])
    long.close()
    inode = (tmp_path / "r.jsonl").stat().st_ino
    for _ in range(3):
        journal = opened(tmp_path, {})
        overwrite(journal, 1)
        journal.close()
        assert (tmp_path / "r.jsonl").stat().st_ino == inode


@pytest.mark.usefixtures("small")
def test_a_torn_line_after_it_is_cut_off_as_ever(tmp_path: Path) -> None:
    journal = opened(tmp_path, {})
    for number in range(60):
        overwrite(journal, number)
    journal.close()
    path = tmp_path / "r.jsonl"
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"seq":')
    journal = opened(tmp_path, {})
    overwrite(journal, 1)
    journal.close()
    assert path.read_bytes().startswith(whole)
    assert len(replayed(path.read_bytes()).records) == len(replayed(whole).records) + 1


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("call", ["rename", "fsync", "open"])
def test_where_it_cannot_be_made_short_it_goes_on(tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(tmp_path, {})
    real = getattr(os, call)

    def fails(*arguments: Any, **more: Any) -> Any:
        if call != "open" or str(arguments[0]).endswith(".new"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments, **more)

    monkeypatch.setattr(os, call, fails)
    for number in range(200):
        overwrite(journal, number)
        assert journal.unsaved is None
    assert os.listdir(tmp_path) == ["r.jsonl"]
    monkeypatch.undo()
    assert replayed((tmp_path / "r.jsonl").read_bytes()).keys == {"a": "9"}
    monkeypatch.setattr(journaling, "_COMPACT_AFTER", 4000)
    for number in range(60):
        overwrite(journal, number)
    assert (tmp_path / "r.jsonl").stat().st_size < 9000
    journal.close()


@pytest.mark.usefixtures("small")
def test_a_file_that_somebody_else_put_there_is_left_alone(tmp_path: Path) -> None:
    journal = opened(tmp_path, {})
    path = tmp_path / "r.jsonl"
    path.rename(tmp_path / "kept")
    path.write_text("a copy from elsewhere\n")
    for number in range(60):
        overwrite(journal, number)
    assert path.read_text() == "a copy from elsewhere\n"
    assert os.listdir(tmp_path) != []
    assert not (tmp_path / stage_name("r")).exists()
    journal.close()


def test_what_a_killed_holder_left_goes_with_the_next_and_with_the_journal(tmp_path: Path) -> None:
    opened(tmp_path, {}).close()
    left = tmp_path / stage_name("r")
    left.write_text("half")
    opened(tmp_path, {}).close()
    assert not left.exists()
    left.write_text("half")
    assert remove_run(str(tmp_path), "r", "i", lambda _: True) is not None
    assert os.listdir(tmp_path) == []

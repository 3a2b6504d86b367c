"""Replay: newest wins, a torn tail does not count, and anything else that is wrong is damage."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sidecar.run import records
from memory_sidecar.run.journal import Journal
from memory_sidecar.run.records import Record, encode
from memory_sidecar.run.replay import DamagedError, replay, summary
from memory_sidecar.run.terms import JournalError
from memory_sidecar.store.scope import Change, Scope

keys = st.sampled_from(["a", "b", "c"])
revisions = st.sampled_from(["1", "2", "3"])
stores = st.sampled_from(["s", "t"])

steps = st.one_of(
    st.builds(Change, keys, revisions, st.sampled_from(["read", "created", "updated"])),
    st.builds(Change, keys, st.none(), st.sampled_from(["deleted", "stale", "unknown"]), st.none() | revisions),
    st.builds(Change, keys, revisions, st.just("shown")),
    st.tuples(st.just("listed"), st.sampled_from(["index", "memory_list"])),
    st.just("snapshot"),
    st.tuples(st.just("end"), st.sampled_from([reason for reason in records.REASONS if reason != "completed"])),
    st.tuples(st.just("crash"), stores),
)


def history(plan: list[Any]) -> tuple[list[Record], dict[str, str], str]:
    """The records that a run writes along `plan`, and its scope and store at the end, by the plainest model."""
    written = [records.meta(run="r", identity="i", tools=["t"], store="s")]
    scope: dict[str, str] = {}
    store = "s"
    for step in plan:
        if isinstance(step, Change):
            written.append(records.scope_change(step))
            if step.why == "shown":
                pass
            elif step.revision is None:
                scope.pop(step.key, None)
            else:
                scope[step.key] = step.revision
        elif step == "snapshot":
            written.append(records.snapshot(scope))
        elif step[0] == "listed":
            written.append(records.listed(step[1], 3))
        elif step[0] == "end":
            written += [records.terminal(step[1]), records.snapshot(scope)]
            written.append(records.resumed(tools=["t"], store=store))
        else:
            if step[1] != store:
                scope, store = {}, step[1]
            written.append(records.resumed(tools=["t"], store=store))
    return written, scope, store


def encoded(written: list[Record]) -> bytes:
    return b"".join(encode(record, seq) for seq, record in enumerate(written, 1))


@given(st.lists(steps, max_size=12))
def test_replay_tells_the_scope_as_the_run_left_it(plan: list[Any]) -> None:
    written, scope, store = history(plan)
    data = encoded(written)
    found = replay(data)
    assert found is not None
    assert (found.keys, found.store, found.length) == (scope, store, len(data))
    assert [{**record, "seq": None} for record in found.records] == [{**record, "seq": None} for record in written]


@given(st.lists(steps, max_size=6), st.data())
def test_a_cut_anywhere_is_the_run_as_it_was_then(plan: list[Any], data: st.DataObject) -> None:
    written, _, _ = history(plan)
    whole = encoded(written)
    cut = data.draw(st.integers(0, len(whole)))
    found = replay(whole[:cut])
    before = whole[:cut].count(b"\n")
    if found is None:
        assert before == 0
    else:
        assert len(found.records) == before
        assert found == replay(encoded(written[:before]))


@given(st.lists(steps, max_size=4), st.data())
def test_a_changed_byte_before_the_last_newline_is_damage(plan: list[Any], data: st.DataObject) -> None:
    whole = bytearray(encoded(history(plan)[0]))
    place = data.draw(st.integers(0, len(whole) - 2))
    line = whole[:place].count(b"\n") + 1
    whole[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamagedError) as caught:
        replay(bytes(whole))
    assert caught.value.line == line


@given(st.binary(max_size=200))
def test_rubbish_is_damage_or_nothing(data: bytes) -> None:
    with contextlib.suppress(DamagedError):
        assert replay(data) is None


@given(st.lists(st.builds(Change, keys, revisions, st.just("updated")), max_size=8))
def test_a_scope_and_its_journal_never_part(plan: list[Change]) -> None:
    scope = Scope()
    for change in plan:
        assert change.revision is not None
        scope.grant(change.key, change.revision, "updated")
    written = [records.meta(run="r", identity="i", tools=[], store="s"), *map(records.scope_change, scope.drain())]
    found = replay(encoded(written))
    assert found is not None
    assert found.keys == scope.snapshot()


META = records.meta(run="r", identity="i", tools=[], store="s")
CHANGE = records.scope_change(Change("a", "1", "read"))
END = records.terminal("suspended")
SNAPSHOT = records.snapshot({})


@pytest.mark.parametrize(
    ("written", "line"),
    [
        ([CHANGE], 1),
        ([META, META], 2),
        ([META, END, CHANGE], 3),
        ([META, END, SNAPSHOT, END], 4),
        ([{**META, "version": records.VERSION + 1}], 1),
    ],
)
def test_what_cannot_follow_is_damage(written: list[Record], line: int) -> None:
    with pytest.raises(DamagedError) as caught:
        replay(encoded(written))
    assert caught.value.line == line


def test_a_number_that_does_not_follow_is_damage() -> None:
    for seq in (1, 3):
        with pytest.raises(DamagedError, match="seq"):
            replay(encode(META, 1) + encode(CHANGE, seq))


def test_damage_is_told_with_its_line() -> None:
    with pytest.raises(DamagedError) as caught:
        replay(encoded([META, META]))
    assert str(caught.value) == "line 2: meta cannot follow here: the run was running"


def test_nothing_yet_is_no_run() -> None:
    assert replay(b"") is None
    assert replay(encode(META, 1)[:-1]) is None


def test_a_newer_journal_is_called_newer_and_not_damaged(tmp_path: Path) -> None:
    record = records.meta(run="r", identity="i", tools=[], store="s")
    (tmp_path / "r.jsonl").write_bytes(records.encode({**record, "version": records.VERSION + 1}, 1))
    journal = Journal(str(tmp_path), "r", meta=lambda: record, snapshot=lambda: records.snapshot({}))
    with pytest.raises(JournalError, match=r"newer version.*resume the run with that version") as refused:
        journal.open()
    assert "damaged" not in str(refused.value)


def test_a_summary_says_what_the_whole_says_and_keeps_no_record() -> None:
    written = [META, CHANGE, {**CHANGE, "key": "other"}, records.terminal("suspended")]
    data = encoded(written)
    whole = replay(data)
    told: list[dict[str, object]] = []
    short = summary(data + b'{"seq":5,"ty', told.append)
    assert whole is not None
    assert short is not None
    assert told == whole.records
    assert (short.first, short.number) == (whole.records[0], len(whole.records))
    assert short[2:] == whole[1:]

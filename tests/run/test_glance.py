"""A listing's look at a journal says what a replay of all of it says."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.run.test_compact import handed, long_history
from tests.run.test_replay import encoded, steps

from memory_sidecar.run import glance as glancing
from memory_sidecar.run import records
from memory_sidecar.run.compact import compacted
from memory_sidecar.run.glance import Standing, glance, records_of
from memory_sidecar.run.kinds import KINDS, VERSION
from memory_sidecar.run.replay import DamagedError, NewerError, replay

META = records.meta(run="r", identity="i", tools=[], store="s")


def whole(data: bytes) -> Standing | None:
    found = replay(data)
    if found is None:
        return None
    return Standing(found.records[0], found.state, found.store, len(found.keys), found.created, found.updated)


@given(st.lists(steps | handed, max_size=14), st.booleans(), st.booleans(), st.data())
def test_it_agrees_with_a_replay(plan: list[Any], ended: bool, short: bool, data: st.DataObject) -> None:
    end = [records.terminal("error", "m"), records.snapshot({"a": "9"})] if ended else []
    journal = encoded([*long_history(plan), *end])
    if short:
        found = replay(journal)
        assert found is not None
        journal = compacted(found)
    cut = journal[: data.draw(st.integers(0, len(journal)))]
    for one in (journal, cut):
        assert glance(one) == whole(one)
        found = replay(one)
        for name in KINDS:
            assert list(records_of(one, [name])) == [
                record for record in (found.records if found else ()) if record["type"] == name
            ]


@given(st.lists(steps, max_size=4), st.data())
def test_a_changed_byte_is_found_wherever_it_is(plan: list[Any], data: st.DataObject) -> None:
    journal = bytearray(encoded(long_history(plan)))
    place = data.draw(st.integers(0, len(journal) - 2))
    journal[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(DamagedError) as seen:
        glance(bytes(journal))
    with pytest.raises(DamagedError) as replayed:
        replay(bytes(journal))
    assert str(seen.value) == str(replayed.value)


def test_what_is_summed_and_no_record_is_damage_and_what_is_newer_is_newer() -> None:
    with pytest.raises(DamagedError, match="line 1: its run is missing"):
        glance(records.encode({"type": "meta", "version": 1}, 1))
    with pytest.raises(DamagedError, match="line 2: its keys is not legal"):
        glance(encoded([META, {"type": "scope", "time": "t", "keys": 1}]))
    with pytest.raises(NewerError):
        glance(encoded([{**META, "version": VERSION + 1}]))


@given(st.lists(steps, max_size=4))
def test_a_sound_journal_is_never_replayed_and_a_torn_end_is_none_of_it(plan: list[Any]) -> None:
    journal = encoded(long_history(plan))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(glancing, "replay", None)
        assert glance(journal) == glance(journal + b'{"seq":') == whole(journal)


def test_a_kind_that_nobody_knows_is_damage() -> None:
    unknown = records.encode({"type": "unknown", "time": "t"}, 2)
    with pytest.raises(DamagedError, match="line 2"):
        glance(encoded([META]) + unknown)


@pytest.mark.parametrize("first", ["resumed", "terminal", "scope"])
def test_a_beginning_that_is_none_is_damage(first: str) -> None:
    """However well its lines are summed: one such file must not end the listing of all others."""
    told: dict[str, Any] = {
        "resumed": {"tools": [], "store": "s"},
        "terminal": {"reason": "error"},
        "scope": {"keys": {}},
    }
    journal = encoded([{"type": first, "time": "t", **told[first]}, META])
    for data in (journal, journal[: journal.index(b"\n") + 1], encoded([META, META])):
        with pytest.raises(DamagedError) as seen:
            glance(data)
        with pytest.raises(DamagedError) as replayed:
            replay(data)
        assert str(seen.value) == str(replayed.value)


@given(st.binary(max_size=200))
def test_rubbish_is_damage_or_nothing(data: bytes) -> None:
    with contextlib.suppress(DamagedError):
        assert glance(data) is None

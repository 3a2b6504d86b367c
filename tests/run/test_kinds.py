"""The table of record kinds: each kind goes every way that a record goes, and a later one raises the version."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.run.test_replay import encoded

from memory_sidecar.run import journal as journaling
from memory_sidecar.run import kinds, records, replay
from memory_sidecar.run.columns import TEXT, Field, Kind, Met, Record, Told
from memory_sidecar.run.compact import compacted, meetings
from memory_sidecar.run.journal import Journal
from memory_sidecar.run.kinds import KINDS
from memory_sidecar.run.schema import schema
from memory_sidecar.run.terms import JournalError

SCHEMA = Path(records.__file__).parent / "journal.schema.json"
META = records.meta(run="r", identity="i", tools=["t"], store="s")


def test_the_published_schema_is_what_the_table_says() -> None:
    assert SCHEMA.read_text() == schema(), "run: make schema"


VALUES: list[Any] = [None, 1, 9, "r", "", "a b", [], ["t"], {}, {"a": "1"}, {"a": "1", "b": "2"}]
VALUES += [*kinds.REASONS, "index", "memory_list", "read", "created", "updated", "held", "deleted", "stale", "unknown"]


def legal(name: str) -> st.SearchStrategy[Record]:
    """Records of a kind, from its row alone."""
    fields = {
        field: st.sampled_from([value for value in VALUES if row.rule.allows(value)])
        for field, row in KINDS[name].fields.items()
    }
    optional = {field for field, row in KINDS[name].fields.items() if not row.required}
    made = st.fixed_dictionaries(
        {"type": st.just(name)} | {field: fields[field] for field in fields.keys() - optional},
        optional={field: fields[field] for field in optional},
    )
    between = KINDS[name].between
    return made if between is None else made.filter(lambda record: not between.problem(record))


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.legal != "first"])
@given(data=st.data())
def test_each_kind_is_read_kept_and_shown(name: str, data: st.DataObject) -> None:
    record = data.draw(legal(name))
    found = replay.replay(encoded([META, record]))
    assert found is not None
    assert found.updated == record[KINDS[name].time]
    again = replay.replay(compacted(found))
    assert again is not None
    assert again._replace(records=[], length=0) == found._replace(records=[], length=0)
    assert [one[2:] for one in meetings(again.records)] == [one[2:] for one in meetings(found.records)]
    for one in (*found.records, *again.records):
        told = KINDS[one["type"]].told(one)
        assert told is None or told.what


def test_a_row_without_a_column_stops_the_program() -> None:
    complete = KINDS["terminal"]._asdict()
    for column in complete:
        with pytest.raises(TypeError, match=column):
            Kind(**{name: value for name, value in complete.items() if name != column})


# --- a kind of a later version -----------------------------------------------------------------------------------

PINNED = {"type": "pinned", "time": "t9", "key": "a"}
LATER = Kind(
    about="The model pinned a note.",
    since=kinds.VERSION + 1,
    legal="running",
    time="time",
    fields={"time": Field(TEXT), "key": Field(TEXT)},
    between=None,
    stands="never",
    apply=lambda _reading, _record: None,
    met=lambda record, _known: iter([Met(record["key"], "pinned", None, None)]),
    kept=kinds.anew,
    told=lambda record: Told("pinned", record["key"]),
)


def later(patch: pytest.MonkeyPatch) -> None:
    """The program as it is one version on."""
    patch.setitem(KINDS, "pinned", LATER)
    patch.setattr(replay, "VERSION", LATER.since)


def opened(directory: Path, scope: dict[str, str] | None = None) -> Journal:
    journal = Journal(
        str(directory), "r", meta=lambda: META, snapshot=lambda: records.snapshot({} if scope is None else scope)
    )
    if journal.open() is None:
        journal.start([])
    return journal


def replayed(path: Path) -> Any:
    return replay.replay(path.read_bytes())


def test_a_journal_is_of_the_version_of_its_newest_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.jsonl"
    with monkeypatch.context() as patch:
        later(patch)
        journal = opened(tmp_path)
        journal.append([records.snapshot({"a": "1"})])
        journal.close()
    assert replayed(path).keys == {"a": "1"}, "of a newer program, but with nothing new in it"
    with monkeypatch.context() as patch:
        later(patch)
        journal = opened(tmp_path)
        before = path.read_bytes().splitlines()
        journal.append([PINNED, records.snapshot({"a": "2"})])
        journal.append([records.snapshot({"a": "3"})])
        assert journal.unsaved is None
        with pytest.raises(JournalError, match="open in another process"):
            opened(tmp_path)
        journal.close()
        after = path.read_bytes().splitlines()
        assert after[1 : len(before)] == before[1:]
        assert [record["type"] for record in replayed(path).records] == ["meta", "scope", "pinned", "scope", "scope"]
        assert replayed(path).records[0] == {"seq": 1, **META, "version": LATER.since}
    whole = path.read_bytes()
    with pytest.raises(replay.NewerError):
        replayed(path)
    with pytest.raises(JournalError, match=r"newer version.*resume the run with that version"):
        opened(tmp_path)
    assert path.read_bytes() == whole


def test_a_new_journal_that_starts_with_a_later_record_says_so_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later(monkeypatch)
    journal = Journal(str(tmp_path), "r", meta=lambda: META, snapshot=lambda: records.snapshot({}))
    assert journal.open() is None
    journal.start([PINNED])
    journal.close()
    assert replayed(tmp_path / "r.jsonl").records[0]["version"] == LATER.since


def test_a_version_that_cannot_be_raised_leaves_the_journal_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    later(monkeypatch)
    journal = opened(tmp_path)
    before = (tmp_path / "r.jsonl").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(journaling.files, "create_exclusively", full)
        journal.append([PINNED])
        assert journal.unsaved == "No space left on device"
        assert (tmp_path / "r.jsonl").read_bytes() == before
    journal.append([])
    assert journal.unsaved is None
    assert [record["type"] for record in replayed(tmp_path / "r.jsonl").records] == ["meta", "pinned"]
    journal.close()


def test_a_later_field_raises_the_version_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    later(monkeypatch)
    kind = KINDS["scope"]
    fields = {**kind.fields, "pins": Field(TEXT, required=False, since=LATER.since)}
    monkeypatch.setitem(KINDS, "scope", kind._replace(fields=fields))
    journal = opened(tmp_path)
    journal.append([records.snapshot({})])
    assert replayed(tmp_path / "r.jsonl").records[0]["version"] == kinds.VERSION
    journal.append([{**records.snapshot({}), "pins": "a"}])
    assert replayed(tmp_path / "r.jsonl").records[0]["version"] == LATER.since
    journal.close()


def test_a_journal_of_the_first_version_goes_on_and_tells_its_host_from_then_on(tmp_path: Path) -> None:
    first = {name: value for name, value in META.items() if name != "host"} | {"version": 1}
    (tmp_path / "r.jsonl").write_bytes(encoded([first, records.snapshot({"a": "1"})]))
    journal = Journal(str(tmp_path), "r", meta=lambda: META, snapshot=lambda: records.snapshot({}))
    found = journal.open()
    assert found is not None
    assert found.keys == {"a": "1"}
    journal.append([records.resumed(tools=["t"], store="s")])
    journal.close()
    again = replayed(tmp_path / "r.jsonl").records
    assert (again[0]["version"], "host" in again[0], again[-1]["host"]) == (2, False, os.uname().nodename)


@pytest.mark.parametrize("more", [{}, {"unheard_of": 1}, {"tools": None}])
def test_a_newer_first_record_is_newer_whatever_else_is_in_it(more: dict[str, Any]) -> None:
    with pytest.raises(replay.NewerError):
        replay.replay(encoded([{**META, "version": kinds.VERSION + 1, **more}]))

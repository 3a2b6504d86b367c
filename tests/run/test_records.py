"""Records as lines, and the rules of the published schema: the code and the schema say the same."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from memory_sidecar.run import records
from memory_sidecar.run.records import Record, RecordError, check, decode, encode, is_run_id
from memory_sidecar.store.scope import Change

SCHEMA = json.loads((Path(records.__file__).parent / "journal.schema.json").read_text())
VALIDATOR = Draft202012Validator(SCHEMA)

texts = st.text(max_size=8)
run_ids = st.from_regex(records.RUN_ID, fullmatch=True)
names = st.lists(texts, max_size=3)
reasons = st.sampled_from(records.REASONS)
changes = st.one_of(
    st.builds(Change, texts, texts, st.sampled_from(["read", "created", "updated"])),
    st.builds(Change, texts, st.none(), st.sampled_from(["deleted", "stale", "unknown"]), st.none() | texts),
    st.builds(Change, texts, st.none() | texts, st.just("shown")),
)
lockdowns = st.none() | texts
legal: st.SearchStrategy[Record] = st.one_of(
    st.builds(records.meta, run=run_ids, identity=texts, tools=names, store=texts, lockdown=lockdowns),
    st.builds(records.resumed, tools=names, store=texts, lockdown=lockdowns),
    st.builds(records.scope_change, changes),
    st.builds(records.listed, st.sampled_from(["index", "memory_list"]), st.integers(1, 1024)),
    st.builds(records.snapshot, st.dictionaries(texts, texts, max_size=3)),
    st.builds(records.terminal, reasons, st.none() | texts),
)
numbered = st.builds(lambda record, seq: {"seq": seq, **record}, legal, st.integers(1, 10**9))

# JSON Schema calls 1.0 a whole number and Python's JSON does not, so no such float is among the values.
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 3),
    st.just(0.5),
    texts,
    st.sampled_from(
        ["read", "deleted", "stale", "shown", "index", "meta", "scope", "suspended", "done", "a\n", "-a", "a" * 129]
    ),
    names,
    st.lists(st.integers(0, 1), min_size=1, max_size=2),
    st.dictionaries(texts, texts | st.integers(0, 1), max_size=2),
)
RULES = [rule["properties"] for rule in SCHEMA["oneOf"]]
fields = st.sampled_from(sorted({"sum", *(name for rule in RULES for name in rule)}))


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    record = dict(draw(numbered))
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            record[draw(fields)] = draw(values)
        elif record:
            del record[draw(st.sampled_from(sorted(record)))]
    return record


def passes(record: object) -> bool:
    try:
        check(record)
    except RecordError:
        return False
    return True


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@given(numbered)
def test_what_is_built_is_legal(record: Record) -> None:
    check(record)
    VALIDATOR.validate(record)


@given(mutated() | values)
def test_the_code_and_the_published_schema_agree(record: Any) -> None:
    assert passes(record) == VALIDATOR.is_valid(record)


@given(legal, st.integers(1, 10**9))
def test_a_line_comes_back_as_the_record_it_was(record: Record, seq: int) -> None:
    line = encode(record, seq)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert decode(line[:-1]) == {"seq": seq, **record}


@given(legal, st.data())
def test_a_changed_byte_never_passes(record: Record, data: st.DataObject) -> None:
    line = bytearray(encode(record, 1)[:-1])
    place = data.draw(st.integers(0, len(line) - 1))
    line[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(RecordError):
        decode(bytes(line))


@given(st.binary(max_size=80) | st.text(max_size=40).map(str.encode))
def test_what_is_no_record_is_refused_as_such(line: bytes) -> None:
    with pytest.raises(RecordError):
        decode(line)


@pytest.mark.parametrize(
    ("text", "legal"),
    [
        ("a", True),
        ("9", True),
        ("A-_9", True),
        ("a" * 128, True),
        ("a" * 129, False),
        ("", False),
        ("-a", False),
        ("_a", False),
        ("a.b", False),
        ("a/b", False),
        ("a\n", False),
        ("\u0661", False),
        ("é", False),
    ],
)
def test_run_ids(text: str, *, legal: bool) -> None:
    assert is_run_id(text) is legal


def test_the_message_of_an_ending_is_cut() -> None:
    assert len(records.terminal("error", "x" * 5000)["message"]) == 1000

"""The id of a message that is not parsed: found wherever `json.loads` finds it, whatever the pieces it comes in."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sidecar.wire.messages import is_id
from memory_sidecar.wire.outline import MAX_ID, Outline

WORDS = st.sampled_from(["id", "method", "result", "error", "params", "jsonrpc", 'i"d', "\\", "{", "]", ",:", "é", ""])
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3))
MESSAGES = st.lists(st.tuples(WORDS, VALUES), max_size=6)


def outline(data: bytes, size: int = 1 << 20) -> Outline:
    made = Outline()
    for place in range(0, len(data), size):
        made.feed(data[place : place + size])
    return made


def written(members: list[tuple[str, Any]], indent: int | None) -> bytes:
    """An object with these members, of which two may have one name."""
    space = " " * (indent or 0)
    parts = [f"{space}{json.dumps(name)}{space}:{space}{json.dumps(value, indent=indent)}" for name, value in members]
    return f"{space}{{{','.join(parts)}{space}}}{space}".encode()


@given(MESSAGES, st.integers(1, 9), st.sampled_from([None, 1]))
def test_it_sees_what_a_parser_sees(members: list[tuple[str, Any]], size: int, indent: int | None) -> None:
    data = written(members, indent)
    message = json.loads(data)
    made = outline(data, size)
    known = message.get("id")
    assert made.request_id() == (known if is_id(known) else None)
    needs_none = "id" not in message if "method" in message else "result" in message or "error" in message
    assert made.needs_no_answer == needs_none


@pytest.mark.parametrize("value", ["a", "", 0, -1, 10**30])
def test_texts_and_whole_numbers_are_ids(value: object) -> None:
    assert is_id(value)
    assert outline(written([("params", {"id": 7}), ("id", value)], None)).request_id() == value


@pytest.mark.parametrize("value", ["1.0", "1e3", "true", "false", "null", "[1]", '{"id":1}', "NaN", "x", ""])
def test_nothing_else_is(value: str) -> None:
    assert outline(b'{"id":%s,"method":"m"}' % value.encode()).request_id() is None
    assert not is_id(1.0)
    assert not is_id(True)
    assert not is_id(None)


@pytest.mark.parametrize(
    "data",
    [
        *(b'{"id":1', b'{"id":1,"method":"m', b'["id",1]', b'{"id":1}}', b'{"id":1}{"id":2}', b'x{"id":1}'),
        *(b'{"id":1}x', b'"id":1', b"", b"1", b'{"id":1}[', b'{"id":1}"', b',{"id":1}', b'{"id":1},'),
    ],
)
def test_what_is_not_one_whole_object_has_none(data: bytes) -> None:
    made = outline(data)
    assert made.request_id() is None
    assert not made.needs_no_answer


def test_the_last_of_two_counts_as_a_parser_has_it() -> None:
    assert outline(b'{"id":1,"method":"m","id":2}').request_id() == 2
    assert outline(b'{"id":1,"id":{}}').request_id() is None


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_an_id_has_4096_bytes_at_most(size: int) -> None:
    for length, known in ((4094, "i" * 4094), (4095, None)):
        assert outline(b'{"id":"%s","method":"x"}' % (b"i" * length), size).request_id() == known


def test_a_long_id_is_not_kept_and_what_follows_is_seen() -> None:
    longest = "x" * (MAX_ID - 2)
    assert outline(b'{"id":"%s"}' % longest.encode()).request_id() == longest
    assert outline(b'{"id":"x%s"}' % longest.encode()).request_id() is None
    assert outline(b'{"id":"x%s","id":3}' % longest.encode(), 100).request_id() == 3
    assert outline(b'{"params":"%s","id":4}' % (b"\\\\" * 9000), 1000).request_id() == 4


@pytest.mark.parametrize(
    ("data", "silent"),
    [
        (b'{"method":"m"}', True),
        (b'{"id":1,"result":{}}', True),
        (b'{"id":1,"error":{}}', True),
        (b'{"id":1,"method":"m"}', False),
        (b'{"id":1,"method":"m","result":1}', False),
        (b'{"id":null,"method":"m"}', False),
        (b'{"id":1}', False),
        (b"{}", False),
        (b'{"params":{"method":"m"}}', False),
        (b'{"method":"m"', False),
    ],
)
def test_notifications_and_responses_need_no_answer(data: bytes, silent: bool) -> None:
    assert outline(data).needs_no_answer is silent

"""Messages are looked at as bytes, however a stream cuts and frames them."""

from itertools import product

import pytest

from exposure_policy.audit.frames import MAX_PARTS, EventData, fault, is_json

STREAM = "data: one\n\n: a comment\n\nevent: message\nid: 1\ndata: two\ndata:three\ndata\n\ndata:  four\n"
EVENTS = [b"one", b"two\nthree\n", b" four"]


@pytest.mark.parametrize(("end", "size", "mark"), [*product(["\n", "\r\n", "\r"], [1, 2, 3, 7, 1000], ["", "\ufeff"])])
def test_events_are_the_same_however_the_stream_is_cut(end: str, size: int, mark: str) -> None:
    stream = (mark + STREAM.replace("\n", end)).encode()
    data = EventData()
    found = [message for at in range(0, len(stream), size) for message in data.feed(stream[at : at + size])]
    assert [*found, *data.end()] == EVENTS


def test_an_event_that_the_end_cuts_off_is_looked_at() -> None:
    data = EventData()
    assert data.feed(b"data: half") == []
    assert data.end() == [b"half"]


def test_a_long_line_in_small_pieces_is_not_looked_through_again() -> None:
    data = EventData()
    for _ in range(20_000):
        assert data.feed(b"x" * 50) == []
    assert data.end() == []  # it is no data line


@pytest.mark.parametrize("message", [b'{"a": 1, "a": 2}', b'[{"b": {"\\u0061": 1, "a": 2}}]'])
def test_a_key_that_stands_twice_is_told(message: bytes) -> None:
    reason, unreadable = fault(message) or ("", True)
    assert "the key 'a' twice" in reason
    assert not unreadable


def test_a_message_of_too_many_parts_is_not_parsed() -> None:
    assert (fault(b"[" + b"[]," * MAX_PARTS + b"[]]") or ("", False))[1]
    assert fault(b"[" * MAX_PARTS) is None
    assert fault(b"[" * (MAX_PARTS + 1)) == ("one message has more than 500000 parts", True)
    assert fault(b"[" * 100_000) is None  # the parser says what is wrong with it
    assert fault(b"") is None
    assert fault(b"not JSON") is None


@pytest.mark.parametrize(
    ("line", "taken"),
    [
        (b'{"a": 1}', True),
        (b" [1] \r", True),
        (b"\xef\xbb\xbf{}", True),
        (b"[" * 100_000, True),  # no reader gets to its end, and none says that it is no JSON
        (b"{no", False),
        (b"[INFO] listening", False),
        (b"12", False),
        (b'"text"', False),
        (b"", False),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_line_is_a_message_if_some_reader_takes_it_for_an_object_or_a_list(line: bytes, *, taken: bool) -> None:
    assert is_json(line) is taken

"""Messages are looked at as bytes, however a stream cuts and frames them."""

from itertools import product

import pytest

from exposure_policy.audit.frames import MAX_PARTS, EventData, fault

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
    assert fault(b"[" * 100_000) is None  # the parser says what is wrong with it
    assert fault(b"") is None
    assert fault(b"not JSON") is None

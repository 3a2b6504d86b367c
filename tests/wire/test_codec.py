"""Bytes to messages, whatever the bytes are and however they arrive."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_sidecar.tools.tool import Outcome
from memory_sidecar.wire import codec
from memory_sidecar.wire.codec import MAX_FRAME, Splitter, decode, encode
from memory_sidecar.wire.codes import INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR
from memory_sidecar.wire.messages import Invalid, Notification, Request, success, tool_result
from memory_sidecar.wire.outline import MAX_ID, Outline

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
envelopes = st.dictionaries(
    st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]),
    st.just("2.0") | st.just("ping") | json_values,
)


@given(st.lists(st.binary(max_size=12).map(lambda part: part.replace(b"\n", b"|")), max_size=8), st.data())
def test_frames_are_those_of_split_however_they_arrive(lines: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines) + b"rest"
    splitter = Splitter()
    found: list[bytes | Outline] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += splitter.feed(stream[:size])
        stream = stream[size:]
    assert found == [line.removeprefix(b"\xef\xbb\xbf") if not number else line for number, line in enumerate(lines)]


@given(st.lists(st.integers(0, 20), max_size=8), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_only_the_frames_that_are_too_long_are_lost(sizes: list[int], chunks: list[int]) -> None:
    stream = b"".join(b"x" * size + b"\n" for size in sizes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "MAX_FRAME", 10)
        splitter = Splitter()
        found: list[bytes | Outline] = []
        place = turn = 0
        while place < len(stream):
            step = chunks[turn % len(chunks)]
            found += splitter.feed(stream[place : place + step])
            place, turn = place + step, turn + 1
    assert [frame for frame in found if isinstance(frame, bytes)] == [b"x" * size for size in sizes if size <= 10]
    assert [isinstance(frame, Outline) for frame in found] == [size > 10 for size in sizes]


@given(
    st.binary(max_size=60)
    | json_values.map(lambda value: json.dumps(value).encode())
    | envelopes.map(lambda value: json.dumps(value).encode())
)
@example(b"[" * 100_000)
@example(b'{"id":' + b"1" * 5000 + b"}")
@example(b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}')
@example(b'{"jsonrpc":"2.0","id":1,"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}")
@example(b'{"jsonrpc":"2.0","id":1,"x":"' + b'\\"' * 100_000)
@example(b"\xef\xbb\xbf{}")
def test_decoding_never_raises(frame: bytes) -> None:
    message = decode(frame)
    assert message is None or isinstance(message, Request | Notification | Invalid)
    if isinstance(message, Invalid):
        # Whatever it was, it can be answered.
        encode({"id": message.id, "message": message.message})


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_a_number_that_json_cannot_say_back_is_refused(number: str) -> None:
    found = decode(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":%s}}' % number.encode())
    assert isinstance(found, Invalid)
    assert (found.id, found.code) == (1, PARSE_ERROR)


@pytest.mark.parametrize(
    ("frame", "known"),
    [
        ('{"id":1,"x":NaN}', 1),
        ('{"x":NaN,"id":"a\\"}"}', 'a"}'),
        ('{ "x" : [NaN, {"id": 2}] , "id" : -3 }', -3),
        ('{"x":{"id":2,"y":NaN}}', None),
        ('{"x":NaN,"y":"id","z":4}', None),
        ('{"x":NaN,"id":NaN}', None),
        ('{"x":NaN,"id":true}', None),
        ('{"x":NaN,"id":[1]}', None),
        ('{"x":NaN,"id":1', None),
        ('{"x":NaN,"id":1,"y":"}', None),
        ('{"x":NaN,"id":1}}', None),
        ('{"x":NaN,"id":1}{}', None),
        ('[{"x":NaN,"id":1}]', None),
        ('["id":1,"x":NaN]', None),
        ('{"id":1,"x":X}', 1),
        ('NaN {"id":1}', None),
        ('{"x":NaN,"id":"\\q"}', None),
    ],
)
def test_the_id_of_a_message_with_an_unreadable_value_is_that_at_its_top(frame: str, known: object) -> None:
    found = decode(frame.encode())
    assert isinstance(found, Invalid)
    assert (found.id, found.code) == (known, PARSE_ERROR)


def test_other_numbers_are_what_they_are() -> None:
    found = decode(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[1.5,-2e3,1e-999]}}')
    assert found == Request(1, "ping", {"x": [1.5, -2000.0, 0.0]})


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (b"", None),
        (b" \r", None),
        (b"\xff", Invalid(None, PARSE_ERROR, "the frame is not JSON in UTF-8, one message a line")),
        (b"{", Invalid(None, PARSE_ERROR, "the frame is not JSON in UTF-8, one message a line")),
        (
            b'{"id":1,"x":NaN}',
            Invalid(
                1,
                PARSE_ERROR,
                "the message holds what JSON has no word for (NaN, Infinity), too large a number, or lists and "
                "objects nested too deeply; send it without",
            ),
        ),
        (b"[]", Invalid(None, INVALID_REQUEST, "a message is one JSON object; batches are not supported")),
        (b'{"id":1}', Invalid(1, INVALID_REQUEST, 'a message says "jsonrpc": "2.0"')),
        (b'{"id":[],"jsonrpc":2.0}', Invalid(None, INVALID_REQUEST, 'a message says "jsonrpc": "2.0"')),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', None),
        (b'{"jsonrpc":"2.0","id":1,"error":{}}', None),
        (b'{"jsonrpc":"2.0","id":"a"}', Invalid("a", INVALID_REQUEST, "a message names its method")),
        (b'{"jsonrpc":"2.0","method":1,"result":0}', Invalid(None, INVALID_REQUEST, "a message names its method")),
        (b'{"jsonrpc":"2.0","method":"m"}', Notification("m", {})),
        (b'{"jsonrpc":"2.0","method":"m","params":{"a":1}}', Notification("m", {"a": 1})),
        (b'{"jsonrpc":"2.0","method":"m","params":[1]}', Notification("m", {})),
        (b'{"jsonrpc":"2.0","method":"m","result":0}', Notification("m", {})),
        (b'{"jsonrpc":"2.0","method":"m","error":0,"id":2}', Request(2, "m", {})),
        *(
            (
                b'{"jsonrpc":"2.0","id":%s,"method":"m"}' % number,
                Invalid(None, INVALID_REQUEST, "a request id is text or a whole number"),
            )
            for number in (b"null", b"true", b"1.5", b"{}")
        ),
        (b'{"jsonrpc":"2.0","id":"","method":"m"}', Request("", "m", {})),
        (b'{"jsonrpc":"2.0","id":0,"method":"m","params":{"a":1}}', Request(0, "m", {"a": 1})),
        (b'{"jsonrpc":"2.0","id":3,"method":"m","params":[]}', Invalid(3, INVALID_PARAMS, "params is an object")),
    ],
)
def test_what_a_frame_says(frame: bytes, message: object) -> None:
    found = decode(frame)
    assert found == message
    assert type(found) is type(message)


def test_nothing_is_sent_that_need_not_be() -> None:
    assert encode({"a": [1, "\u00e9"], "b": {}}) == b'{"a":[1,"\\u00e9"],"b":{}}\n'


@given(envelopes)
def test_a_request_has_a_legal_id_and_an_object_of_params(message: dict[str, Any]) -> None:
    found = decode(json.dumps(message).encode())
    if isinstance(found, Request):
        assert type(found.id) in (str, int)
        assert isinstance(found.params, dict)
        assert message["jsonrpc"] == "2.0"


CHARACTERS = st.characters(exclude_categories=["Cs"])


@given(st.dictionaries(st.text(CHARACTERS, max_size=5), st.text(CHARACTERS, max_size=5), max_size=3))
def test_a_frame_is_one_line_of_ascii(message: dict[str, str]) -> None:
    frame = encode(message)
    assert frame.isascii()
    assert frame.count(b"\n") == 1
    assert json.loads(frame) == message


def test_the_limit_is_one_mebibyte() -> None:
    assert MAX_FRAME == 1024 * 1024
    splitter = Splitter()
    assert list(splitter.feed(b"x" * MAX_FRAME + b"\n")) == [b"x" * MAX_FRAME]
    (frame,) = splitter.feed(b"x" * (MAX_FRAME + 1) + b"\n")
    assert isinstance(frame, Outline)


ORDERS = [
    b'{"id":%s,"jsonrpc":"2.0","method":"tools/call","params":{"id":9,"x":["%s"],"y":{}}}',
    b'{"jsonrpc":"2.0","method":"tools/call","params":{"x":"%s","id":9},"id":%s}',
    b'{"method":"m","params":{"x":"\\\\%s\\"id\\":3"} , "id" : %s , "jsonrpc":"2.0"}',
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("known", [7, -1, "a", 'x"\\', "\u043a\u043b\u044e\u0447", ""])
@pytest.mark.parametrize("step", [1, 7, 1 << 16])
def test_a_frame_that_is_too_long_is_answered_under_its_id_wherever_that_stands(
    order: bytes, known: str | int, step: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "MAX_FRAME", 64)
        token, text = json.dumps(known).encode(), b'{[\\"' * 100
        frame = order % ((token, text) if order is ORDERS[0] else (text, token))
        splitter = Splitter()
        found = [part for at in range(0, len(frame), step) for part in splitter.feed(frame[at : at + step])]
        found += splitter.feed(b"\n")
        (outline,) = found
        assert isinstance(outline, Outline)
        answer = decode(outline)
        assert isinstance(answer, Invalid)
        assert (answer.id, answer.code) == (known, INVALID_REQUEST)


@pytest.mark.parametrize(
    ("message", "answered"),
    [
        ({"method": "notifications/cancelled", "params": {"x": "x" * 100}}, False),
        ({"id": 1, "result": {"x": "x" * 100}}, False),
        ({"id": 1, "error": {"x": "x" * 100}}, False),
        ({"id": None, "method": "m", "x": "x" * 100}, True),
        ({"id": "y" * (MAX_ID + 1), "method": "m"}, True),
        ([{"id": 1, "method": "m", "x": "x" * 100}], True),
    ],
)
def test_a_long_frame_that_nobody_waits_for_is_left_and_one_without_a_usable_id_is_answered_without(
    message: object, answered: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "MAX_FRAME", 64)
        (frame,) = Splitter().feed(json.dumps(message).encode() + b"\n")
        found = decode(frame)
        assert (found is not None) == answered
        assert found is None or (isinstance(found, Invalid) and found.id is None)


def test_of_a_long_frame_little_is_kept() -> None:
    outline = Outline()
    for name in range(1000):
        outline.feed(b'%s"name%d":"%s"' % (b"," if name else b"{", name, b"x" * 10_000))
    assert sum(len(value) for value in vars(outline).values() if isinstance(value, bytes)) < 3 * MAX_ID
    assert outline._members == {}


@pytest.mark.parametrize("step", [1, 2, 3, 100])
def test_a_byte_order_mark_is_left_out_before_the_first_frame_alone(step: int) -> None:
    stream = b"\xef\xbb\xbf{}\n\xef\xbb\xbf{}\n"
    splitter = Splitter()
    found = [frame for at in range(0, len(stream), step) for frame in splitter.feed(stream[at : at + step])]
    assert found == [b"{}", b"\xef\xbb\xbf{}"]


@given(st.text(st.characters(), max_size=20), st.text(st.characters(), max_size=5))
@example("a\ud800b", "x")
@example("\udc80\\ud800\\\udfff", "\ud801")
@example("\ud83d\ude00\ud83d", "")
def test_every_answer_is_legal_unicode_and_says_the_same(text: str, name: str) -> None:
    """A path that is not UTF-8 comes as lone surrogates, which pydantic's and JavaScript's strict readers refuse."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    found = json.loads(encode({"jsonrpc": "2.0", "id": name, "result": {"text": text, "deep": [text]}}))
    assert found == {"jsonrpc": "2.0", "id": name, "result": {"text": whole, "deep": [whole]}}


@given(
    st.text(st.characters() | st.sampled_from('\\"/\x00\x7f\n}'), max_size=20) | st.text('ab\\"\n\x7f', max_size=20),
    st.integers() | st.text(max_size=5),
)
@example('"}],"structuredContent":{}', '"result":{}}')
@example("\\ud800", "")
@example("\\", "\ud800")
@example("\ud83d\ude00", "")
@example('é"—🐄\\', "é")
def test_a_tools_result_is_told_twice_and_says_the_same_both_times(text: str, request_id: str | int) -> None:
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    meta = {"run": text}
    frame = encode(success(request_id, tool_result(Outcome({"content": text, "list": [{"key": text}]}), meta)))
    assert frame.isascii()
    assert frame.count(b"\n") == 1
    result = json.loads(frame)
    assert result.keys() == {"jsonrpc", "id", "result"}
    assert result["id"] == request_id
    structured = {"content": whole, "list": [{"key": whole}]}
    told = result["result"]
    assert told.pop("content") == [
        {"type": "text", "text": json.dumps(structured, ensure_ascii=False, separators=(",", ":"))}
    ]
    assert told == {"structuredContent": structured, "isError": False, "_meta": {"run": whole}}

"""What the guards' rules cost on a text that somebody made to be costly, and that no text is clean for being too much.

Cost is counted, not timed: the lines of Python that a text sets in motion, and by how its patterns are built what they
do within one. Both stay in proportion to the text.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exposure_policy import ExposureRefused, Surface
from exposure_policy.guards import asgi, names, own_answers, own_signs
from exposure_policy.guards.own_answers import answer_signs, text_signs
from exposure_policy.guards.own_signs import name_signs, offer_signs
from exposure_policy.guards.wrap import Guard

LINES_A_BYTE = 30
LINES_AT_LEAST = 5000

PIECES = [
    '"found":',
    '"key":',
    '"description":',
    "'written': ",
    '"reason" ',
    '"memories":[{',
    '"memories":',
    "memory-index",
    "memory-sidecar/",
    "is private to its harness",
    "memory_read_",
    "memorylisters",
    '"',
    "'",
    "\\",
    '\\"',
    "{",
    "[",
    "[],",
    "1,",
    "<",
    "&lt;",
    "%25",
    "&amp;",
    " ",
    "\n",
    "\ufdfa",
    "9",
    ":",
]


def lines_of(work: Callable[[], Any]) -> int:
    """How many lines of the guards' own code run, those of a comprehension for each of its turns."""
    counted = 0

    def traced(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal counted
        if "exposure_policy" not in frame.f_code.co_filename:
            return None
        counted += event == "line"
        return traced

    before = sys.gettrace()
    sys.settrace(traced)
    try:
        work()
    finally:
        sys.settrace(before)
    return counted


def judged(text: str) -> None:
    list(text_signs(text))
    list(answer_signs({"content": [{"type": "text", "text": text}]}))
    name_signs(text)
    offer_signs({"name": text, "description": text})


@given(
    st.lists(st.sampled_from(PIECES), min_size=1, max_size=4), st.integers(1, 300), st.sampled_from(['{"found":', ""])
)
@settings(max_examples=60)
def test_a_text_costs_no_more_than_it_is_long(pieces: list[str], times: int, opening: str) -> None:
    text = (opening + "".join(pieces) * times)[:8000]
    assert lines_of(lambda: judged(text)) < LINES_AT_LEAST + LINES_A_BYTE * len(text.encode()), text[:100]


@given(st.lists(st.sampled_from(PIECES), max_size=6), st.integers(0, 9))
def test_json_in_json_costs_no_more_than_it_is_long(pieces: list[str], levels: int) -> None:
    text = "".join(pieces)
    for _ in range(levels):
        text = json.dumps({"found": text, "key": [text[:20]]})
    assert lines_of(lambda: judged(text)) < LINES_AT_LEAST + LINES_A_BYTE * len(text.encode()), text[:100]


def patterns() -> Iterator[Any]:
    for module in (own_answers, own_signs, names, asgi):
        for name, value in vars(module).items():
            for pattern in value.values() if isinstance(value, dict) else (value,):
                if isinstance(pattern, re.Pattern):
                    yield pytest.param(pattern, id=f"{module.__name__.rpartition('.')[2]}.{name}")


@pytest.mark.parametrize("pattern", list(patterns()))
def test_no_pattern_gives_back_or_starts_again_inside_of_a_run(pattern: re.Pattern[str]) -> None:
    """What repeats without limit keeps what it took, and takes no character with which the pattern may start.

    So a run is taken once, from the one place before it. Where a pattern starts with a run, it ends with it.
    """
    if pattern.pattern in BOUNDED:
        return
    items = re._parser.parse(pattern.pattern, pattern.flags)  # type: ignore[attr-defined]
    runs = list(_runs(items))
    assert all(kind == "POSSESSIVE_REPEAT" for kind, _ in runs), pattern.pattern
    if len(items) == 1 or pattern in own_answers._OPENS.values():  # a run alone; or tried at one place for each name
        return
    starts = [chr(c) for c in range(0x3000) if _may_start(items, chr(c))]
    for _, taken in runs:
        assert not any(_takes(item, c) for item in taken for c in starts), pattern.pattern


BOUNDED = {
    own_signs._SIDECAR.pattern,  # matched in full, from the start of a name
    names._WORD.pattern,  # a run alone, and only of names
    names.VERSION.pattern,
    names._DERIVED.pattern,
}


def _runs(items: Any) -> Iterator[tuple[str, Any]]:
    for kind, argument in items:
        if str(kind).endswith("REPEAT"):
            _, most, inner = argument
            if most > 8:
                yield str(kind), inner
            yield from _runs(inner)
        elif str(kind) == "SUBPATTERN":
            yield from _runs(argument[3])
        elif str(kind) == "BRANCH":
            for branch in argument[1]:
                yield from _runs(branch)


def _may_start(items: Any, character: str) -> bool:
    for kind, argument in items:
        if str(kind) in ("ASSERT", "ASSERT_NOT", "AT"):
            continue
        if str(kind) == "SUBPATTERN":
            return _may_start(argument[3], character)
        if str(kind) == "BRANCH":
            return any(_may_start(branch, character) for branch in argument[1])
        if str(kind).endswith("REPEAT"):
            least, _, inner = argument
            if _may_start(inner, character):
                return True
            if least:
                return False
            continue
        return _takes((kind, argument), character)
    return False


def _takes(item: Any, character: str) -> bool:
    kind, argument = str(item[0]), item[1]
    match kind:
        case "LITERAL":
            return chr(argument).lower() == character.lower()
        case "NOT_LITERAL":
            return chr(argument) != character
        case "RANGE":
            return argument[0] <= ord(character) <= argument[1]
        case "CATEGORY":
            name = str(argument).removeprefix("CATEGORY_")
            known = {"SPACE": character.isspace(), "WORD": character.isalnum() or character == "_"}
            return not known[name[4:]] if name.startswith("NOT_") else known[name]
        case "IN":
            negated = str(argument[0][0]) == "NEGATE"
            return negated != any(_takes(one, character) for one in argument[negated:])
    raise AssertionError(f"a pattern has {kind}, which this test does not know")


# --- too much is never clean -----------------------------------------------------------------------------

ANSWER = {"content": "the plan is secret", "description": "the plan", "key": "plan", "found": True}
"""Its names in an order in which only reading the whole text as JSON finds them."""


def in_json(levels: int) -> str:
    text = json.dumps(ANSWER)
    for _ in range(levels):
        text = json.dumps({"a": text})
    return text


TOO_MUCH = {
    "long": json.dumps({**ANSWER, "content": "x" * (1 << 20)}),
    "long beside it": json.dumps([ANSWER, "x" * (1 << 20)]),
    "deep": json.dumps(ANSWER)[:-1] + ',"x":' + "[" * 5000 + "]" * 5000 + "}",
    "JSON in JSON": in_json(12),
    "a number of many digits": json.dumps([ANSWER])[:-1] + "," + "9" * 100_000 + "]",
    "a number's power": json.dumps([ANSWER])[:-1] + ",1e999999]",
    "names that stand twice": '{"a":' + json.dumps(ANSWER) + ',"a":1}',
    "a list that stands twice": '{"memories":[{"description":"d","key":"k"}],"memories":[]}',
    "a name of an object": json.dumps({json.dumps(ANSWER): 1}),
    "many before it": json.dumps([{"found": 1, "key": 2}] * 20_000 + ["x" * 300, ANSWER]),
}


@pytest.mark.parametrize("text", TOO_MUCH)
def test_no_answer_is_clean_for_being_too_much(text: str) -> None:
    assert not list(own_answers._signs_in_order(TOO_MUCH[text].replace("\\", ""), set()))
    with pytest.raises(ExposureRefused):
        Guard(Surface.MCP, None).answer("helper", {"content": [{"text": TOO_MUCH[text]}]})


@pytest.mark.parametrize("levels", range(8))
def test_json_in_json_is_read(levels: int) -> None:
    assert [sign.tool for sign in text_signs(in_json(levels))] == ["memory_read"]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"description": "x" * (1 << 20), "items": ["a word that was found", {"key": 1}]}),
        "[" * 100_000 + '"found"',
        '{"found":' * 100_000,
        "No memories were found. " * 50_000,
        json.dumps([{"key": "found", "reason": "none", "n": 10**4000}] * 50),
    ],
    ids=["long", "brackets", "found", "prose", "digits"],
)
def test_what_has_not_the_names_of_an_answer_passes_however_long(text: str) -> None:
    assert not list(text_signs(text))


@pytest.mark.parametrize("piece", ['"found":"key":', '"found"' + "\\" * 500, "<"])
def test_a_mebibyte_is_judged(piece: str) -> None:
    """Nothing is asserted of time: the suite's limit for a test would end one that stalls."""
    text = piece * ((1 << 20) // len(piece))
    assert not list(answer_signs('{"found": ' + text))


def test_an_accepted_answer_hides_no_other_in_the_same_text() -> None:
    listed = json.dumps({"memories": [{"key": "a", "description": "b"}]})
    with pytest.raises(ExposureRefused) as caught:
        Guard(Surface.MCP, None).answer("helper", listed)
    found = re.findall(r"'([0-9a-f]{16})'", caught.value.rule)
    guard = Guard(Surface.MCP, {found[0]: "the names of days in a history lesson"})
    guard.answer("helper", listed)
    for read in ('{"found": true, "key": "k", "description": "d"}', "{'found': True, 'key': 'k', 'description': 'd'}"):
        with pytest.raises(ExposureRefused, match="it is memory_read"):
            guard.answer("helper", listed + read)


@pytest.mark.parametrize("length", [100, 161, 210, 4000])
def test_a_long_name_is_judged_as_a_whole(length: int) -> None:
    for name in ("x" * length + "_memory_read", "x " * (length // 2) + "memory read"):
        assert [sign.tool for sign in name_signs(name)] == ["memory_read"]
        with pytest.raises(ExposureRefused):
            Guard(Surface.MCP, None).offer("tool", {"name": name})

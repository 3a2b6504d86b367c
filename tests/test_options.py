"""What people write into a mapping of options, decoded strictly."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sidecar.options import OptionsError, age, decode_options


class Sample(NamedTuple):
    name: str
    place: str | None = None
    count: int = 3
    loud: bool = False
    more: Mapping[str, Any] | None = None


class Nothing(NamedTuple):
    pass


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1m", 60), ("45m", 2700), ("2h", 7200), ("1d", 86400), ("3w", 1814400), ("999999w", 604799395200)],
)
def test_an_age_in_seconds(text: str, seconds: float) -> None:
    assert age(text, "--older-than") == seconds


@pytest.mark.parametrize("text", ["", "d", "1", "1s", "1 d", "-1d", "1d\n", "1.5d", "1000000d", "\u0661d"])
def test_what_is_no_age_says_how_to_write_one(text: str) -> None:
    with pytest.raises(
        OptionsError, match=r"--older-than .* is not an age; write a number and m, h, d or w, as in 30d"
    ):
        age(text, "--older-than")
    with pytest.raises(OptionsError, match="as in 45m"):
        age(text, "--older-than", "45m")


def test_words_for_the_whole_configuration_and_for_a_block_that_takes_nothing() -> None:
    with pytest.raises(OptionsError, match=r"the configuration must be a mapping .* `harness: \{option: value\}`"):
        decode_options(Sample, 7, "")
    with pytest.raises(OptionsError, match=r"a.b.x is not an option; this block takes none"):
        decode_options(Nothing, {"x": 1}, "a.b")


def refusal(values: object) -> str:
    with pytest.raises(OptionsError) as refused:
        decode_options(Sample, values, "a.b")
    assert len(str(refused.value).splitlines()) == 1
    return str(refused.value)


def test_what_is_given_is_taken_and_the_rest_has_its_default() -> None:
    assert decode_options(Sample, {"name": "x", "loud": True}, "a.b") == Sample("x", None, 3, True, None)
    assert decode_options(Sample, {"name": "x", "place": None, "count": 0, "more": {"k": 1}}, "a.b") == Sample(
        "x", None, 0, False, {"k": 1}
    )


def test_no_block_is_an_empty_block() -> None:
    assert decode_options(Nothing, None, "a.b") == Nothing()
    assert refusal(None) == "a.b.name is missing; add it"
    assert refusal({}) == "a.b.name is missing; add it"


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("nam", "a.b.nam is not an option; did you mean name?"),
        ("Name", "a.b.Name is not an option; did you mean name?"),
        ("plaec", "a.b.plaec is not an option; did you mean place?"),
        ("zzz", "a.b.zzz is not an option; known are: name, place, count, loud, more"),
        (1, "a.b.1 is not an option; known are: name, place, count, loud, more"),
        (None, "a.b.None is not an option; known are: name, place, count, loud, more"),
        ("two\nlines", "a.b.'two\\nlines' is not an option; known are: name, place, count, loud, more"),
        ("\x1b[31m", "a.b.'\\x1b[31m' is not an option; known are: name, place, count, loud, more"),
    ],
)
def test_an_unknown_key_is_refused_with_what_was_meant(key: object, said: str) -> None:
    assert refusal({"name": "x", key: 1}) == said


def test_a_block_without_options_says_so() -> None:
    with pytest.raises(OptionsError, match=r"a\.b\.key is not an option; this block takes none"):
        decode_options(Nothing, {"key": 1}, "a.b")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"name": 1}, "a.b.name must be text; found 1; put it in quotes"),
        ({"name": 1.5}, "a.b.name must be text; found 1.5; put it in quotes"),
        ({"name": True}, "a.b.name must be text; found True; put it in quotes"),
        ({"name": None}, "a.b.name must be text; found None; write `name: text`"),
        ({"name": ["x"]}, "a.b.name must be text; found a list; write `name: text`"),
        ({"name": {"x": 1}}, "a.b.name must be text; found a mapping; write `name: text`"),
        ({"place": 1}, "a.b.place must be text; found 1; put it in quotes"),
        ({"count": True}, "a.b.count must be a whole number; found True; write `count: 1`"),
        ({"count": 1.0}, "a.b.count must be a whole number; found 1.0; write `count: 1`"),
        ({"count": "3"}, "a.b.count must be a whole number; found '3'; write `count: 1`"),
        ({"loud": "yes"}, "a.b.loud must be true or false; found 'yes'; write `loud: true` or `false`"),
        ({"loud": 1}, "a.b.loud must be true or false; found 1; write `loud: true` or `false`"),
        ({"loud": None}, "a.b.loud must be true or false; found None; write `loud: true` or `false`"),
        ({"more": "x"}, "a.b.more must be a mapping; found 'x'; write `more: {option: value}`, or leave it out"),
        ({"more": [1]}, "a.b.more must be a mapping; found a list; write `more: {option: value}`, or leave it out"),
        ({"name": 16**5000}, "a.b.name must be text; found a huge number; put it in quotes"),
        ({"name": "\ud800"}, "a.b.name holds half of a surrogate pair; write the character itself"),
    ],
)
def test_a_wrong_type_is_refused_by_name(values: Mapping[str, object], said: str) -> None:
    assert refusal({"name": "x", **values}) == said


@pytest.mark.parametrize("values", ["text", 1, ["name"], True])
def test_what_is_no_mapping_is_refused(values: object) -> None:
    assert refusal(values).startswith("a.b must be a mapping of options; found ")


def test_at_the_top_a_name_stands_alone() -> None:
    with pytest.raises(OptionsError, match=r"^nam is not an option"):
        decode_options(Sample, {"nam": "x"}, "")
    with pytest.raises(OptionsError, match=r"^name is missing"):
        decode_options(Sample, {}, "")


def test_a_long_value_is_cut() -> None:
    assert len(refusal({"name": "x", "count": "y" * 10_000})) < 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["name", "place", "count", "loud", "more", "other"]), JSON) | JSON)
def test_anything_is_decoded_or_refused_in_one_line(values: object) -> None:
    try:
        decoded = decode_options(Sample, values, "a.b")
    except OptionsError as refused:
        assert len(str(refused).splitlines()) == 1  # noqa: PT017 - both ways out are right
        return
    assert type(decoded.name) is str
    assert type(decoded.count) is int
    assert type(decoded.loud) is bool

"""What makes a key, a description and a content legal."""

import re
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memory_sidecar.store.document import parse, serialize
from memory_sidecar.store.errors import InvalidError, StoreFullError
from memory_sidecar.store.rules import (
    MAX_CONTENT_BYTES,
    MAX_DESCRIPTION,
    MAX_ENTRIES,
    MAX_ENTRY_BYTES,
    MAX_KEY,
    MAX_READ_BYTES,
    are_keys,
    check_capacity,
    is_key,
    normalize_description,
    one_line,
    validate_key,
    validate_write,
)
from memory_sidecar.testing.texts import ILLEGAL_KEYS

KEY_CHARACTERS = set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._=-")


def test_what_is_stored_stays_readable_and_buckets_stay_right_whatever_becomes_of_the_write_limit() -> None:
    # Operators have made buckets with this cap, and other releases have stored documents up to this size.
    assert (MAX_ENTRY_BYTES, MAX_READ_BYTES) == (69600, 69600)
    assert MAX_CONTENT_BYTES + 2 * 4 * MAX_DESCRIPTION + 64 <= MAX_ENTRY_BYTES <= MAX_READ_BYTES
    assert parse(serialize("d", "x" * 65536)).content == "x" * 65536


def test_exactly_the_published_characters_are_legal_in_a_key() -> None:
    legal = {chr(point) for point in range(sys.maxunicode + 1) if is_key(f"a{chr(point)}a")}
    assert legal == KEY_CHARACTERS


@pytest.mark.parametrize("key", ILLEGAL_KEYS)
def test_illegal_keys(key: str) -> None:
    assert not is_key(key)
    with pytest.raises(InvalidError):
        validate_key(key)


@given(st.text(alphabet="aZ0._=-/\n", max_size=8))
def test_a_key_is_legal_when_the_rule_says_so(key: str) -> None:
    legal = re.fullmatch(r"[A-Za-z0-9._=-]+", key) is not None and key[0] != "." and key[-1] != "." and ".." not in key
    assert is_key(key) is legal


@given(
    st.lists(
        st.one_of(
            st.text(alphabet="aZ0._=-", min_size=1, max_size=8),
            st.sampled_from([*ILLEGAL_KEYS, "a\n", "\na", "a\nb", "k" * 200, "k" * 201]),
        ),
        max_size=4,
    )
)
@example(ILLEGAL_KEYS)
@example([])
def test_one_look_at_many_keys_says_whether_each_is_legal(keys: list[str]) -> None:
    assert are_keys(keys) is all(map(is_key, keys))


@pytest.mark.parametrize("key", [*ILLEGAL_KEYS, "a..b", "a\n", "\na", "a\nb", "k" * 201], ids=repr)
def test_one_illegal_key_among_many_is_noticed(key: str) -> None:
    assert not are_keys(["plan", key, "a.b"])
    assert not are_keys([key])
    assert not is_key(key)


def test_the_longest_key_is_one_of_many() -> None:
    assert are_keys(["plan", "k" * 200, "a.b"])
    assert MAX_KEY == 200  # as the key rule says it, and every release


@given(st.from_regex(r"[A-Za-z0-9_=-]{1,200}", fullmatch=True))
def test_a_legal_key_is_one_file_name_that_every_file_system_takes(key: str) -> None:
    validate_key(key)
    assert "/" not in key
    assert len(f"{key}.md".encode()) <= 255


def test_the_refusal_of_a_key_says_what_to_use_and_does_not_repeat_it() -> None:
    with pytest.raises(InvalidError) as refused:
        validate_key("<evil>\n")
    assert "evil" not in str(refused.value)
    assert "letters, digits and . _ = -" in str(refused.value)


@given(st.text(alphabet=st.characters(codec="utf-8"), max_size=600))
def test_a_normalised_description_is_one_plain_line_and_stays_as_it_is(description: str) -> None:
    try:
        line = normalize_description(description)
    except InvalidError:
        return
    assert line
    assert line.splitlines() == [line]
    assert line == " ".join(line.split())
    assert len(line) <= MAX_DESCRIPTION
    assert normalize_description(line) == line


def test_what_breaks_a_line_or_is_no_text_becomes_a_space() -> None:
    gone = {chr(plane * 0x10000 + low) for plane in range(17) for low in (0xFFFE, 0xFFFF)}
    gone |= {chr(point) for point in (*range(0xFDD0, 0xFDF0), *range(32), *range(127, 160))}
    for start in range(0, sys.maxunicode + 1, 4096):  # many at once, and each between letters
        each = [chr(point) for point in range(start, start + 4096)]
        left = one_line("za".join(["", *each, ""])).removeprefix("za").removesuffix("za").split("za")
        assert len(left) == len(each)
        wrong = [one for one, now in zip(each, left, strict=True) if now != " " and (now != one or one in gone)]
        assert not wrong


@pytest.mark.parametrize("half", ["\ud800", "a\udc80b"])
def test_half_a_surrogate_pair_is_refused_anywhere(half: str) -> None:
    with pytest.raises(InvalidError):
        validate_write("key", half, "text")
    with pytest.raises(InvalidError):
        validate_write("key", "words", half)
    with pytest.raises(InvalidError):
        validate_write(half, "words", "text")


@pytest.mark.parametrize("description", ["\ue000", "\U0010fffd\uf8ff", "\u0601", "\u06dd", "\u08e2"])
def test_what_a_person_can_see_is_not_empty(description: str) -> None:
    assert normalize_description(f" {description} ") == description


def test_capacity() -> None:
    check_capacity(0)
    check_capacity(MAX_ENTRIES - 1)
    for entries, free in ((1024, "Overwrite or delete"), (1025, "Overwrite"), (3000, "Overwrite")):
        with pytest.raises(StoreFullError) as told:
            check_capacity(entries)
        # Never a number of notes to delete: most of them may be a person's own.
        assert f". {free} one that you wrote and that is no longer needed, or" in str(told.value)
        assert str(told.value).endswith("; its operator must make room for more.")


# Every legal entry fits


@given(
    st.text(alphabet=st.characters(codec="utf-8"), min_size=1, max_size=MAX_DESCRIPTION),
    st.integers(1, MAX_DESCRIPTION),
)
@example("\ufeff", MAX_DESCRIPTION)
@example("'", MAX_DESCRIPTION)
@example("\U0010fffd", MAX_DESCRIPTION)
def test_every_legal_entry_fits_into_the_largest(part: str, times: int) -> None:
    try:
        description = validate_write("key", (part * times)[:MAX_DESCRIPTION], "")
    except InvalidError:
        return
    assert len(serialize(description, "x" * MAX_CONTENT_BYTES)) <= MAX_ENTRY_BYTES


@pytest.mark.parametrize("trigger", ["\ufeff", "'", '"', ": ", "\u00ad", "\u200b", "\ue000", "\ufffc", "\\", "#", "-"])
@pytest.mark.parametrize("filler", ["\ufeff", "\U0010fffd", "🐄", "'", '"', "\\", "\ufffd", "x"])
def test_the_worst_company_fits(trigger: str, filler: str) -> None:
    """One character can make YAML quote and escape all the others."""
    for raw in (trigger + filler * 600, "x" + trigger + filler * 600, filler * 600 + trigger):
        for cut in (raw[:MAX_DESCRIPTION], raw[-MAX_DESCRIPTION:]):
            try:
                description = validate_write("key", cut, "")
            except InvalidError:
                continue
            assert len(serialize(description, "x" * MAX_CONTENT_BYTES)) <= MAX_ENTRY_BYTES


def test_no_character_makes_yaml_escape_its_neighbours() -> None:
    """In the double-quoted style every character beyond U+FFFF takes ten bytes; so nothing legal may bring it on."""
    for start in range(0, sys.maxunicode + 1, 4096):
        block = one_line("x".join(chr(point) for point in range(start, start + 4096)))
        assert not serialize(block, "").startswith(b'---\ndescription: "'), f"from U+{start:04X}"

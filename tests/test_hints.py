"""The words of type hints that a launch has in place of `typing`: whatever a hint looks like, it is evaluated."""

import typing
from collections.abc import Callable, Mapping, Sequence

import pytest

from memory_sidecar import hints
from memory_sidecar.hints import Annotated, Any, Final, Literal, TypeVar, words
from memory_sidecar.named_tuple import NamedTuple
from memory_sidecar.options import hints_of, kinds_of

T = TypeVar("T")


def test_every_word_is_one_of_typing() -> None:
    assert [name for name in hints.__all__ if name != "words" and not hasattr(typing, name)] == []


@pytest.mark.parametrize(
    "evaluate",
    [
        lambda: Any | None,
        lambda: Mapping[str, Any] | None,
        lambda: Final[tuple[str, ...]],
        lambda: Literal["a", "b"] | None,
        lambda: str | Literal["a"] | Literal["b"],
        lambda: Callable[[T], Sequence[T | None]] | None,
        lambda: None | T,
        lambda: Annotated[str | None, {"minLength": 1}],
    ],
)
def test_hints_are_evaluated(evaluate: Callable[[], object]) -> None:
    evaluate()


def test_the_words_of_a_literal() -> None:
    assert words(Literal["a", "b"]) == ("a", "b")


class Ours(NamedTuple):
    name: Annotated[str | None, {"minLength": 1}] = None
    more: Mapping[str, Any] | None = None


class Theirs(typing.NamedTuple):
    name: typing.Annotated[str | None, {"minLength": 1}] = None
    more: Mapping[str, typing.Any] | None = None


class Written(typing.NamedTuple):
    name: "typing.Annotated[str | None, {'minLength': 1}]" = None
    more: "Mapping[str, typing.Any] | None" = None


@pytest.mark.parametrize("into", [Ours, Theirs, Written])
def test_options_are_known_however_their_annotations_are_written(into: type[NamedTuple]) -> None:
    name, more = (kinds_of(hint) for hint in hints_of(into).values())
    assert (name[0], list(name[1])) == ([str, type(None)], [{"minLength": 1}])
    assert more == ([Mapping, type(None)], ())

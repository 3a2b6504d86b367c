"""What goccy/go-yaml, which the Go implementation uses, made of every code point and of what looks like no text.

The file that is read here was made by `make yaml-readers`, which holds five libraries against the codec.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.yaml_readers import corpus
from tests.yaml_readers.__main__ import ours, read_back
from tests.yaml_readers.cases import PLACES

from memory_sidecar.store.rules import one_line

CORPUS = corpus.load()


def every(first: int, last: int, step: int) -> Iterator[int]:
    """The ends of a range and what lies between, in steps."""
    yield from sorted({first, last, *range(first, last + 1, step)})


@pytest.fixture(scope="module", params=[997, pytest.param(1, marks=pytest.mark.long)])
def step(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


def rows(place: str, step: int) -> Iterator[tuple[int, Any, Any]]:
    for first, last, mine, theirs in CORPUS["points"][place]:
        for point in every(first, last, step):
            yield point, mine, theirs


@pytest.mark.parametrize("place", PLACES)
def test_every_code_point_that_go_writes_reads_as_the_same_text(place: str, step: int) -> None:
    for point, _, theirs in rows(place, step):
        header = corpus.expanded(theirs, point)
        assert header is not None
        assert read_back(header) == one_line(PLACES[place].format(chr(point))), f"U+{point:04X}"


@pytest.mark.parametrize("place", PLACES)
def test_every_code_point_is_written_as_go_was_seen_to_read_it(place: str, step: int) -> None:
    assert CORPUS["differs"] == []
    for point, mine, _ in rows(place, step):
        header = ours(PLACES[place].format(chr(point)))
        # A control between two letters is a space in what is written, with no trace of which one it was.
        assert header == corpus.expanded(mine, point), f"U+{point:04X}"


def test_what_looks_like_no_text_is_the_same_text_both_ways() -> None:
    for text, mine, theirs in CORPUS["looks"]:
        assert ours(text) == mine
        assert read_back(theirs) == one_line(text), text


def test_the_corpus_holds_every_code_point() -> None:
    for place in PLACES:
        points = CORPUS["points"][place]
        assert sum(last - first + 1 for first, last, *_ in points) == 0x110000 - 0x800
    assert len(CORPUS["looks"]) > 5000

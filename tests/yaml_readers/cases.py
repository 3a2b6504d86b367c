"""What is tried: every code point in two places, and texts that look like something else than text."""

import itertools
import random
import sys
from collections.abc import Iterator
from typing import Final

__all__ = ["PLACES", "looks", "points"]

PLACES: Final = {"alone": "{}", "between": "a{}b"}
"""Where a code point stands in the description that is tried."""

_ALPHABET: Final = "+-.0179_eEoxXbnNyYaAfFtTzZ:~#,!&*?|>'\"%@`[]{}<=/\\ \t"
_WORDS: Final = r"""
y n yes no on off true false null nil none nan inf Y N Yes NO On OFF True FALSE Null NULL NaN Inf .inf -.inf
+.INF .nan .NaN ~ - -- --- ... .. . ? ?? : :: # ! & * % @ ` | > << = == , [] {} () <> '' "" 0 00 -0 +0 0. .0
-.5 +.5 1. 1.0 1e3 1E3 1e+3 1.e7 1e 7.e3 e1 0o7 0o644 0O7 0x1F 0X1f 0b1 0B1 +1 ++1 +-1 --1 -+1 +_1 ._5 _1
1_000 1__0 1,000 01 09 08:00 1:2 1:20:30 12:30:45.5 190:20:30 2024-01-01 2024-1-1 2024-01-01T00:00:00Z
2024-01-01 00:00:00 1984 !!int 1 !!str x &a *a 0.1e1_0 685.230_15e+03 0b1010_0111
""".split()  # noqa: SIM905 - a list would fill a screen


def points() -> Iterator[int]:
    """Every code point that is a character of its own."""
    yield from range(0xD800)
    yield from range(0xE000, sys.maxunicode + 1)


def looks() -> list[str]:
    """Descriptions that a reader might not take for text: all short ones, and words, alone and in company."""
    found = dict.fromkeys(_WORDS)
    for length in (1, 2):
        found.update(dict.fromkeys(map("".join, itertools.product(_ALPHABET, repeat=length))))
    chance = random.Random("looks")
    for _ in range(40_000):
        found["".join(chance.choices(_ALPHABET, k=chance.randint(3, 7)))] = None
    for word, other in itertools.product(
        _WORDS, ("{} x", "x {}", "{}:", "{}: x", "{} #x", "-{}", "'{}'", '"{}"', "\t{}")
    ):
        found[other.format(word)] = None
    # As every writer of descriptions brings them: single spaces, nothing around them.
    return list(dict.fromkeys(" ".join(text.split()) for text in found))

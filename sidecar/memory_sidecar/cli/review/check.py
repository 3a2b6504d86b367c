"""One line of what `doctor` finds."""

from collections.abc import Iterator
from typing import NamedTuple

from ...remedy import RemedyError

__all__ = ["Check", "Checks", "wrong"]


class Check(NamedTuple):
    """`state` is ok, note or wrong."""

    check: str
    state: str
    found: str
    mend: str = ""


Checks = Iterator[Check]


def wrong(check: str, error: RemedyError) -> Check:
    """What a refusal says, in its two parts."""
    return Check(check, "wrong", error.problem, error.remedy)

"""The answers that a file system may give to any call, and which of them the ordinary run plays."""

import errno
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pytest

__all__ = ["ANSWERS", "FULL", "HELD_RUN", "cases", "rule"]

ANSWERS: Final = (
    *("EACCES", "EINVAL", "ENOSYS", "EOPNOTSUPP", "ENOLCK", "ENAMETOOLONG", "EMLINK", "ESTALE"),
    *("EIO", "EROFS", "EPERM", "ENOSPC", "EDQUOT", "EINTR"),
)
FULL: Final = ("ENOSPC", "EDQUOT")
HELD_RUN: Final = "held"
"""A run that is suspended in every prepared place, and has authority over `old` and `gone`."""

_USUAL: Final = ("EIO", "ENOSPC")
"""What the ordinary run plays, beside an answer for which something else comes; `make faults` plays all."""


def cases(table: Mapping[str, tuple[Any, Mapping[str, Any]]]) -> Iterator[Any]:
    """Each call of a table with each answer. An answer that others share their outcome with is a long test's."""
    for call, (_, others) in table.items():
        seen = []
        for name in ANSWERS:
            is_new = name in others and others[name] not in seen
            seen += [others[name]] if is_new else []
            often = name in _USUAL or is_new
            yield pytest.param(call, name, marks=() if often else pytest.mark.long, id=f"{name}-{call}")


def rule(name: str) -> str:
    """The shim's rule for an answer. An interruption comes once: the caller is to try again."""
    code = getattr(errno, name)
    return f"{code}@1+1" if name == "EINTR" else str(code)

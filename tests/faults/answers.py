"""The answers that a file system may give to any call, and which of them the ordinary run plays."""

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.shim import spoiled
from tests.support.sidecar import Sidecar, result

from memory_sidecar.exits import EX_CONFIG

__all__ = ["FULL", "HELD_RUN", "NO_START", "cases", "started"]

ANSWERS: Final = (
    *("EACCES", "EINVAL", "ENOSYS", "EOPNOTSUPP", "ENOLCK", "ENAMETOOLONG", "EMLINK", "ESTALE"),
    *("EIO", "EROFS", "EPERM", "ENOSPC", "EDQUOT", "EINTR"),
)
FULL: Final = ("ENOSPC", "EDQUOT")
HELD_RUN: Final = "held"
"""A run that is suspended in every prepared place, and has authority over `old` and `gone`."""
NO_START: Final = "no start"

_USUAL: Final = ("EIO", "ENOSPC")
"""What the ordinary run plays, beside an answer for which something else comes; `make faults` plays all."""


def cases(table: Mapping[str, tuple[Any, Mapping[str, Any]]]) -> Iterator[Any]:
    """Each call of a table, each answer, and its row. One that others share their outcome with is a long test's."""
    for call, (usual, others) in table.items():
        seen = []
        for name in ANSWERS:
            is_new = name in others and others[name] not in seen
            seen += [others[name]] if is_new else []
            often = name in _USUAL or is_new
            row = others.get(name, usual)
            yield pytest.param(call, name, row, marks=() if often else pytest.mark.long, id=f"{name}-{call}")


@contextmanager
def started(
    base: Path, below: str, call: str, name: str, row: tuple[str, ...], refusal: str
) -> Iterator[Sidecar | None]:
    """A sidecar over `base` that meets this answer at each such call below that directory of it.

    None where the row says `no start`, and it did refuse to, with these words. An interruption comes once: the caller
    is to try again.
    """
    code = getattr(errno, name)
    rule = f"{code}@1+1" if name == "EINTR" else str(code)
    with Sidecar(base, env=spoiled(base / below, {call: rule})) as sidecar:
        hello = sidecar.hello()
        sidecar.send(hello)
        answer = sidecar.answer(hello)
        if row[0] == NO_START and "error" in answer:
            assert refusal in answer["error"]["message"]
            assert sidecar.wait() == EX_CONFIG
            yield None
        else:
            result(answer)
            yield sidecar

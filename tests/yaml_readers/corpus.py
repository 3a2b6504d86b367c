"""What goccy/go-yaml made of every case, as a file that the tests read without a Go tool chain.

`points`: by place, ranges of code points with what stands behind `description: ` in our header and in theirs, U+0000
for the code point itself. `looks`: description, our header, their header. Of each of our headers the library read the
same description, but for those in `differs`.
"""

import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["FILE", "PREFIX", "expanded", "joined", "load", "ranges", "save"]

FILE: Final = Path(__file__).with_name("goccy.json.gz")
PREFIX: Final = "description: "


def ranges(points: Iterable[tuple[int, Sequence[str | None]]]) -> list[list[Any]]:
    """Neighbours with like headers as one: `[first, last, template, ...]`."""
    found: list[list[Any]] = []
    for point, headers in points:
        templates = [
            None if header is None else header.removeprefix(PREFIX).replace(chr(point), "\0") for header in headers
        ]
        if found and found[-1][1] == point - 1 and found[-1][2:] == templates:
            found[-1][1] = point
        else:
            found.append([point, point, *templates])
    return found


def joined(rows: Iterable[list[Any]]) -> list[list[Any]]:
    """`ranges` of pieces, as if they were made at once."""
    found: list[list[Any]] = []
    for row in rows:
        if found and found[-1][1] == row[0] - 1 and found[-1][2:] == row[2:]:
            found[-1][1] = row[1]
        else:
            found.append(row)
    return found


def expanded(template: str | None, point: int) -> str | None:
    """The header of `point` that `ranges` made the template of."""
    return None if template is None else PREFIX + template.replace("\0", chr(point))


def save(value: dict[str, Any]) -> None:
    FILE.write_bytes(gzip.compress(json.dumps(value).encode(), mtime=0))


def load() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(gzip.decompress(FILE.read_bytes()))
    return found

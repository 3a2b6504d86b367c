"""The tables of docs/performance.md, written from the samples: python -m bench.quoted

Every figure there stands beside the same one of a second measurement, and beside its target with how often that was
reached. So nobody copies figures: `make bench RESULTS=again` takes the second, this writes both.
"""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from .contestants import HERE
from .report import (
    ALL_TARGETS,
    BASE,
    BROKER,
    CONCURRENCY,
    FLOOR,
    NEAR_CAPACITY,
    OURS,
    TARGET_CASE,
    Spread,
    gained,
    near_capacity,
    ratio,
    spread,
)

__all__ = ["RESULTS", "measurements", "quote", "tables"]

DOCUMENT: Final = os.path.join(HERE, "..", "docs", "performance.md")
RESULTS: Final = tuple(os.path.join(HERE, "results", f"{name}.json") for name in ("full", "again"))
"""The samples of the measurement, and of a second one where it was made."""

_OPERATIONS: Final = {
    "ready": "launch to ready",
    "rss": "resident memory",
    "create": "create",
    "read": "read",
    "list": "list",
}
_RACES: Final = ("pipelined", "two processes", "one note")

Results = Mapping[str, Any]


def quote(text: str, taken: Sequence[Results]) -> str:
    """The document with each table, between its name in a comment and the next end, as these measurements have it."""
    for name, lines in tables(taken).items():
        pattern = rf"(?s)(<!-- {name} -->\n).*?(?=<!-- end -->)"
        text, found = re.subn(pattern, lambda match, lines=lines: match[1] + "\n".join([*lines, ""]), text)
        if found != 1:
            raise LookupError(f"{DOCUMENT} has no place for the table {name!r}")
    return text


def tables(taken: Sequence[Results]) -> dict[str, list[str]]:
    """By name, the lines of each table."""
    return {
        "beside": _beside(taken),
        "targets": _targets(taken),
        "growth": _growth(taken),
        "survivors": _survivors(taken[0]),
    }


def _beside(taken: Sequence[Results]) -> list[str]:
    lines = _heading("", *_columns("files", taken), "target", *_columns("JetStream", taken), "target")
    limits = {who: wanted for who, base, kind, wanted in ALL_TARGETS if (base, kind) == (BASE, TARGET_CASE)}
    for operation, label in _OPERATIONS.items():
        cells = []
        for who in (OURS, BROKER):
            found = [ratio(_case(one, TARGET_CASE), who, operation) for one in taken]
            cells += [*map(_quoted, found), _verdict(found, limits[who].get(operation), most=True)]
        lines.append(_row(label, *cells))
    return lines


def _targets(taken: Sequence[Results]) -> list[str]:
    """Those that are no ratio to the reference with all notes stored."""
    lines = _heading("", *_columns("measured", taken), "target")

    def add(label: str, found: Sequence[Spread | None], limit: float, *, most: bool = True) -> None:
        lines.append(_row(label, *map(_quoted, found), _verdict(found, limit, most=most)))

    for operation, limit in NEAR_CAPACITY.items():
        found = [near_capacity(one, operation) for one in taken]
        add(f"{operation} at {TARGET_CASE[0]} notes, times {operation} with none", found, limit)
    for operation, limit in CONCURRENCY.items():
        of_runs = [gained(one)[operation] for one in taken]
        label = f"{operation}s a second of {of_runs[0][1]} runs, times those of one"
        add(label, [one for one, _ in of_runs], limit, most=False)
    floor = {
        "ready": "ready, times a bare interpreter that echoes lines",
        "create": "create, times its write, flush and rename",
        "read": "read, times its echo",
    }
    for who, base, kind, wanted in ALL_TARGETS:
        if (base, kind) == (BASE, TARGET_CASE):
            continue
        for operation, limit in wanted.items():
            nothing = f"JetStream with nothing stored: {operation}, times server-memory's"
            found = [ratio(_case(one, kind), who, operation, base) for one in taken]
            add(floor[operation] if base == FLOOR else nothing, found, limit)
    return lines


def _growth(taken: Sequence[Results]) -> list[str]:
    counts = list(next(iter(taken[0]["growth"].values())))[1:]
    lines = _heading("", *(title for count in counts for title in _columns(f"{int(count):,}", taken)))
    for kind in taken[0]["growth"]:
        for operation in ("ready", "open", "read", "create", "suspend"):
            cells = [_quoted(_grown(one["growth"][kind], operation, count)) for count in counts for one in taken]
            lines.append(_row(f"{operation}, times with no {kind}", *cells))
    return lines


def _grown(by_count: Mapping[str, Any], operation: str, count: str) -> Spread:
    first = spread(next(iter(by_count.values()))[operation]).middle
    return spread([one / first for one in by_count[count][operation]])


def _survivors(results: Results) -> list[str]:
    lines = _heading("", "pipelined into one process", "two processes, notes of their own", "two processes, one note")
    for who, found in results["races"].items():
        lines.append(_row(results["labels"][who], *(str(found[race][1]) if race in found else "-" for race in _RACES)))
    return lines


def _case(results: Results, kind: tuple[int, int]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = next(one for one in results["cases"] if (one["entries"], one["size"]) == kind)
    return found


def _columns(title: str, taken: Sequence[Results]) -> list[str]:
    return [title, *("again" for _ in taken[1:])]


def _heading(*titles: str) -> list[str]:
    return [_row(*titles), _row(*("---" for _ in titles)).replace(" ", "")]


def _row(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


def _quoted(found: Spread | None) -> str:
    if found is None:
        return "-"
    digits = 3 if found.middle < 0.6 else 2
    return f"{found.middle:.{digits}f} [{found.low:.{digits}f} to {found.high:.{digits}f}]"


def _verdict(found: Sequence[Spread | None], limit: float | None, *, most: bool) -> str:
    if limit is None:
        return ""
    reached = [one is not None and (one.middle <= limit if most else one.middle >= limit) for one in found]
    said = "reached" if all(reached) else "reached once" if any(reached) else "**missed**"
    return f"{'at most' if most else 'at least'} {limit:g}: {said}"


def measurements() -> list[Results]:
    """The samples that there are."""
    taken = []
    for path in filter(os.path.exists, RESULTS):
        with open(path, encoding="utf-8") as file:
            taken.append(json.load(file))
    return taken


def main() -> int:
    taken = measurements()
    with open(DOCUMENT, encoding="utf-8") as file:
        text = quote(file.read(), taken)
    with open(DOCUMENT, "w", encoding="utf-8") as file:
        file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

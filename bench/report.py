"""From the samples to what people read: medians, spread and ratios as a table, and as a picture.

A round is the unit. A contestant's number for a round is the median of its calls in it; a ratio is taken within a
round; what is shown is the median over the rounds, and the quartiles.
"""

from collections.abc import Mapping, Sequence
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

__all__ = ["TARGETS", "Spread", "ratio", "spread", "table"]

BASE: Final = "server-memory"
"""The reference of all ratios: what people use."""

OURS: Final = "sidecar"

TARGETS: Final = {"ready": 0.35, "rss": 0.4, "create": 0.2, "read": 0.15, "list": 0.4}
"""At most, of the reference, with 1024 entries of 2 KiB."""
TARGET_CASE: Final = (1024, 2048)

SHOWN: Final = ("ready", "rss", "index", "list", "read", "create", "overwrite", "delete")


class Spread(NamedTuple):
    low: float
    middle: float
    high: float


def spread(values: Sequence[float]) -> Spread:
    """The quartiles."""
    if len(values) < 2:
        return Spread(values[0], values[0], values[0])
    low, middle, high = quantiles(values, n=4, method="inclusive")
    return Spread(low, middle, high)


def by_round(case: Mapping[str, Any], who: str, operation: str) -> list[float]:
    """The contestant's medians, one a round."""
    return [
        median(this[who][operation]) for this in case["rounds"] if this.get(who) is not None and operation in this[who]
    ]


def ratio(case: Mapping[str, Any], who: str, operation: str, base: str = BASE) -> Spread | None:
    """How `who` compares to `base`, round by round; None where one of them has no number."""
    found = [
        median(this[who][operation]) / median(this[base][operation])
        for this in case["rounds"]
        if all(name in this and operation in this[name] for name in (who, base))
    ]
    return spread(found) if found else None


def table(results: Mapping[str, Any]) -> str:
    """Everything, for a terminal."""
    lines = []
    for case in results["cases"]:
        lines += ["", f"{case['name']}: median [quartiles], and times {BASE}", *_case(results, case)]
    if results["interpreter"]:
        low, middle, high = (1000 * value for value in spread(results["interpreter"]))
        lines += ["", f"A bare interpreter starts and ends in {middle:.1f} ms [{low:.1f} to {high:.1f}]."]
    lines += _targets(results) + _prompts(results) + _throughput(results) + _races(results)
    lines += ["", "Read with it:"]
    lines += [f"  {results['labels'][who]}: {remark}" for who, remark in results["remarks"].items() if remark]
    return "\n".join(lines)


def _case(results: Mapping[str, Any], case: Mapping[str, Any]) -> list[str]:
    names = [name for name in results["labels"] if any(name in this for this in case["rounds"])]
    rows = [["", *(_heading(operation) for operation in SHOWN)]]
    for who in names:
        row, below = [results["labels"][who]], [""]
        for operation in SHOWN:
            values = by_round(case, who, operation)
            if not values:
                row.append("-")
                below.append("")
                continue
            scale = 1 / 1024 if operation == "rss" else 1000
            low, middle, high = (value * scale for value in spread(values))
            row.append(f"{_number(middle)} [{_number(low)}-{_number(high)}]")
            found = ratio(case, who, operation) if who != BASE else None
            below.append(f"x {found.middle:.3f} [{found.low:.3f}-{found.high:.3f}]" if found else "")
        rows += [row, below]
    return _columns([row for row in rows if any(row)])


def _heading(operation: str) -> str:
    return f"{operation} {'MiB' if operation == 'rss' else 'ms'}"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _targets(results: Mapping[str, Any]) -> list[str]:
    lines = []
    for case in results["cases"]:
        if (case["entries"], case["size"]) != TARGET_CASE:
            continue
        for operation, target in TARGETS.items():
            found = ratio(case, OURS, operation)
            if found is not None:
                word = "reached" if found.middle <= target else "MISSED"
                shown = f"{found.middle:.3f} [{found.low:.3f}-{found.high:.3f}]"
                lines.append(f"  {operation:8} at most {target:4}  is {shown}  {word}")
    return (
        ["", f"Targets, as times {BASE}, {results['labels'].get(OURS)}, 1024 entries of 2 KiB:", *lines]
        if lines
        else []
    )


def _prompts(results: Mapping[str, Any]) -> list[str]:
    rows = [["", "tools", "shown to a model", "whole definitions"]]
    rows += [
        [results["labels"][who], str(found["tools"]), f"{found['shown']} bytes", f"{found['all']} bytes"]
        for who, found in results["prompts"].items()
    ]
    return ["", "Tool definitions:", *_columns(rows)] if len(rows) > 1 else []


def _throughput(results: Mapping[str, Any]) -> list[str]:
    rates = results["throughput"]
    lanes = sorted({int(width) for found in rates.values() for by_lanes in found.values() for width in by_lanes})
    rows = [["", *(f"{operation}, {width}" for operation in ("read", "create") for width in lanes)]]
    for who, found in rates.items():
        row = [results["labels"][who]]
        for operation in ("read", "create"):
            for width in lanes:
                by_lanes = {int(key): value for key, value in found[operation].items()}
                low, middle, high = spread(by_lanes[width])
                row.append(f"{middle:.0f} [{low:.0f}-{high:.0f}]")
        rows.append(row)
    return ["", "Calls a second by concurrent runs, 100 entries of 2 KiB:", *_columns(rows)] if lanes else []


def _races(results: Mapping[str, Any]) -> list[str]:
    races = list(dict.fromkeys(race for found in results["races"].values() for race in found))
    if not races:
        return []
    rows = [["", *races]]
    for who, found in results["races"].items():
        cells = [f"{found[race][1]} of {found[race][0]}" if race in found else "-" for race in races]
        rows.append([results["labels"][who], *cells])
    return [
        "",
        "Acknowledged writes that survived (calls pipelined into one process; two processes, notes of their own;",
        "two processes that add lines to one note):",
        *_columns(rows),
    ]


def picture(results: Mapping[str, Any]) -> str:
    from .picture import draw

    return draw(results)

"""From the samples to what people read: medians, spread and ratios as a table, and as a picture.

A round is the unit. A contestant's number for a round is the median of its calls in it; a ratio is taken within a
round; what is shown is the median over the rounds, and the quartiles.
"""

from collections.abc import Mapping, Sequence
from statistics import median, quantiles
from typing import Any, Final, NamedTuple

from .commands import shown

__all__ = ["TARGETS", "Spread", "gained", "near_capacity", "ratio", "spread", "table"]

BASE: Final = "server-memory"
"""The reference of all ratios: what people use."""

OURS: Final = "sidecar"

BROKER: Final = "sidecar-jetstream"

FLOOR: Final = "floor"
"""Interpreter, pipe and disk: below it no program in Python comes."""

TARGETS: Final = {"ready": 0.2, "rss": 0.13, "create": 0.07, "read": 0.03, "list": 0.12}
"""On files, at most, of the reference, with 1024 entries of 2 KiB."""

TARGET_CASE: Final = (1024, 2048)
EMPTY_CASE: Final = (0, 2048)

ALL_TARGETS: Final = (
    (OURS, BASE, TARGET_CASE, TARGETS),
    (BROKER, BASE, TARGET_CASE, {"ready": 0.4, "rss": 0.2}),
    (BROKER, BASE, EMPTY_CASE, {"create": 1.2, "list": 1.2}),
    (OURS, FLOOR, TARGET_CASE, {"ready": 3.5, "create": 1.6, "read": 3.0}),
)
"""Of whom, as times whom, with how many entries of which size, which operation at most."""

NEAR_CAPACITY: Final = {"create": 1.3}
"""On files, with 1024 entries, at most so many times what it takes with none."""

CONCURRENCY: Final = {"create": 1.5, "read": 1.0}
"""Calls a second on files, of the most runs at once: at least so many times those of one run."""

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
    lines += (
        _targets(results)
        + _prompts(results)
        + _throughput(results)
        + _growth(results)
        + _commands(results)
        + _races(results)
    )
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
    cases = {(case["entries"], case["size"]): case for case in results["cases"]}
    lines = []
    for who, base, kind, targets in ALL_TARGETS:
        case = cases.get(kind)
        found = {operation: ratio(case, who, operation, base) if case else None for operation in targets}
        if any(found.values()):
            lines += ["", f"Targets, as times {base}, {results['labels'].get(who)}, {_entries(kind)}:"]
        for operation, target in targets.items():
            taken = found[operation]
            if taken is not None:
                lines.append(f"  {operation:8} at most {target:4}  {_judged(taken, taken.middle <= target)}")
    return lines + _near_capacity(results, cases)


def _near_capacity(results: Mapping[str, Any], cases: Mapping[tuple[int, int], Mapping[str, Any]]) -> list[str]:
    lines = []
    for operation, target in NEAR_CAPACITY.items() if {TARGET_CASE, EMPTY_CASE} <= cases.keys() else ():
        if (taken := near_capacity(results, operation)) is not None:
            lines.append(f"  {operation:8} at most {target:4}  {_judged(taken, taken.middle <= target)}")
    who = results["labels"].get(OURS)
    return ["", f"Targets, as times the same with none, {who}, {_entries(TARGET_CASE)}:", *lines] if lines else []


def near_capacity(results: Mapping[str, Any], operation: str) -> Spread | None:
    """What an operation of ours on files takes with all entries stored, as times the same with none."""
    cases = {(case["entries"], case["size"]): case for case in results["cases"]}
    many, none = (by_round(cases[kind], OURS, operation) for kind in (TARGET_CASE, EMPTY_CASE))
    return spread([one / other for one, other in zip(many, none, strict=False)]) if many and none else None


def _entries(case: tuple[int, int]) -> str:
    return f"{case[0]} entries of {case[1] // 1024} KiB" if case[0] else "no entries"


def _judged(found: Spread, reached: bool) -> str:
    return f"is {found.middle:.3f} [{found.low:.3f}-{found.high:.3f}]  {'reached' if reached else 'MISSED'}"


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
    if not lanes:
        return []
    lines = ["", "Calls a second by concurrent runs, 100 entries of 2 KiB:", *_columns(rows)]
    for operation, (times, width) in gained(results).items():
        target = CONCURRENCY[operation]
        shown = _judged(times, times.middle >= target)
        lines.append(f"  {operation:8} of {width} runs, times those of one: at least {target:3}  {shown}")
    return lines


def gained(results: Mapping[str, Any]) -> dict[str, tuple[Spread, int]]:
    """By operation, the calls a second of the most runs at once, as times those of one; and how many runs."""
    found = {}
    for operation in CONCURRENCY if OURS in results["throughput"] else ():
        by_lanes = {int(key): value for key, value in results["throughput"][OURS][operation].items()}
        one, most = by_lanes[min(by_lanes)], by_lanes[max(by_lanes)]
        found[operation] = spread([many / alone for many, alone in zip(most, one, strict=True)]), max(by_lanes)
    return found


def _growth(results: Mapping[str, Any]) -> list[str]:
    lines = []
    for kind, by_count in results.get("growth", {}).items():
        operations = list(dict.fromkeys(operation for taken in by_count.values() for operation in taken))
        rows = [[kind, *(f"{operation} ms" for operation in operations)]]
        for count, taken in by_count.items():
            shown = [[_number(1000 * value) for value in spread(taken[operation])] for operation in operations]
            rows.append([str(count), *(f"{middle} [{low}-{high}]" for low, middle, high in shown)])
        lines += ["", f"Cost by the number of {kind} in the state directory, {results['labels'].get(OURS)}:"]
        lines += _columns(rows)
    return lines


def _commands(results: Mapping[str, Any]) -> list[str]:
    found = results.get("commands") or {}
    return ["", "An operator's commands, by the number of journals or notes:", *shown(found)] if found else []


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

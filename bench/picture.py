"""The picture of the results: ratios by operation, and how cost grows. SVG written by hand.

Left, each mark is a contestant's median ratio to the reference with its quartiles, on a logarithmic scale, so that half
and twice are equally far from the line at 1. Right, medians in milliseconds against the number of notes of 2 KiB.
Below, calls a second against the runs at once, and what ours costs as its state directory grows.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .report import BASE, TARGET_CASE, TARGETS, by_round, ratio, spread

__all__ = ["draw"]

_COLOURS: Final = {
    "sidecar": "#0b6e4f",
    "sidecar-jetstream": "#55b48c",
    "server-memory": "#c0392b",
    "mcp-sdk": "#d68910",
    "pydantic-file": "#7d3c98",
    "pydantic-sqlite": "#b58bc9",
    "langgraph": "#2e6da4",
    "floor": "#8a8f94",
}
_ROWS: Final = {
    "ready": "launch to ready",
    "rss": "resident memory",
    "list": "list",
    "read": "read",
    "create": "create",
    "overwrite": "overwrite",
    "delete": "delete",
}
_GROWTH: Final = ("list", "read", "create", "ready")
_STATE_ROWS: Final = {
    "ready": "#0b6e4f",
    "open": "#d68910",
    "read": "#2e6da4",
    "create": "#c0392b",
    "suspend": "#7d3c98",
}
"""What is drawn as the state directory grows, and in which colour."""
_WIDTH, _HEIGHT = 1080, 800
_LOWER: Final = 548
"""Where the lower half begins."""
_FONT: Final = 'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif" font-size="12" fill="#24292f"'
_LOW, _HIGH = 0.004, 6.0


def draw(results: Mapping[str, Any]) -> str:
    """The SVG document."""
    names = [name for name in _COLOURS if any(name in this for case in results["cases"] for this in case["rounds"])]
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" {_FONT}>',
        "<title>What memory-sidecar costs beside other memories, and how cost grows with notes and runs</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" rx="8" fill="#ffffff"/>',
        *_legend(names, results["labels"]),
        *_ratios(names, results),
    ]
    parts.append(_text(590, 84, "Milliseconds by number of notes stored, 2 KiB each", weight="600", size=13))
    for at, operation in enumerate(_GROWTH):
        left, top = 590 + (at % 2) * 245, 108 + (at // 2) * 208
        parts += _growth(operation, names, results, left, top)
    parts += [*_concurrency(names, results), *_state(results), "</svg>", ""]
    return "\n".join(parts)


def _legend(names: Sequence[str], labels: Mapping[str, str]) -> list[str]:
    parts = []
    for at, name in enumerate(names):
        x, y = 24 + (at % 4) * 262, 24 + (at // 4) * 20
        parts += [_dot(x, y - 4, _COLOURS[name]), _text(x + 12, y, labels[name], weight=_weight(name))]
    return parts


def _ratios(names: Sequence[str], results: Mapping[str, Any]) -> list[str]:
    left, right, top, step = 140, 540, 116, 52
    bottom = top + step * len(_ROWS) - 18
    span = math.log(_HIGH / _LOW)

    def across(value: float) -> float:
        return left + (right - left) * math.log(min(max(value, _LOW), _HIGH) / _LOW) / span

    parts = [_text(24, 84, "Times server-memory, 1024 notes of 2 KiB; left is better", weight="600", size=13)]
    for value in (0.01, 0.03, 0.1, 0.3, 1, 3):
        x = across(value)
        line = "#c0392b" if value == 1 else "#e3e6e8"
        parts += [_line(x, top - 12, x, bottom, line), _text(x, bottom + 16, f"{value:g}", anchor="middle", grey=True)]
    for case in results["cases"]:
        if (case["entries"], case["size"]) == TARGET_CASE:
            for at, operation in enumerate(_ROWS):
                parts += _row(case, operation, names, top + at * step, across)
    parts.append(
        _text(
            24, bottom + 36, "Bars: quartiles over rounds. Open triangle: the target. On files, ours flushes", grey=True
        )
    )
    parts.append(
        _text(24, bottom + 52, "each write to disk; server-memory does not. Libraries pay no pipe.", grey=True)
    )
    return parts


def _row(
    case: Mapping[str, Any], operation: str, names: Sequence[str], y: float, across: Callable[[float], float]
) -> list[str]:
    parts = [_text(24, y + 16, _ROWS[operation], weight="600"), _line(24, y + 39, 540, y + 39, "#e3e6e8")]
    shown = [(name, found) for name in names if name != BASE and (found := ratio(case, name, operation)) is not None]
    for at, (name, found) in enumerate(shown):
        height = y - 4 + at * 34 / max(len(shown) - 1, 1)
        parts.append(_line(across(found.low), height, across(found.high), height, _COLOURS[name], 2))
        parts.append(_dot(across(found.middle), height, _COLOURS[name]))
    if operation in TARGETS:
        x = across(TARGETS[operation])
        parts.append(f'<path d="M{x:.1f} {y - 6:.1f}l-4 -6h8z" fill="none" stroke="#24292f"/>')
    return parts


def _growth(operation: str, names: Sequence[str], results: Mapping[str, Any], left: float, top: float) -> list[str]:
    cases = sorted(
        (case for case in results["cases"] if case["size"] == TARGET_CASE[1]), key=lambda case: case["entries"]
    )
    curves = {
        name: [
            (at, spread(found).middle * 1000)
            for at, case in enumerate(cases)
            if (found := by_round(case, name, operation))
        ]
        for name in names
    }
    return _panel(f"{_ROWS[operation]}, ms", curves, [str(case["entries"]) for case in cases], left, top)


def _concurrency(names: Sequence[str], results: Mapping[str, Any]) -> list[str]:
    rates = results["throughput"]
    if not rates:
        return []
    parts = [_text(24, _LOWER, "Calls a second by runs at once, 100 notes of 2 KiB", weight="600", size=13)]
    for column, operation in enumerate(("read", "create")):
        by_name = {name: rates[name][operation] for name in names if name in rates}
        widths = sorted({int(width) for by_width in by_name.values() for width in by_width})
        curves = {
            name: [(widths.index(int(width)), spread(taken).middle) for width, taken in by_width.items()]
            for name, by_width in by_name.items()
        }
        parts += _panel(f"{operation}s a second", curves, list(map(str, widths)), 24 + column * 250, _LOWER + 24)
    return parts


def _state(results: Mapping[str, Any]) -> list[str]:
    if not results.get("growth"):
        return []
    parts = [_text(590, _LOWER, "Ours on files as a state directory grows, times with none", weight="600", size=13)]
    for at, (operation, colour) in enumerate(_STATE_ROWS.items()):
        x = 590 + at * 98
        parts += [_dot(x + 4, _LOWER + 222, colour), _text(x + 14, _LOWER + 226, operation)]
    for column, (kind, by_count) in enumerate(results["growth"].items()):
        counts = sorted(by_count, key=int)
        first = by_count[counts[0]]
        curves = {
            operation: [
                (at, spread(by_count[count][operation]).middle / spread(first[operation]).middle)
                for at, count in enumerate(counts)
            ]
            for operation in _STATE_ROWS
        }
        shown = [f"{int(count):,}" for count in counts]
        parts += _panel(kind, curves, shown, 590 + column * 245, _LOWER + 24, _STATE_ROWS, powers=(-1, 1))
    return parts


def _panel(
    title: str,
    curves: Mapping[str, Sequence[tuple[int, float]]],
    below: Sequence[str],
    left: float,
    top: float,
    colours: Mapping[str, str] = _COLOURS,
    *,
    powers: tuple[int, int] | None = None,
) -> list[str]:
    """Curves over the places that `below` names, on a logarithmic scale of whole powers of ten.

    `powers` are its ends where panels side by side are to have one scale.
    """
    values = [value for points in curves.values() for _, value in points]
    if not values:
        return []
    low, high = powers or (math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))))
    width, height = 175, 150

    def place(at: int, value: float) -> tuple[float, float]:
        x = left + 36 + width * at / max(len(below) - 1, 1)
        return x, top + 20 + height * (high - math.log10(value)) / max(high - low, 1)

    parts = [_text(left + 36, top + 4, title, weight="600")]
    for power in range(low, high + 1):
        _, y = place(0, 10.0**power)
        parts += [_line(left + 36, y, left + 36 + width, y, "#e3e6e8")]
        parts.append(_text(left + 30, y + 4, f"{10.0**power:g}", anchor="end", grey=True))
    for at, label in enumerate(below):
        x, _ = place(at, 1)
        parts.append(_text(x, top + 20 + height + 16, label, anchor="middle", grey=True))
    for name, points in curves.items():
        placed = [place(*point) for point in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        stroke = 2.5 if name.startswith("sidecar") else 1.5
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colours[name]}" stroke-width="{stroke}"/>')
        parts += [_dot(x, y, colours[name], 3) for x, y in placed]
    return parts


def _dot(x: float, y: float, colour: str, radius: float = 4.5) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"/>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    return f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" stroke="{colour}" stroke-width="{width}"/>'


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", weight: str = "400", size: int = 12, grey: bool = False
) -> str:
    fill = ' fill="#57606a"' if grey else ""
    escaped = text.replace("&", "&amp;").replace("<", "&lt;")
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}" font-size="{size}"{fill}>'
        f"{escaped}</text>"
    )


def _weight(name: str) -> str:
    return "600" if name.startswith("sidecar") else "400"

"""How a command's answer looks: JSON for programs, aligned text for pipes, and on a terminal a table by rich.

Rich is optional and imported only for a terminal. Every cell is made harmless here, so that no command can forget it.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, Final

from ...plain import visible
from ...run.kinds import counted, moment

__all__ = [
    "add_json",
    "counted",
    "moment",
    "on_terminal",
    "print_json",
    "print_json_list",
    "print_table",
    "progress",
    "shown_revision",
]

_STYLES: Final = {
    "ok": "green",
    "open": "green",
    "completed": "green",
    "created": "green",
    "note": "yellow",
    "suspended": "yellow",
    "interrupted": "yellow",
    "wrong": "bold red",
    "damaged": "bold red",
    "empty": "bold red",
    "newer": "yellow",
    "blocked": "bold red",
    "foreign": "bold red",
    "misplaced": "bold red",
    "unreadable": "bold red",
    "aside": "bold red",
    "unknown": "yellow",
    "refused": "red",
    "collided": "red",
}
"""Words that stand out when they fill a cell of their own column."""

_MEASURED: Final = 1000
"""Rows that are held to measure the columns of a table."""
_LEAST: Final = 20
"""Characters that the last column of a table is given, where its text needs them, before it is folded."""


def add_json(parser: Any, what: str = "one JSON object") -> None:
    parser.add_argument("--json", action="store_true", help=f"print {what} instead, exact and for programs")


def on_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def print_json(value: Mapping[str, Any]) -> None:
    """Exact, and in ASCII: an escaped control character drives no terminal."""
    print(json.dumps(value, indent=2))


def shown_revision(revision: str | None) -> str:
    """A revision, short if it is a digest; `runs --saw KEY@REV` takes it so."""
    if revision is None:
        return ""
    return revision[:12] if len(revision) == 32 and "@" not in revision else revision


def print_json_list(name: str, values: Iterable[Mapping[str, Any]]) -> None:
    """One JSON object with one list, an element a line, written as the elements come."""
    print(f'{{"{name}": [', end="")
    for number, value in enumerate(values):
        print(",\n" if number else "\n", json.dumps(value), sep="", end="")
    print("\n]}")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, styled: int | None = None) -> None:
    """Rows under their headings. `styled` is the column whose words are coloured on a terminal.

    Of many rows the first ones tell how wide the columns are; the others are written as they come.
    """
    safe = map(_safe, rows)
    first = list(islice(safe, _MEASURED))
    if not first:
        return
    if len(first) < _MEASURED and on_terminal() and _print_rich(columns, first, styled):
        return
    widths = [max(map(len, column)) for column in zip(columns, *first, strict=True)]
    line = "  ".join(f"%-{width}s" for width in widths)
    for row in chain((columns,), first, safe):
        print((line % tuple(row)).rstrip())


def _safe(row: Sequence[str]) -> Sequence[str]:
    """The row as a terminal may have it. Most need nothing, and a listing has very many of them."""
    text = "".join(row)
    return row if text.isascii() and text.isprintable() else [visible(cell, lines=False) for cell in row]


def _print_rich(columns: Sequence[str], rows: Sequence[Sequence[str]], styled: int | None) -> bool:
    try:
        from rich.box import SIMPLE_HEAD
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    console = Console(highlight=False, markup=False, emoji=False)
    widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
    if sum(widths[:-1]) + 2 * len(widths[:-1]) + min(widths[-1], _LEAST) > console.width:
        return False  # a name that is folded cannot be copied; the terminal wraps whole lines
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, overflow="fold", no_wrap=number < len(columns) - 1)
    for row in rows:
        # Text, never markup: a note that says [red] is not obeyed.
        table.add_row(*(Text(cell, _STYLES.get(cell, "") if at == styled else "") for at, cell in enumerate(row)))
    console.print(table)
    return True


class _Silent:
    def advance(self) -> None:
        """Nothing is shown where nobody watches."""


@contextmanager
def progress(what: str, total: int) -> Iterator[Any]:
    """A progress bar on stderr, if that is a terminal and rich is there. The value has `advance()`."""
    try:
        if sys.stderr is None or not sys.stderr.isatty():
            raise ImportError
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        yield _Silent()
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)

        class Bar:
            def advance(self) -> None:
                bar.advance(task)

        yield Bar()

"""List the notes of a memory: their keys and descriptions, sorted by key.

--sort size puts the largest first, --sort age the oldest; both show it. The age of a note is the time since it was last
written. Hidden characters in a description are written out, so that nothing reaches the terminal that it would obey.

Exit statuses: 0 done; 64 wrong usage; 78 the configuration or the memory cannot be used.
"""

import argparse
from collections.abc import Callable, Iterable

from ...exits import EX_USAGE
from ...store.contract import Item
from ...store.errors import UnreadableError
from ..shared.failure import Failure
from ..shared.memory import Memory, opened
from ..shared.places import PLACES, add_options, places
from ..shared.report import add_json, moment, on_terminal, print_json, print_table

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, PLACES)
    parser.add_argument(
        "--sort",
        choices=("key", "age", "size"),
        default="key",
        help="by key (default), the oldest or the largest first",
    )
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    with opened(places(vars(arguments))) as memory:
        items = memory.list()
        measured = _measured(memory, items, arguments.sort) if arguments.sort != "key" else None
    if measured is not None:
        name = {"age": "written", "size": "bytes"}[arguments.sort]
        rows = [(item, value) for item, value in measured if value is not None]
        rows.sort(key=lambda row: row[1], reverse=arguments.sort == "size")
        if arguments.json:
            print_json({"memories": [{**item._asdict(), name: value} for item, value in rows]})
        elif not rows:
            _say_empty()
        else:
            shown = ((moment(str(value)) if name == "written" else str(value), *item) for item, value in rows)
            print_table(("WRITTEN (UTC)" if name == "written" else "BYTES", "KEY", "DESCRIPTION"), shown)
        return 0
    if arguments.json:
        print_json({"memories": [item._asdict() for item in items]})
    elif items:
        print_table(("KEY", "DESCRIPTION"), items)
    else:
        _say_empty()
    return 0


def _say_empty() -> None:
    if on_terminal():
        print("This memory is empty.")


def _measured(memory: Memory, items: Iterable[Item], what: str) -> list[tuple[Item, str | int | None]]:
    """Each note with its size in bytes or the moment of its last write; None of one that was deleted meanwhile.

    Raises:
        Failure: this backend tells no times.
    """
    if what == "size":
        return [(item, _size(memory, item.key)) for item in items]
    written = getattr(memory.store.backend, "written", None)
    if written is None:
        raise Failure("this memory does not tell when a note was written", "use --sort size", status=EX_USAGE)
    return [(item, written(item.key)) for item in items]


def _size(memory: Memory, key: str) -> int | None:
    told: Callable[[str], int | None] | None = getattr(memory.store.backend, "size", None)
    if told is not None:
        return told(key)
    try:
        stored = memory.ask(lambda: memory.store.backend.get(key))
    except UnreadableError:
        return 0  # nothing of it can be read
    return None if stored is None else len(stored.document)

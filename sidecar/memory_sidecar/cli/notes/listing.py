"""List the notes of a memory: their keys and descriptions, sorted by key.

Hidden characters in a description are written out, so that nothing reaches the terminal that it would obey.

Exit statuses: 0 done; 64 wrong usage; 78 the configuration or the memory cannot be used.
"""

import argparse

from ..shared.memory import opened
from ..shared.places import PLACES, add_options, places
from ..shared.report import add_json, on_terminal, print_json, print_table

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    add_options(parser, PLACES)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    with opened(places(vars(arguments))) as memory:
        items = memory.list()
    if arguments.json:
        print_json({"memories": [item._asdict() for item in items]})
    elif items:
        print_table(("KEY", "DESCRIPTION"), items)
    elif on_terminal():
        print("This memory is empty.")
    return 0

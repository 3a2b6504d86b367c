"""The options that say which memory is meant, shared by all commands that need one. As data: `serve` reads its own
without loading a parser."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ..assemble import Arguments

if TYPE_CHECKING:
    import argparse

__all__ = ["PLACES", "add_options", "places"]

PLACES: Final = {
    "config": ("FILE", "YAML with identity, nats_context and harness.memory"),
    "identity": ("NAME", "the agent's name; memories are kept under it (overrides the configuration)"),
    "store-dir": ("DIR", "store base: relative memory directories and journals resolve under it"),
    "journal-dir": (
        "DIR",
        "where runs are journaled; default: runs under --store-dir, else the user's state directory",
    ),
}
"""Name, placeholder and help of each."""


def add_options(parser: argparse.ArgumentParser, options: Mapping[str, tuple[str, str]]) -> None:
    """Add options that each take one text."""
    for name, (placeholder, text) in options.items():
        parser.add_argument(f"--{name}", metavar=placeholder, help=text)


def places(values: Mapping[str, str | None]) -> Arguments:
    """The values of parsed options, by option name with underscores. An empty text counts as not given."""
    return Arguments(**{name: values.get(name) or None for name in Arguments._fields})

"""The options that say which memory is meant, shared by all commands that need one. As data: `serve` reads its own
without loading a parser."""

from __future__ import annotations

from collections.abc import Mapping

from ...assemble import Arguments
from ...exits import StartError
from ...hints import TYPE_CHECKING, Any, Final
from ...remedy import RemedyError
from ...system.files import at_home

if TYPE_CHECKING:
    import argparse

__all__ = ["PLACES", "add_options", "add_places", "place", "places"]

_PATHS: Final = ("config", "store_dir", "journal_dir")

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


def add_places(parser: argparse.ArgumentParser, several: str = "") -> None:
    """Add the options that say which memory is meant. The one that is called `several` may be repeated."""
    add_options(parser, {name: row for name, row in PLACES.items() if name != several})
    if several:
        placeholder, text = PLACES[several]
        parser.add_argument(f"--{several}", metavar=placeholder, action="append", help=f"{text}; may be repeated")


def add_options(parser: argparse.ArgumentParser, options: Mapping[str, tuple[str, str]]) -> None:
    """Add options that each take one text."""
    for name, (placeholder, text) in options.items():
        parser.add_argument(f"--{name}", metavar=placeholder, help=text)


def places(values: Mapping[str, str | None]) -> Arguments:
    """The values of parsed options, by option name with underscores; of paths, with `~` as the home directory.

    Raises:
        StartError: one is empty (a variable that is not set, most likely), or a path that means nothing.
    """
    given: dict[str, Any] = {name: _value(name, values.get(name)) for name in Arguments._fields if name in values}
    return Arguments(**given)


def _value(name: str, value: str | None) -> str | None:
    if name == "default_identity":  # a harness's guess, not an operator's word
        return value or None
    if name in _PATHS or not value:
        return place(f"--{name.replace('_', '-')}", value)
    return value


def place(option: str, value: str | None) -> str | None:
    """The path that `option` was given; None if it was not.

    Raises:
        StartError: it is empty, or starts with another user's `~name`.
    """
    if value == "":
        raise StartError(f"{option} is empty, which names nothing", "give it a value, or leave it out")
    try:
        return None if value is None else at_home(value)
    except RemedyError as error:
        raise StartError(f"{option} {error.problem}", error.remedy) from error

"""Commands that a message tells a person to run: whole, so that what is pasted means the same place, and quoted."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Final

from ...plain import visible

__all__ = ["PROGRAM", "command", "quoted"]

PROGRAM: Final = ["memory-sidecar"]
"""The words that start this program. One that brings a store of its own puts its own here (`own_store`)."""

_PLACES: Final = ("config", "identity", "store_dir", "journal_dir")


def command(given: Mapping[str, str | Sequence[str] | None], *words: str) -> str:
    """The command line `PROGRAM WORDS`, with those options in `given` that say which place is meant.

    `given` are the values of parsed options by name with underscores; others than those of places are left out.
    """
    line = [*PROGRAM, *words]
    for name in _PLACES:
        value = given.get(name)
        for one in [value] if isinstance(value, str) else value or ():
            option = f"--{name.replace('_', '-')}"
            line += [f"{option}={one}"] if one.startswith("-") else [option, one]
    return " ".join(map(quoted, line))


def quoted(word: str) -> str:
    """`word` as one word of a shell's command line, which can be shown as it is.

    What a terminal would obey, or not show, is written out, in the form that bash, zsh and ksh read back.
    """
    if visible(word, lines=False) == word:
        return shlex.quote(word)
    shown = (
        char if " " <= char <= "~" and char not in "\\'" else "".join(f"\\x{byte:02x}" for byte in _bytes(char))
        for char in word
    )
    return "$'" + "".join(shown) + "'"


def _bytes(char: str) -> bytes:
    return char.encode("utf-8", "surrogateescape")

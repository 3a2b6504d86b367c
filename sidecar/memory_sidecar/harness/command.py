"""The command line of a launch: `serve` with the options that were given, and a name for this application."""

import os
import sys
from collections.abc import Sequence

__all__ = ["StrPath", "command_line"]

StrPath = str | os.PathLike[str]


def command_line(command: Sequence[StrPath] | None, **options: StrPath | None) -> list[str]:
    """The words that start the sidecar. An option is named as on the command line, with `_` for `-`.

    The sidecar of this Python by default. `-P` keeps what lies in the working directory from being imported by it.
    """
    words = [os.fspath(word) for word in command or (sys.executable, "-P", "-m", "memory_sidecar", "serve")]
    for name, value in options.items():
        if value is not None:
            option, text = f"--{name.replace('_', '-')}", os.fspath(value)
            # A value that looks like an option needs the longer form; the sidecar reads the other one faster.
            words += [f"{option}={text}"] if text.startswith("-") else [option, text]
    return [*words, "--default-identity", _application_name()]


def _application_name() -> str:
    """The base name of the program that runs this library, as a legal identity."""
    name = os.path.splitext(os.path.basename(sys.argv[0] if sys.argv else ""))[0]
    if name in ("", "-", "-c", "-m", "__main__"):
        name = os.path.basename(os.path.dirname(os.path.abspath(sys.argv[0]))) if name == "__main__" else "python"
    return "".join(char if (char.isascii() and char.isalnum()) or char in "_=-" else "-" for char in name)

"""What may go wrong in an operator's command, and how it ends: one or two lines that say what to do, no traceback."""

import os
import sys
from collections.abc import Callable
from typing import Final

from ..plain import visible

__all__ = ["EX_CONFIG", "EX_FOUND", "EX_USAGE", "Failure", "complain", "guarded"]

EX_FOUND: Final = 1
"""The command ran, and something is wrong or was left out; the output names it."""

# sysexits.h
EX_USAGE: Final = 64
EX_CONFIG: Final = 78

# What shells report for a program ended by these signals.
_INTERRUPTED: Final = 130
_PIPE_CLOSED: Final = 141


class Failure(Exception):  # noqa: N818 - it ends a command; it is not an error in it
    """The command cannot go on. The text says in one or two lines what is wrong and what to do."""

    def __init__(self, text: str, status: int = EX_FOUND) -> None:
        super().__init__(text)
        self.status = status


def complain(text: str) -> None:
    """Tell the operator, on stderr, beside whatever the command prints."""
    if sys.stderr is not None:
        print(visible(text), file=sys.stderr)


def guarded(name: str, command: Callable[[], int]) -> int:
    """Run `command`, whose messages start with `name`, and return the exit status, whatever happens."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            # A terminal that cannot show a character must not end the command.
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    try:
        try:
            status = command()
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # also after --help, so that a closed pipe is met here
    except BrokenPipeError:
        # The reader has what it wanted (`| head`). Python would flush once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC), 1)
        return _PIPE_CLOSED
    except KeyboardInterrupt:
        complain(f"\n{name}: stopped")
        return _INTERRUPTED
    except Exception as error:  # the last resort: a person is told in words
        if sys.flags.dev_mode:
            raise
        text, status = _explained(error)
        complain(f"{name}: {text}")
    return status


def _explained(error: Exception) -> tuple[str, int]:
    from ..backend.opened import BackendError
    from ..store.errors import StoreError
    from ..wire.serve import StartError

    match error:
        case Failure():
            return str(error), error.status
        case StartError() | BackendError():
            return str(error), EX_CONFIG
        case StoreError() if error.remedy:
            return error.remedy, EX_FOUND
        case StoreError():
            return f"{error}\nmemory-sidecar doctor, with the same options, looks for the cause", EX_FOUND
        case OSError():
            place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
            return f"{place}{error.strerror or error}; mend that and run it again", EX_FOUND
    return (
        f"this should not happen: {type(error).__name__}: {error!s:.200}\n"
        "please report it, with the output of the same command under PYTHONDEVMODE=1"
    ), EX_FOUND

"""What may go wrong in an operator's command, and how it ends: one or two lines that say what to do, no traceback."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Final, TextIO

from ...exits import EX_CONFIG, EX_FOUND
from ...plain import visible
from ...remedy import RemedyError
from .output import OutputError, whole

if TYPE_CHECKING:
    from ...store.errors import StoreError

__all__ = [
    "Failure",
    "Stopped",
    "complain",
    "guarded",
    "in_steps",
    "stopped_status",
    "told",
]

# What shells report for a program ended by a signal is 128 and its number.
_PIPE_CLOSED: Final = 128 + signal.SIGPIPE
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Failure(RemedyError):  # noqa: N818 - it ends a command; it is not an error in it
    """The command cannot go on, and ends with `status`."""

    def __init__(self, problem: str, remedy: str = "", *, status: int = EX_FOUND) -> None:
        super().__init__(problem, remedy)
        self.status = status


class Stopped(KeyboardInterrupt):
    """A signal other than that of Ctrl-C ends the command: it unwinds as it does for that one."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def stopped_status(interrupt: KeyboardInterrupt) -> int:
    """The exit status of a command that was stopped: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP."""
    return 128 + (interrupt.number if isinstance(interrupt, Stopped) else signal.SIGINT)


@contextmanager
def in_steps() -> Iterator[Callable[[], None]]:
    """For work in steps that each are whole: a signal waits for the end of the step, where the function is called.

    It then raises `KeyboardInterrupt`. A second signal doesn't wait.
    """
    seen: list[int] = []

    def hold(number: int, _frame: FrameType | None) -> None:
        seen.append(number)
        if len(seen) > 1:
            raise Stopped(number)

    def stop_here() -> None:
        if seen:
            raise Stopped(seen[0])

    # What is ignored (nohup, or in the background of a script) stays ignored.
    handled = [number for number in _SIGNALS if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = [(number, signal.signal(number, hold)) for number in handled]
    try:
        yield stop_here
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def told(error: "StoreError") -> str:
    """What a store's refusal says to an operator, who gets the remedy that is kept from models."""
    return error.remedy or str(error)


def complain(text: str) -> None:
    """Tell the operator, on stderr, beside whatever the command prints."""
    if sys.stderr is not None:
        try:
            print(visible(text), file=sys.stderr)
        except OSError:  # nobody reads it
            _discard(sys.stderr)


def guarded(name: str, command: Callable[[], int]) -> int:
    """Run `command`, whose messages start with `name`, and return the exit status, whatever happens."""
    if sys.stderr is not None:
        sys.stderr = whole(sys.stderr)
    if sys.stdout is None:
        # What is printed would go nowhere, or into the next file that is opened.
        complain(f"{name}: stdout is closed, so nothing was done; send the output to /dev/null if it is not wanted")
        return EX_FOUND
    sys.stdout = whole(sys.stdout)
    _take_signals()
    try:
        try:
            status = command()
        except KeyboardInterrupt:
            _discard(sys.stdout)  # its reader may be what was waited for
            raise
        finally:
            sys.stdout.flush()  # also after --help, so that a closed pipe is met here
    except BrokenPipeError:
        # The reader has what it wanted (`| head`). Python would flush once more at exit.
        _discard(sys.stdout)
        return _PIPE_CLOSED
    except KeyboardInterrupt as interrupt:
        complain(f"\n{name}: stopped")
        return stopped_status(interrupt)
    except Exception as error:  # the last resort: a person is told in words
        if sys.flags.dev_mode:
            raise
        text, status = _explained(error)
        if isinstance(error, OutputError):
            _discard(sys.stdout)  # what it still holds would fail once more at exit
        complain(f"{name}: {text}")
    return status


def _take_signals() -> None:
    def stop(number: int, _frame: FrameType | None) -> None:
        raise Stopped(number)

    for number in _SIGNALS:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else stop)


def _discard(stream: TextIO) -> None:
    """Let what the stream holds, and what is still written to it, go nowhere: nothing fails or waits any more."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _explained(error: Exception) -> tuple[str, int]:
    from ...store.errors import StoreError

    match error:
        case Failure():
            return str(error), error.status
        case RemedyError():
            return str(error), EX_CONFIG
        case StoreError():
            return told(error), EX_FOUND
        case OutputError():
            return f"cannot write the output: {error.strerror}; send it somewhere else", EX_FOUND
        case OSError():
            place = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
            return f"{place}{error.strerror or error}; mend that and run it again", EX_FOUND
    return (
        f"this should not happen: {type(error).__name__}: {error!s:.200}\n"
        "please report it, with the output of the same command under PYTHONDEVMODE=1"
    ), EX_FOUND

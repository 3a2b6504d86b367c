"""The streams that a command writes to: every byte arrives, or the command fails.

What the interpreter makes of stdout loses bytes silently in two cases: unbuffered (`python -u`, PYTHONUNBUFFERED) it
writes to a raw file and ignores how much that took, and a pipe that somebody made non-blocking takes as much as fits.
"""

import io
import os
import select
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TextIO

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["OutputError", "whole"]

_STEP: Final = 1 << 20
"""Bytes offered at a time, so that a signal is met between two steps of a huge output."""


class OutputError(OSError):
    """The output cannot be written: a full disk, most likely. Part of it may be."""


class _Whole(io.FileIO):
    """A file whose `write` returns when all is written, however little the other end takes at a time.

    Raises:
        BrokenPipeError: nobody reads it any more.
        OutputError: it cannot be written.
    """

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        written = 0
        while written < len(view):
            try:
                written += os.write(self.fileno(), view[written : written + _STEP])
            except BlockingIOError:
                select.select([], [self.fileno()], [])
            except BrokenPipeError:
                raise
            except OSError as error:
                raise OutputError(error.errno, error.strerror) from error
        return written


def whole(stream: TextIO) -> TextIO:
    """`stream`, or in its place one on the same descriptor that leaves nothing out. Its text never fails to encode."""
    reconfigure: Callable[..., None] | None = getattr(stream, "reconfigure", None)
    with suppress(OSError, AttributeError):
        # Unbuffered, a line at a time is as good: text arrives when it was printed.
        lines = bool(stream.line_buffering or stream.write_through)  # type: ignore[attr-defined]
        descriptor = stream.fileno()
        stream.flush()
        # A terminal that cannot show a character must not end the command.
        return io.TextIOWrapper(
            io.BufferedWriter(_Whole(descriptor, "wb", closefd=False)),
            encoding=stream.encoding,
            errors="backslashreplace",
            line_buffering=lines,
        )
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
    return stream

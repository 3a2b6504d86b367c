"""What a journal says, for commands that only look. The run may be open in another process; nothing is changed."""

import errno
import os
from collections.abc import Callable

from ..hints import Final, TypeVar
from ..system import files
from .replay import DamagedError, Replayed, replay

__all__ = ["contents", "looked_at", "read_journal"]

MAX_JOURNAL_BYTES: Final = 64 << 20
"""Of a file that is read as a journal. A journal is made short long before: what is this large is none, or was planted
to use up the memory of all runs."""

Found = TypeVar("Found")


def read_journal(path: str) -> tuple[Replayed | None, bool]:
    """What the journal at `path` says, and whether a living process has it open. Changes nothing.

    Raises:
        FileNotFoundError: there is no regular file of that name.
        DamagedError: it cannot be trusted.
        OSError: it cannot be read.
    """
    return looked_at(path, replay)


def looked_at(path: str, read: Callable[[bytes], Found]) -> tuple[Found, bool]:
    """What `read` makes of the bytes of the journal at `path`, and whether a living process has it open.

    Raises:
        FileNotFoundError: there is no regular file of that name.
        DamagedError: it is larger than any journal.
        OSError: it cannot be read.
    """
    while (opened := files.open_with_status(path, None)) is not None:
        descriptor, status = opened
        try:
            found = read(contents(descriptor, status))
            if not files.try_lock(descriptor, shared=True):
                return found, True
            if os.fstat(descriptor).st_nlink:
                return found, False
        finally:
            files.close(descriptor)
        # Made short, or removed, after it was opened: look again.
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def contents(descriptor: int, status: os.stat_result) -> bytes:
    """The bytes of an open journal.

    Raises:
        DamagedError: there are more than any journal has.
        OSError: it cannot be read.
    """
    if status.st_size > MAX_JOURNAL_BYTES:
        raise DamagedError(1, f"no journal has more than {MAX_JOURNAL_BYTES >> 20} MiB")
    return files.read_up_to(descriptor, status.st_size)

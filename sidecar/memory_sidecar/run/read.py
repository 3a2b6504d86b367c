"""What a journal says, for commands that only look. The run may be open in another process; nothing is changed."""

import errno
import os
from collections.abc import Callable
from typing import TypeVar

from ..system import files
from .replay import Replayed, replay

__all__ = ["looked_at", "read_journal"]

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
        OSError: it cannot be read.
    """
    while (opened := files.open_with_status(path, None)) is not None:
        descriptor, status = opened
        try:
            found = read(files.read_up_to(descriptor, status.st_size))
            if not files.try_lock(descriptor, shared=True):
                return found, True
            if os.fstat(descriptor).st_nlink:
                return found, False
        finally:
            files.close(descriptor)
        # Made short, or removed, after it was opened: look again.
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)

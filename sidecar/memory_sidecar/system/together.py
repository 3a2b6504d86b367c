"""What the threads of one process do to one directory together: they take turns at its lock, and share its flushes.

Among threads flock(2) would be polled for, and each change would flush the directory alone. Here who waits for the lock
sleeps until it is free, and one flush serves all whose changes were made before it began.
"""

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from . import files

__all__ = ["Together"]


class Together:
    """For the changes of one directory. Any thread may call the methods at any time."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._begun = 0
        """Flushes that began so far, each numbered by it."""
        self._done = 0
        """The newest that ended well."""
        self._flushed: tuple[int, int] | None = None
        """Which directory the newest flush is of: another may have taken its place meanwhile."""
        self._busy = False

    @contextmanager
    def locked(self, directory: int) -> Iterator[None]:
        """As `files.locked`.

        Raises:
            LockTimeoutError: neither in this process nor among all of them it was free within `LOCK_TIMEOUT` seconds.
        """
        if not self._turn.acquire(timeout=files.LOCK_TIMEOUT):
            raise files.LockTimeoutError(errno.EBUSY, "the directory's lock is held")
        try:
            with files.locked(directory):
                yield
        finally:
            self._turn.release()

    def flush(self, directory: int) -> None:
        """Return when what the caller has changed in the open directory has reached the disk.

        A flush that began before the call does not count: it may have missed the change. One that another thread begins
        after it does. Where that one fails, the caller makes its own, to be told what is wrong.

        Raises:
            OSError: the caller's own flush failed.
        """
        status = os.fstat(directory)
        which = status.st_dev, status.st_ino
        with self._changed:
            enough = self._begun + 1
            while self._busy:
                self._changed.wait()
                if self._done >= enough and self._flushed == which:
                    return
            self._busy = True
            self._begun += 1
            mine = self._begun
        flushed = False
        try:
            files.flush(directory)
            flushed = True
        finally:
            with self._changed:
                self._busy = False
                if flushed:
                    self._done, self._flushed = mine, which
                self._changed.notify_all()

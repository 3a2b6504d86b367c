"""How a file comes into being whole: stage, write, flush, publish by one atomic operation on its name.

The caller flushes the directory afterwards: until then a power cut may undo the publishing. A staged file is locked
while its writer lives, and a start removes those whose writers are dead.
"""

import errno
import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from ..hints import Final
from . import exchange, files

__all__ = ["publish_new", "publish_over", "staged", "stale", "sweep"]

_STAGE_PREFIX: Final = ".tmp-"
_STAGE_DIGITS: Final = 16
_NO_HARD_LINKS: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
)
"""EACCES is what Android says. Where the directory may not be changed at all, the rename that follows says so too."""


@contextmanager
def staged(directory: int, data: bytes, more: Iterable[bytes] = ()) -> Iterator[str]:
    """The name of a temporary file that holds `data` and `more`, flushed; gone again at the end, published or not.

    It is locked while its writer lives, which is how `sweep` tells it from a dead writer's.
    """
    name, descriptor = _stage(directory)
    try:
        files.write_all(descriptor, data)
        for part in more:
            files.write_all(descriptor, part)
        files.flush(descriptor)
        yield name
    finally:
        files.close(descriptor)
        # Gone already if it was renamed into place. If it will not go, the next start sweeps it; an error here would
        # hide that the change was made.
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)


def _stage(directory: int) -> tuple[str, int]:
    """A new temporary file, locked: its name and descriptor."""
    while True:
        name = _STAGE_PREFIX + os.urandom(8).hex()
        descriptor = files.create_exclusively(name, directory)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                return name, descriptor
        except BaseException:
            files.close(descriptor)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
            raise
        # A sidecar that started just then saw it unlocked, took it for a dead writer's and removed it.
        files.close(descriptor)


def publish_new(directory: int, stage: str, name: str) -> None:
    """Give the staged file its name, if that is free. The caller holds the directory's lock.

    Raises:
        FileExistsError: the name is taken.
    """
    try:
        os.link(stage, name, src_dir_fd=directory, dst_dir_fd=directory, follow_symlinks=False)
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        # No hard links here.
        if exchange.rename_new(directory, stage, name):
            return
        # No such rename either. Our own writers hold the lock, so looking and renaming is exclusive among them, and
        # a rename never shows a half-written file.
        try:
            os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(stage, name, src_dir_fd=directory, dst_dir_fd=directory)
        else:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error


def publish_over(directory: int, stage: str, name: str) -> None:
    """Give the staged file its name, replacing what has it."""
    os.rename(stage, name, src_dir_fd=directory, dst_dir_fd=directory)


def stale(path: str) -> list[str]:
    """Names of temporary files in the directory `path` whose writers are dead: a start would have swept them."""
    found = []
    with files.open_directory(path) as directory:
        for name in _stages(directory):
            descriptor = files.open_regular(name, directory)
            if descriptor is not None:
                try:
                    if files.try_lock(descriptor, shared=True):
                        found.append(name)
                finally:
                    files.close(descriptor)
    return sorted(found)


def _stages(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [
            entry.name
            for entry in entries
            if entry.name.startswith(_STAGE_PREFIX) and _is_hexadecimal(entry.name.removeprefix(_STAGE_PREFIX))
        ]


def _is_hexadecimal(text: str) -> bool:
    return len(text) == _STAGE_DIGITS and not text.strip("0123456789abcdef")


def sweep(directory: int) -> None:
    """Remove temporary files whose writers are dead. A living writer holds its file's lock.

    What cannot be opened or removed stays: it is hidden from listings, and no reason not to start; `doctor` tells.
    """
    for name in _stages(directory):
        with suppress(OSError):  # another user's; or another sidecar swept it first; or no change is allowed here
            descriptor = files.open_regular(name, directory)
            if descriptor is None:
                continue
            try:
                if files.try_lock(descriptor):
                    os.unlink(name, dir_fd=directory)
            finally:
                files.close(descriptor)

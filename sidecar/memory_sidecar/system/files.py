"""The file system, carefully: no link is followed, nothing is half-written, what is acknowledged is on disk.

The order of a durable write is fixed here: stage, write, fsync, publish by one atomic name operation, fsync the
directory. Names are relative to an open directory, so that a path is resolved once. Errors stay `OSError`; what
one means differs per operation, so callers translate.
"""

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from ..remedy import RemedyError

__all__ = [
    "LockTimeoutError",
    "absolute",
    "at_home",
    "close",
    "create_exclusively",
    "flush",
    "is_permitted",
    "locked",
    "make_private_directory",
    "open_directory",
    "open_regular",
    "open_with_status",
    "publish_new",
    "publish_over",
    "read_regular",
    "read_up_to",
    "staged",
    "stale",
    "sweep",
    "try_lock",
    "write_all",
]

LOCK_TIMEOUT: Final = 10.0
"""Seconds to wait for another process's lock. It is held for milliseconds, so past this its holder is stopped."""

_CAREFULLY: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""How a name is opened that anything may have. O_NONBLOCK matters for a FIFO alone; a regular file never blocks."""

_STAGE_PREFIX: Final = ".tmp-"
_STAGE_NAME: Final = re.compile(r"\.tmp-[0-9a-f]{16}")
_NO_HARD_LINKS: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK}
)
"""EACCES is what Android says. Where the directory may not be changed at all, the rename that follows says so too."""

_CANNOT_FLUSH: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP})
"""What fsync(2) answers where there is no such operation: of directories on CIFS and some FUSE file systems."""


class LockTimeoutError(OSError):
    """Another process held the directory's lock for `LOCK_TIMEOUT` seconds."""


def at_home(path: str) -> str:
    """`path` with a leading `~` as the home directory of this user, as a shell would have it.

    Raises:
        RemedyError: it starts with another user's `~name`, or no home directory is known. The problem starts with the
            path.
    """
    if not path.startswith("~"):
        return path
    head, slash, rest = path.partition("/")
    home = os.path.expanduser("~")
    if head != "~":
        raise RemedyError(
            f"{path!r} starts with the home of another user", f"write the path in full, or ./{head} for that name"
        )
    if not os.path.isabs(home):
        raise RemedyError(f"{path!r} means a home directory, and none is known", "write the path in full")
    return home + slash + rest


def absolute(path: str) -> str:
    """`path` from the root directory on, without `.` and `..`.

    Raises:
        RemedyError: it is relative to a working directory that is gone.
    """
    try:
        return os.path.abspath(path)
    except FileNotFoundError as error:
        raise RemedyError(
            f"{path!r} is relative, and the working directory is gone",
            "start it in a directory that exists, or name the whole path",
        ) from error


def make_private_directory(path: str) -> None:
    """Make `path` and its missing parents, mode 0700, durably. An existing directory is left as it is.

    The last part may be a symbolic link to a directory: the operator's choice of place.
    """
    if os.path.isdir(path):
        return
    parent = os.path.dirname(absolute(path))
    if not os.path.isdir(parent):
        make_private_directory(parent)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        if not os.path.isdir(path):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None
        return
    with open_directory(parent) as above:
        flush(above)


def is_permitted(path: str, *, change: bool = True) -> bool:
    """Whether owners and modes let this process read the directory `path`, and change what is in it.

    If so and it is refused all the same, the lockdown refuses: it lets in whatever was of that name at the start, and
    this is another directory, made since.
    """
    return os.access(path, os.R_OK | os.X_OK | (os.W_OK if change else 0))


@contextmanager
def open_directory(path: str) -> Iterator[int]:
    """A descriptor of the directory, for use as `dir_fd`."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        close(descriptor)


def open_regular(name: str, directory: int | None, flags: int = os.O_RDONLY) -> int | None:
    """A descriptor of the regular file `name`; None if nothing of that name is one.

    Never follows a link and never blocks on a FIFO: the check is made on what was opened, not on the name.
    """
    opened = open_with_status(name, directory, flags)
    return None if opened is None else opened[0]


def open_with_status(name: str, directory: int | None, flags: int = os.O_RDONLY) -> tuple[int, os.stat_result] | None:
    """As `open_regular`, with what the check has seen of the file."""
    try:
        descriptor = os.open(name, flags | _CAREFULLY, dir_fd=directory)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ELOOP, errno.ENXIO, errno.EISDIR, errno.ENODEV):
            return None
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(status.st_mode):
            return None
        raise
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        close(descriptor)
        return None
    return descriptor, status


def read_regular(path: str, limit: int) -> bytes:
    """The first `limit` bytes of the file at `path`, where only a regular file makes sense. Links are followed.

    Raises:
        OSError: it cannot be read, or is a FIFO, a device or a socket: reading that would wait, perhaps for ever.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        return read_up_to(descriptor, limit)
    finally:
        close(descriptor)


def create_exclusively(name: str, directory: int | None, flags: int = os.O_RDWR) -> int:
    """A descriptor of the new file `name`, mode 0600.

    Raises:
        FileExistsError: the name is taken, by whatever it may be.
    """
    return os.open(name, flags | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)


def read_up_to(descriptor: int, limit: int) -> bytes:
    """The bytes from the descriptor's position to the end, or the first `limit` of them."""
    parts = []
    while limit > 0 and (part := os.read(descriptor, min(limit, 1 << 20))):
        parts.append(part)
        limit -= len(part)
    return b"".join(parts)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, however few the system takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def close(descriptor: int) -> None:
    """Let go of a descriptor. What had to reach the disk was flushed before, so an error here tells nothing."""
    with suppress(OSError):
        os.close(descriptor)


def flush(descriptor: int) -> bool:
    """Return when what was written to this file or directory has reached the disk.

    False if its file system has no way to do that: `disk.inspect` finds it out beforehand, for it to be told.

    Raises:
        OSError: it failed, and what was written may be lost.
    """
    full = getattr(fcntl, "F_FULLFSYNC", None)  # macOS: fsync alone stops at the drive's cache
    if full is not None:
        try:
            fcntl.fcntl(descriptor, full)
            return True
        except OSError:
            pass
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno in _CANNOT_FLUSH:
            return False
        raise
    return True


@contextmanager
def staged(directory: int, data: bytes) -> Iterator[str]:
    """The name of a temporary file that holds `data`, flushed; gone again at the end, published or not.

    It is locked while its writer lives, which is how `sweep` tells it from a dead writer's.
    """
    name, descriptor = _stage(directory)
    try:
        write_all(descriptor, data)
        flush(descriptor)
        yield name
    finally:
        close(descriptor)
        # Gone already if it was renamed into place. If it will not go, the next start sweeps it; an error here would
        # hide that the change was made.
        with suppress(OSError):
            os.unlink(name, dir_fd=directory)


def _stage(directory: int) -> tuple[str, int]:
    """A new temporary file, locked: its name and descriptor."""
    while True:
        name = _STAGE_PREFIX + os.urandom(8).hex()
        descriptor = create_exclusively(name, directory)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.fstat(descriptor).st_nlink:
                return name, descriptor
        except BaseException:
            close(descriptor)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)
            raise
        # A sidecar that started just then saw it unlocked, took it for a dead writer's and removed it.
        close(descriptor)


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
        # No hard links here. Every writer of this store holds the lock, so looking and renaming is
        # exclusive among them, and a rename never shows a half-written file.
        try:
            os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            os.rename(stage, name, src_dir_fd=directory, dst_dir_fd=directory)
        else:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST)) from error


def publish_over(directory: int, stage: str, name: str) -> None:
    """Give the staged file its name, replacing what has it."""
    os.rename(stage, name, src_dir_fd=directory, dst_dir_fd=directory)


def try_lock(descriptor: int, *, patience: float = 0.0, shared: bool = False) -> bool:
    """Take the advisory lock of an open file; False if another still holds it after `patience` seconds.

    The kernel releases it with its holder, however that dies. With `shared` others may hold it so too: for who only
    looks whether somebody holds it alone.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    pause = 0.0002
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


@contextmanager
def locked(directory: int) -> Iterator[None]:
    """Hold the directory's advisory lock: one writer at a time, in this process and among all of them.

    The lock is on the directory itself, so there is no lock file to delete under a holder, and none is left
    behind by a killed one.

    Raises:
        LockTimeoutError: it was not free within `LOCK_TIMEOUT` seconds.
    """
    if not try_lock(directory, patience=LOCK_TIMEOUT):
        raise LockTimeoutError(errno.EBUSY, "the directory's lock is held")
    try:
        yield
    finally:
        with suppress(OSError):  # closing the directory lets go of it too
            fcntl.flock(directory, fcntl.LOCK_UN)


def stale(path: str) -> list[str]:
    """Names of temporary files in the directory `path` whose writers are dead: a start would have swept them."""
    found = []
    with open_directory(path) as directory:
        for name in _stages(directory):
            descriptor = open_regular(name, directory)
            if descriptor is not None:
                try:
                    if try_lock(descriptor, shared=True):
                        found.append(name)
                finally:
                    close(descriptor)
    return sorted(found)


def _stages(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries if _STAGE_NAME.fullmatch(entry.name)]


def sweep(directory: int) -> None:
    """Remove temporary files whose writers are dead. A living writer holds its file's lock.

    What cannot be opened or removed stays: it is hidden from listings, and no reason not to start; `doctor` tells.
    """
    for name in _stages(directory):
        with suppress(OSError):  # another user's; or another sidecar swept it first; or no change is allowed here
            descriptor = open_regular(name, directory)
            if descriptor is None:
                continue
            try:
                if try_lock(descriptor):
                    os.unlink(name, dir_fd=directory)
            finally:
                close(descriptor)

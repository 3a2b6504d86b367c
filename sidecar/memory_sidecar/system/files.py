"""The file system, carefully: no link is followed, no name is opened that could block, what is flushed is on disk.

Names are relative to an open directory, so that a path is resolved once. Errors stay `OSError`; what one means differs
per operation, so callers translate. How a whole file comes into being is in `staging`.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ..hints import Final
from ..remedy import RemedyError

__all__ = [
    "LockTimeoutError",
    "absolute",
    "at_home",
    "close",
    "create_exclusively",
    "create_or_take_empty",
    "flush",
    "has_name",
    "is_permitted",
    "locked",
    "make_private_directory",
    "open_directory",
    "open_regular",
    "open_with_status",
    "read_regular",
    "read_up_to",
    "try_lock",
    "write_all",
]

LOCK_TIMEOUT: Final = 10.0
"""Seconds to wait for another process's lock. It is held for milliseconds, so past this its holder is stopped."""

_CAREFULLY: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""How a name is opened that anything may have. O_NONBLOCK matters for a FIFO alone; a regular file never blocks."""

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
def open_directory(path: str, *, follow: bool = True) -> Iterator[int]:
    """A descriptor of the directory, for use as `dir_fd`. Without `follow` its name must not be a link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
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


def has_name(descriptor: int, path: str) -> bool:
    """Whether the open file is what stands at `path`. False too where nobody may look."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except OSError:
        return False


def create_or_take_empty(path: str) -> int:
    """The descriptor, for reading and writing, of a new file at `path`, or of an empty one that is there already (of
    an attempt that got no lock, or made by logrotate after it renamed the file).

    Raises:
        OSError: another file has the name, with something in it that is not ours to overwrite.
    """
    try:
        return create_exclusively(path, None)
    except FileExistsError:
        found = open_with_status(path, None, os.O_RDWR)
        if found is None or found[1].st_size:
            if found is not None:
                close(found[0])
            raise
        return found[0]


def read_up_to(descriptor: int, limit: int, size: int | None = None) -> bytes:
    """The bytes from the descriptor's position to the end, or the first `limit` of them.

    `size` is how many its status says there are. Where that is so, they come with one call and no room to spare.
    """
    parts = []
    step = 1 << 20 if size is None else size + 1
    while limit > 0 and (part := os.read(descriptor, min(limit, step))):
        parts.append(part)
        limit -= len(part)
        if len(part) == size:
            break
        size, step = None, 1 << 20  # it was changed just now, or its file system does not tell
    return b"".join(parts)


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, however few the system takes at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def close(descriptor: int) -> None:
    """Let go of a descriptor. What had to reach the disk was flushed before, so an error here tells nothing."""
    try:  # noqa: SIM105 - a launch closes a thousand notes, and `suppress` takes four times as long
        os.close(descriptor)
    except OSError:
        pass


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

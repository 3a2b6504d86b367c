"""Notes as markdown files, one `<key>.md` each, in a directory that people may read and edit too.

Calls block their thread while the disk works: the sidecar gives every run a thread of its own. What isn't a regular
file with a legal name is invisible here and never touched.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from ..observe import log
from ..remedy import RemedyError
from ..store.contract import ABSENT, ANYTHING, Expected, Info, Item, Stored
from ..store.document import HEADER_BYTES, UNREADABLE, parse_description
from ..store.errors import (
    ConflictError,
    InvalidError,
    OutcomeUnknownError,
    StoreError,
    UnavailableError,
    UnreadableError,
)
from ..store.rules import MAX_ENTRIES, MAX_READ_BYTES, check_capacity, is_key
from ..store.store import Store
from ..system import disk, files, staging
from ..system.digest import digest
from .opened import BackendError, Opened

__all__ = ["FileBackend", "FileOptions", "open_file", "resolve_directory"]

_SUFFIX: Final = ".md"

_SETTLED_NS: Final = 100_000_000
"""A file younger than this when it was looked at may change again within one tick of the file system's clock, so
its time stamps prove nothing yet. Coarser than any tick of a clock that counts fractions of a second."""

_SETTLED_COARSE_NS: Final = 2_100_000_000
"""The same where a stamp has no fraction: FAT counts in steps of two seconds, some network file systems in seconds."""


class FileOptions(NamedTuple):
    """`harness.memory.options` of the file backend."""

    directory: str | None = None
    """Where notes are kept; `memory/<identity>` if omitted. A leading `~` is this user's home directory."""
    require_read_before_update: bool = False
    """Refuse an overwrite of what this run has not read, or what has changed since."""
    single_machine: bool = False
    """The operator's word that one machine alone writes there: with it the guard may be on a network file system, whose
    locks other machines may not see."""


def resolve_directory(options: FileOptions, identity: str | None, base: str | None) -> str:
    """The directory of the notes: relative ones are under the store base, else the working directory.

    Raises:
        BackendError: the directory is not one, or has to be named after an identity that is not a legal key.
    """
    if options.directory is not None:
        if not options.directory:
            raise BackendError("harness.memory.options.directory is empty", "name a directory or leave the option out")
        if "\0" in options.directory:
            raise BackendError("harness.memory.options.directory holds a NUL character, which no name can", "remove it")
        try:
            relative = files.at_home(options.directory)
        except RemedyError as error:
            raise BackendError(f"harness.memory.options.directory {error.problem}", error.remedy) from error
    else:
        if identity is None or not is_key(identity):
            raise BackendError(
                f"the identity {identity!r} cannot name a directory",
                "set identity to letters, digits and . _ = - or set harness.memory.options.directory",
            )
        relative = os.path.join("memory", identity)
    try:
        return files.absolute(os.path.join(base or "", relative))
    except RemedyError as error:
        raise BackendError(f"the memory directory {error.problem}", error.remedy) from error


def open_file(options: FileOptions, identity: str, base: str | None, *, read_only: bool = False) -> Opened:
    """Make the directory if needed, sweep what dead writers left, and return the store.

    With `read_only` a directory that is there is left as it is: it only has to be readable, and nothing of this store
    but its reading methods may be used.

    Raises:
        BackendError: the directory cannot be made, read or (unless `read_only`) written.
    """
    directory = resolve_directory(options, identity, base)
    try:
        files.make_private_directory(directory)
        with files.open_directory(directory) as opened:
            if not files.is_permitted(directory, change=not read_only):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            if not read_only:
                staging.sweep(opened)
        if not read_only:
            _accept_disk(directory, options)
    except OSError as error:
        raise BackendError(
            f"cannot use the memory directory {directory}: {error.strerror}",
            f"make it a directory that this user can {'read' if read_only else 'read and write'}, "
            "or set harness.memory.options.directory",
        ) from error
    resolved = os.path.realpath(directory)
    fingerprint = "file:" + digest(os.fsencode(resolved))
    return Opened(Store(FileBackend(directory), guard=options.require_read_before_update), fingerprint)


def refuse_disk(directory: str, found: disk.Disk, options: FileOptions) -> RemedyError | None:
    """Why notes cannot be written in `directory`, whatever its owner and mode; None if they can."""
    return disk.refusal(directory, found, guard=options.require_read_before_update and not options.single_machine)


def _accept_disk(directory: str, options: FileOptions) -> None:
    found = disk.inspect(directory)
    refused = refuse_disk(directory, found, options)
    if refused is not None:
        raise BackendError(refused.problem, refused.remedy)
    if not found.flushes:
        log.warning("the memory directory cannot be flushed", reason=disk.CANNOT_FLUSH)


class FileBackend:
    """A `Backend` over one directory. Independent processes may share it.

    A revision is a digest of the stored bytes, so that a person's edit is another revision too, and an edit that is
    taken back is none.
    """

    def __init__(self, directory: str) -> None:
        self._path = directory
        self._first = _identity(directory)
        self._seen: dict[str, tuple[_Stamp, str]] = {}

    def info(self) -> Info:
        return Info("file", "")

    def list(self) -> list[Item]:
        with self._directory() as directory:
            # Built anew each time, so that deleted notes leave it; swapped whole, so that threads may race.
            seen: dict[str, tuple[_Stamp, str]] = {}
            items = []
            now = time.time_ns()
            for name in _names(directory):
                try:
                    description = self._description(directory, name, now, seen)
                except UnreadableError:
                    description = UNREADABLE
                except OSError as error:
                    if error.errno != errno.EIO:
                        raise
                    description = UNREADABLE  # a bad block under one note must not hide the others
                if description is not None:
                    items.append(Item(name.removesuffix(_SUFFIX), description))
            self._seen = seen
        return sorted(items)

    def _description(self, directory: int, name: str, now: int, seen: dict[str, tuple["_Stamp", str]]) -> str | None:
        known = self._seen.get(name)
        if known is not None:
            try:
                status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            except FileNotFoundError:
                return None
            if known[0] == _stamp(status):
                seen[name] = known
                return known[1]
        try:
            opened = files.open_with_status(name, directory)
        except PermissionError as error:
            raise _closed() from error
        if opened is None:
            return None
        descriptor, status = opened
        try:
            description = parse_description(os.read(descriptor, HEADER_BYTES), status.st_size)
            if description is None:
                os.lseek(descriptor, 0, os.SEEK_SET)
                whole = files.read_up_to(descriptor, MAX_READ_BYTES + 1)
                description = parse_description(whole, len(whole)) or ""
        finally:
            files.close(descriptor)
        if _is_settled(status, now):
            seen[name] = (_stamp(status), description)
        return description

    def get(self, key: str, *, after: str | None = None) -> Stored | None:  # noqa: ARG002 - nothing lags here
        with self._directory() as directory:
            document = _stored(directory, key + _SUFFIX)
            if document is None:
                if _is_occupied(directory, key + _SUFFIX):
                    raise _occupied()
                return None
        return Stored(_revision(document), document)

    def put(self, key: str, document: bytes, expected: Expected) -> str:
        name, revision = key + _SUFFIX, _revision(document)
        with self._directory() as directory:
            # Looked at before staging too, so that a refusal costs no fsync.
            _require(directory, name, expected)
            # The lock keeps our own sidecars apart. What else writes here takes none.
            with staging.staged(directory, document) as stage, files.locked(directory):
                if not _require(directory, name, expected):
                    _check_room(directory)
                if expected is ABSENT:
                    try:
                        staging.publish_new(directory, stage, name)
                    except FileExistsError:
                        raise _taken(directory, name) from None
                else:
                    staging.publish_over(directory, stage, name)
            # From here on the document is visible: a failure leaves its outcome open.
            _make_durable(directory, revision)
        return revision

    def remove(self, key: str, expected: Expected) -> str | None:
        name = key + _SUFFIX
        with self._directory() as directory:
            with files.locked(directory):
                document = _stored(directory, name)
                if document is None:
                    if _is_occupied(directory, name):
                        raise _occupied()
                    return None
                revision = _revision(document)
                if expected not in (ANYTHING, revision):
                    raise ConflictError(absent=False)
                try:
                    os.unlink(name, dir_fd=directory)
                except FileNotFoundError:
                    return None  # somebody who takes no lock was faster
            _make_durable(directory, revision)
        return revision

    @contextmanager
    def _directory(self) -> Iterator[int]:
        """The open directory; every `OSError` inside becomes what a model may read."""
        try:
            # Opened for each call: a directory that was replaced is found again, and a lock is the call's own.
            with files.open_directory(self._path) as directory:
                yield directory
        except StoreError:
            raise
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise InvalidError(_TOO_LONG) from error
            raise UnavailableError(self._explained(error)) from error

    def _explained(self, error: OSError) -> str:
        # The lockdown lets this process change the directory that was there at the start, and no other of its name.
        if error.errno == errno.EACCES and files.is_permitted(self._path) and _identity(self._path) != self._first:
            return _REPLACED
        return _EXPLANATIONS.get(error.errno or 0, _UNEXPLAINED)


def _identity(directory: str) -> tuple[int, int] | None:
    try:
        status = os.stat(directory)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_Stamp = tuple[int, int, int, int]


def _is_settled(status: os.stat_result, now: int) -> bool:
    """Whether the file's time stamps, seen at `now`, would tell any later change."""
    stamps = (status.st_ctime_ns, status.st_mtime_ns)
    tick = _SETTLED_COARSE_NS if any(stamp % 1_000_000_000 == 0 for stamp in stamps) else _SETTLED_NS
    return all(abs(now - stamp) > tick for stamp in stamps)


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _names(directory: int) -> list[str]:
    """The file names of all entries. Links, FIFOs, directories and illegal names are not entries."""
    with os.scandir(directory) as entries:
        return [
            entry.name
            for entry in entries
            if entry.name.endswith(_SUFFIX)
            and is_key(entry.name.removesuffix(_SUFFIX))
            and entry.is_file(follow_symlinks=False)
        ]


def _check_room(directory: int) -> None:
    """Raise `StoreFullError` if there is no room for one more entry. The caller holds the directory's lock."""
    # Names that are no entries count too at first. Only where that is too many does it matter what each one is.
    if sum(name.endswith(_SUFFIX) for name in os.listdir(directory)) >= MAX_ENTRIES:
        check_capacity(len(_names(directory)))


def _stored(directory: int, name: str) -> bytes | None:
    """The document under `name`, or None if nothing of that name is a regular file."""
    try:
        descriptor = files.open_regular(name, directory)
    except PermissionError as error:
        raise _closed() from error
    if descriptor is None:
        return None
    try:
        return files.read_up_to(descriptor, MAX_READ_BYTES + 1)
    finally:
        files.close(descriptor)


def _require(directory: int, name: str, expected: Expected) -> bool:
    """Whether something is stored under `name`, which then is `expected`.

    Raises:
        ConflictError: what is there is not `expected`.
        UnreadableError: what has the name is no note, or may not be read.
    """
    if expected is ABSENT:
        try:
            os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return False
        raise _taken(directory, name)
    document = _stored(directory, name)
    if document is None:
        if _is_occupied(directory, name):
            raise _occupied()
        if expected is not ANYTHING:
            raise ConflictError(absent=True)
        return False
    if expected not in (ANYTHING, _revision(document)):
        raise ConflictError(absent=False)
    return True


def _is_occupied(directory: int, name: str) -> bool:
    """Whether something that is no regular file has the name."""
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(status.st_mode)


def _make_durable(directory: int, revision: str) -> None:
    """Flush the directory, in which the document of that revision visibly came or went.

    Raises:
        OutcomeUnknownError: that failed, so a power cut may still undo it.
    """
    try:
        files.flush(directory)
    except OSError as error:
        raise OutcomeUnknownError(revision) from error


def _taken(directory: int, name: str) -> StoreError:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return ConflictError(absent=True)
    return ConflictError(absent=False) if stat.S_ISREG(status.st_mode) else _occupied()


def _occupied() -> UnreadableError:
    return UnreadableError("This key is taken by something that is not a memory. Use another key.")


def _closed() -> UnreadableError:
    return UnreadableError(
        "This memory is stored, but reading it is not permitted. Leave it; its operator must repair it."
    )


def _revision(document: bytes) -> str:
    return digest(document)


_UNEXPLAINED: Final = (
    "The memory store failed. Nothing was changed; try again, and go on without memory if it persists."
)
_TOO_LONG: Final = (
    "This key is too long for the file system that the memory is kept on. Nothing was changed; use a shorter key."
)
_NO_SPACE: Final = "The memory store has no space left. Nothing was changed; its operator must free space."
_NO_PERMISSION: Final = "The memory store refused access. Nothing was changed; its operator must permit it."
_MISSING: Final = (
    "The memory store is missing. Nothing was changed; its operator must restore it and restart the sidecar."
)
_REPLACED: Final = (
    "The memory store was replaced while in use, and this sidecar may not change the new one. Nothing was changed; "
    "its operator must restart the sidecar."
)
_EXPLANATIONS: Final = {
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.EFBIG: _NO_SPACE,
    errno.EACCES: _NO_PERMISSION,
    errno.EPERM: _NO_PERMISSION,
    errno.EROFS: _NO_PERMISSION,
    errno.ENOENT: _MISSING,
    errno.EBUSY: "The memory store is busy: another program holds it. Nothing was changed; try again later.",
}

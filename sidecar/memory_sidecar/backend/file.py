"""Notes as markdown files, one `<key>.md` each, in a directory that people may read and edit too.

Methods are `async` as the contract wants, and block their thread while the disk works: the sidecar gives every
run a thread of its own. What isn't a regular file with a legal name is invisible here and never touched.
"""

import errno
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from ..remedy import RemedyError
from ..store.contract import Entry, Info, Item
from ..store.document import HEADER_BYTES, UNREADABLE, check_text, parse, parse_description, serialize
from ..store.errors import (
    KeyExistsError,
    KeyNotFoundError,
    OutcomeUnknownError,
    StaleError,
    StoreError,
    UnavailableError,
    UnreadableError,
)
from ..store.rules import MAX_ENTRIES, MAX_ENTRY_BYTES, check_capacity, is_key, validate_key, validate_write
from ..store.scope import Scope
from ..system import files
from ..system.digest import digest
from .opened import BackendError, Opened

__all__ = ["FileOptions", "FileStore", "open_file", "resolve_directory"]

_SUFFIX: Final = ".md"

_SETTLED_NS: Final = 100_000_000
"""A file younger than this when it was looked at may change again within one tick of the file system's clock, so
its time stamps prove nothing yet. Coarser than any tick in use."""


class FileOptions(NamedTuple):
    """`harness.memory.options` of the file backend."""

    directory: str | None = None
    """Where notes are kept; `memory/<identity>` if omitted. A leading `~` is this user's home directory."""
    require_read_before_update: bool = False
    """Refuse an overwrite of what this run has not read, or what has changed since."""


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
    return os.path.abspath(os.path.join(base or "", relative))


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
                files.sweep(opened)
    except OSError as error:
        raise BackendError(
            f"cannot use the memory directory {directory}: {error.strerror}",
            f"make it a directory that this user can {'read' if read_only else 'read and write'}, "
            "or set harness.memory.options.directory",
        ) from error
    resolved = os.path.realpath(directory)
    fingerprint = "file:" + digest(os.fsencode(resolved))
    return Opened(FileStore(directory, guard=options.require_read_before_update), fingerprint)


class FileStore:
    """The `Store` over one directory. Independent processes may share it.

    With `guard`, an update replaces only what the run's scope has seen; a revision is a digest of the stored
    bytes, so that a person's edit in between is noticed too.
    """

    def __init__(self, directory: str, *, guard: bool = False) -> None:
        self._path = directory
        self._guard = guard
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
                description = parse(files.read_up_to(descriptor, MAX_ENTRY_BYTES + 1)).description
        finally:
            files.close(descriptor)
        if abs(now - status.st_ctime_ns) > _SETTLED_NS and abs(now - status.st_mtime_ns) > _SETTLED_NS:
            seen[name] = (_stamp(status), description)
        return description

    def read(self, key: str, *, scope: Scope | None = None) -> Entry:
        validate_key(key)
        with self._directory() as directory:
            document = _stored(directory, key + _SUFFIX)
        if document is None:
            if scope is not None and scope.revision(key) is not None:
                scope.drop(key, "stale")
            raise KeyNotFoundError
        entry = parse(document)
        if scope is not None:
            scope.grant(key, _revision(document), "read")
        return entry

    def create(self, key: str, description: str, content: str, *, scope: Scope | None = None) -> None:
        document = serialize(validate_write(key, description, content), content)
        name = key + _SUFFIX
        with self._directory() as directory:
            # Looked at before staging too, so that the common refusal costs no fsync.
            self._require_free(directory, name)
            with files.staged(directory, document) as stage, files.locked(directory):
                self._require_free(directory, name)
                _check_room(directory)
                try:
                    files.publish_new(directory, stage, name)
                except FileExistsError:
                    raise _taken(directory, name) from None
            self._make_durable(directory, key, scope, document)
        if scope is not None:
            scope.grant(key, _revision(document), "created")

    def update(self, key: str, description: str, content: str, *, scope: Scope | None = None) -> None:
        document = serialize(validate_write(key, description, content), content)
        name = key + _SUFFIX
        with self._directory() as directory:
            self._require_authority(directory, key, scope)
            with files.staged(directory, document) as stage, files.locked(directory):
                if not self._require_authority(directory, key, scope):
                    _check_room(directory)
                files.publish_over(directory, stage, name)
            self._make_durable(directory, key, scope, document)
        if scope is not None:
            scope.grant(key, _revision(document), "updated")

    def delete(self, key: str, *, scope: Scope | None = None) -> bool:
        validate_key(key)
        name = key + _SUFFIX
        with self._directory() as directory:
            with files.locked(directory):
                document = _readable(directory, name)
                if document is not None:
                    os.unlink(name, dir_fd=directory)
            if document is not None:
                self._make_durable(directory, key, scope, document)
        if scope is not None and document is not None:
            scope.drop(key, "deleted", _revision(document))
        elif scope is not None and scope.revision(key) is not None:
            scope.drop(key, "stale")
        return document is not None

    def delete_revision(self, key: str, revision: str) -> bool:
        validate_key(key)
        name = key + _SUFFIX
        with self._directory() as directory:
            with files.locked(directory):
                document = _readable(directory, name)
                same = document is not None and _revision(document) == revision
                if same:
                    os.unlink(name, dir_fd=directory)
            if same:
                self._make_durable(directory, key, None, b"")
        return same

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
            raise UnavailableError(self._explained(error)) from error

    def _explained(self, error: OSError) -> str:
        if error.errno == errno.EACCES and files.is_permitted(self._path):
            return _REPLACED
        return _EXPLANATIONS.get(error.errno or 0, _UNEXPLAINED)

    @staticmethod
    def _require_free(directory: int, name: str) -> None:
        try:
            os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return
        raise _taken(directory, name)

    def _require_authority(self, directory: int, key: str, scope: Scope | None) -> bool:
        """Whether the key holds a note that may be replaced; False if it holds nothing and may be written."""
        current = _readable(directory, key + _SUFFIX)
        if self._guard:
            held = scope.revision(key) if scope is not None else None
            if held is None or current is None or _revision(current) != held:
                if scope is not None:
                    scope.drop(key, "stale")
                raise StaleError("not_read" if held is None else "changed")
        return current is not None

    @staticmethod
    def _make_durable(directory: int, key: str, scope: Scope | None, document: bytes) -> None:
        """Flush the directory. `document` came or went visibly already, so a failure leaves the outcome open."""
        try:
            files.flush(directory)
        except OSError as error:
            if scope is not None:
                scope.drop(key, "unknown", _revision(document))
            raise OutcomeUnknownError from error


_Stamp = tuple[int, int, int, int]


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
        return files.read_up_to(descriptor, MAX_ENTRY_BYTES + 1)
    finally:
        files.close(descriptor)


def _readable(directory: int, name: str) -> bytes | None:
    """The document that a change would replace: None if there is none.

    Raises:
        UnreadableError: what has the name is not a readable note. No call destroys such a thing.
    """
    document = _stored(directory, name)
    if document is not None:
        check_text(document)
        return document
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    # A regular file now, though not a moment ago: someone just made it.
    raise _occupied() if not stat.S_ISREG(status.st_mode) else StaleError("changed")


def _taken(directory: int, name: str) -> StoreError:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return KeyExistsError("This key held a memory a moment ago. Try again.")
    if stat.S_ISREG(status.st_mode):
        return KeyExistsError("This key already holds a memory.")
    return _occupied()


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

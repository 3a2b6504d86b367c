"""What one name of the directory holds: a note, nothing, or something else that has its name."""

import os
import stat

from ...hints import Final
from ...store.contract import ABSENT, ANYTHING, Expected
from ...store.errors import ConflictError, StoreError
from ...store.rules import MAX_READ_BYTES
from ...system import files
from ...system.digest import digest
from .refusals import closed, occupied

__all__ = ["SUFFIX", "is_occupied", "require", "revision_of", "stored", "taken"]

SUFFIX: Final = ".md"


def stored(directory: int, name: str, largest: int = MAX_READ_BYTES) -> bytes | None:
    """The document under `name`, or None if nothing of that name is a regular file. Of one that is larger than
    `largest`, one byte more than that."""
    try:
        opened = files.open_with_status(name, directory)
    except PermissionError as error:
        raise closed() from error
    if opened is None:
        return None
    descriptor, status = opened
    try:
        return files.read_up_to(descriptor, largest + 1, status.st_size)
    finally:
        files.close(descriptor)


def require(directory: int, name: str, expected: Expected) -> bool:
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
        raise taken(directory, name)
    document = stored(directory, name)
    if document is None:
        if is_occupied(directory, name):
            raise occupied()
        if expected is not ANYTHING:
            raise ConflictError(absent=True)
        return False
    if expected not in (ANYTHING, revision_of(document)):
        raise ConflictError(absent=False)
    return True


def is_occupied(directory: int, name: str) -> bool:
    """Whether something that is no regular file has the name."""
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return not stat.S_ISREG(status.st_mode)


def taken(directory: int, name: str) -> StoreError:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return ConflictError(absent=True)
    return ConflictError(absent=False) if stat.S_ISREG(status.st_mode) else occupied()


_digested: Final[list[tuple[bytes, str]]] = []
"""The newest two: an overwrite looks several times at the old document, and once at the new one."""


def revision_of(document: bytes) -> str:
    """The revision that names a state of a key: a digest of the stored bytes."""
    for known, revision in _digested:
        if known == document:
            return revision
    revision = digest(document)
    _digested[:] = [(document, revision), *_digested[:1]]  # in one step, for threads
    return revision

"""Notes as markdown files, one `<key>.md` each, in a directory that people may read and edit too.

Calls block their thread while the disk works: the sidecar gives every run a thread of its own. What isn't a regular
file with a legal name is invisible here and never touched.
"""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from ...hints import Final
from ...store.contract import ABSENT, ANYTHING, Expected, Info, Item, Stored
from ...store.document import check_text
from ...store.errors import ConflictError, InvalidError, OutcomeUnknownError, StoreError, UnavailableError
from ...store.rules import MAX_READ_BYTES
from ...system import files, staging
from ...system.together import Together
from . import swap
from .entry import SUFFIX, is_occupied, require, revision_of, stored, taken
from .listing import Listing, check_room
from .refusals import REPLACED, TOO_LONG, explained, occupied

__all__ = ["FileBackend"]

_LARGEST_KEPT: Final = 64 << 20
"""Of a note that an operator moves away whole: in base64 it is still one line that `store.portable` takes."""


class FileBackend:
    """A `Backend` over one directory. Independent processes may share it.

    A revision is a digest of the stored bytes, so that a person's edit is another revision too, and an edit that is
    taken back is none.
    """

    def __init__(self, directory: str, *, follow: bool = True, largest: int = MAX_READ_BYTES) -> None:
        """`largest`: how much of a document `get` reads; of a larger one, a byte more."""
        self._path = directory
        self._follow = follow
        self._largest = largest
        self._first = _identity(directory)
        self._listing = Listing()
        self._together = Together()

    def info(self) -> Info:
        return Info("file", "")

    def list(self) -> list[Item]:
        with self._directory() as directory:
            return self._listing.items(directory)

    def get(self, key: str, *, after: str | None = None) -> Stored | None:  # noqa: ARG002 - nothing lags here
        with self._directory() as directory:
            document = stored(directory, key + SUFFIX, self._largest)
            if document is None:
                if is_occupied(directory, key + SUFFIX):
                    raise occupied()
                return None
        if len(document) > self._largest > MAX_READ_BYTES:
            check_text(document)  # whoever wants it whole must not take a part for it
        return Stored(revision_of(document), document)

    def written(self, key: str) -> str | None:
        """When the document was last written, as RFC 3339 in UTC; None if there is none. For operators' commands."""
        with self._directory() as directory:
            try:
                seconds = os.stat(key + SUFFIX, dir_fd=directory, follow_symlinks=False).st_mtime
            except FileNotFoundError:
                return None
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"

    def size(self, key: str) -> int | None:
        """How many bytes the document has, however many may be read; None if there is none. For operators' commands."""
        with self._directory() as directory:
            try:
                return os.stat(key + SUFFIX, dir_fd=directory, follow_symlinks=False).st_size
            except FileNotFoundError:
                return None

    def whole(self) -> "FileBackend":
        """The same notes, for an operator's command that moves one away: also those larger than a note may be."""
        return FileBackend(self._path, follow=self._follow, largest=_LARGEST_KEPT)

    def put(self, key: str, document: bytes, expected: Expected) -> str:
        name, revision = key + SUFFIX, revision_of(document)
        with self._directory() as directory:
            # Looked at before staging too, so that a refusal costs no fsync.
            require(directory, name, expected)
            # The lock keeps our own sidecars apart. What else writes here takes none: see `swap`.
            with staging.staged(directory, document) as stage, self._together.locked(directory):
                if not require(directory, name, expected):
                    check_room(directory)
                if expected is ABSENT:
                    try:
                        staging.publish_new(directory, stage, name)
                    except FileExistsError:
                        raise taken(directory, name) from None
                elif expected is ANYTHING:
                    staging.publish_over(directory, stage, name)
                else:
                    swap.replace(directory, stage, key, revision, expected)
            # From here on the document is visible: a failure leaves its outcome open.
            self._make_durable(directory, revision)
        return revision

    def remove(self, key: str, expected: Expected) -> str | None:
        name = key + SUFFIX
        with self._directory() as directory:
            with self._together.locked(directory):
                document = stored(directory, name, self._largest)
                if document is None:
                    if is_occupied(directory, name):
                        raise occupied()
                    return None
                revision = revision_of(document)
                if expected not in (ANYTHING, revision):
                    raise ConflictError(absent=False)
                removed = swap.remove(directory, key, expected, self._largest)
                if removed is None:
                    return None
            self._make_durable(directory, removed)
        return removed

    def _make_durable(self, directory: int, revision: str) -> None:
        """Flush the directory, in which the document of that revision visibly came or went.

        Raises:
            OutcomeUnknownError: that failed, so a power cut may still undo it.
        """
        try:
            self._together.flush(directory)
        except OSError as error:
            raise OutcomeUnknownError(revision) from error

    @contextmanager
    def _directory(self) -> Iterator[int]:
        """The open directory; every `OSError` inside becomes what a model may read."""
        try:
            # Opened for each call: a directory that was replaced is found again, and a lock is the call's own.
            with files.open_directory(self._path, follow=self._follow) as directory:
                yield directory
        except StoreError:
            raise
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise InvalidError(TOO_LONG) from error
            raise UnavailableError(self._explained(error)) from error

    def _explained(self, error: OSError) -> str:
        # The lockdown lets this process change the directory that was there at the start, and no other of its name.
        if error.errno == errno.EACCES and files.is_permitted(self._path) and _identity(self._path) != self._first:
            return REPLACED
        return explained(error)


def _identity(directory: str) -> tuple[int, int] | None:
    try:
        status = os.stat(directory)
    except OSError:
        return None
    return status.st_dev, status.st_ino

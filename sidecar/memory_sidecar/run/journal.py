"""A run's journal on disk: one writer, append only, and never a reason to refuse the model its memory.

A record is in the file before the reply that relies on it goes out, so SIGKILL loses nothing acknowledged; what
must survive a power cut is flushed. When the disk will not take a record, the records wait here, the caller is told
that authority is not saved, and the next append tries again. A file that has grown long is replaced, whole, by a short
one that says the same (`compact`).
"""

import errno
import os
import stat
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress

from ..hints import Final
from ..observe import log
from ..system import files
from .columns import FIRST_VERSION
from .kinds import version_of
from .read import contents
from .records import Record, encode, of_version, timestamp
from .replay import DamagedError, Summary, check_owner, replay, summary
from .terms import JournalError, RunBusyError, journal_name, stage_name

__all__ = ["Journal"]

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

_MAX_WAITING: Final = 1024
"""Records kept while the disk takes none; past it a fresh snapshot stands for them all."""

_COMPACT_AFTER: Final = 1024 * 1024
"""Bytes that a journal may grow beyond its last compaction: some thousand changes. Making it short takes a moment."""

_COMPACTING: Final = threading.Lock()
"""One run's journal at a time: the records of a long one take ten times its size, for a moment."""

_LOOK: Final = 0.2
"""Seconds to allow for someone who only looks whether the journal is open; a run holds it far longer."""


class Journal:
    """The open journal of one run. Not safe for concurrent use: a run has one thread.

    `meta` and `snapshot` make the records that a new file starts with, from the run as it is then.
    """

    def __init__(self, directory: str, run: str, *, meta: Callable[[], Record], snapshot: Callable[[], Record]) -> None:
        self._directory = directory
        self._name = journal_name(run)
        self._path = os.path.join(directory, self._name)
        self._stage = os.path.join(directory, stage_name(run))
        self._meta = meta
        self._snapshot = snapshot
        self._descriptor: int | None = None
        self._seq = 1
        self._version = FIRST_VERSION
        self._length = 0
        self._settled = 0  # bytes that the last compaction left: another makes sense only well beyond them
        self._waiting: list[Record] = []
        self._torn = False
        self._name_flushed = False
        self._problem: OSError | None = None
        self._made = False
        self._forgotten: Record = {}
        """What the first record adds in place of a file that was lost under its holder."""

    def open(self) -> Summary | None:
        """Open and lock an existing journal, cut off a torn tail, and return what it says; None if there is none.

        Raises:
            RunBusyError: another holder lives.
            JournalError: it is damaged (nothing is touched then) or cannot be read.
        """
        try:
            while (descriptor := files.open_regular(self._path, None, os.O_RDWR)) is not None:
                try:
                    if not files.try_lock(descriptor, patience=_LOOK):
                        raise _busy(self._name)
                    status = os.fstat(descriptor)
                    if status.st_nlink:
                        return self._adopt(descriptor, status)
                except BaseException:
                    files.close(descriptor)
                    raise
                files.close(descriptor)  # removed between opening and locking: look again
            try:
                status = os.lstat(self._path)
            except FileNotFoundError:
                return None
        except OSError as error:
            raise JournalError(
                f"cannot open the journal {self._path}: {error.strerror}; check its permissions or --journal-dir"
            ) from error
        if stat.S_ISREG(status.st_mode):
            raise _busy(self._name)  # made a moment ago, by who is opening it
        raise JournalError(f"{self._path} is not a regular file; remove it or use another run id")

    def _adopt(self, descriptor: int, status: os.stat_result) -> Summary | None:
        try:
            found = summary(contents(descriptor, status))
            if found is not None:
                mine = self._meta()
                check_owner(found.first, mine["run"], mine["identity"])
        except DamagedError as error:
            raise JournalError(f"{error.problem.format(path=self._path)}, {error}; {error.remedy}") from error
        self._descriptor = descriptor
        self._length = found.length if found else 0
        self._seq = found.number + 1 if found else 1
        self._version = found.first["version"] if found else FIRST_VERSION
        self._torn = status.st_size > self._length
        self._settled = found.first.get("compacted", 0) if found else 0
        with suppress(OSError):
            os.unlink(self._stage)  # of a holder that died while it made the journal short
        return found

    def start(self, records: Sequence[Record]) -> None:
        """Make the file of a new run, with `records` after its first one.

        Raises:
            RunBusyError: another process made it at the same time.
            JournalError: it cannot be made, for another reason than a full disk (which may yet free up).
        """
        self.append(records, durable=bool(records))
        problem = self._problem
        if problem is not None and problem.errno in (errno.EBUSY, errno.EEXIST):
            raise _busy(self._name) from problem
        if problem is not None and problem.errno not in _FULL:
            what = _lost_directory(self._directory, problem) or (
                f"{problem.strerror}; make its directory one that this user can write, or set --journal-dir"
            )
            raise JournalError(f"cannot write the journal {self._path}: {what}") from problem

    def append(self, records: Sequence[Record], *, durable: bool = False) -> None:
        """Add `records`, and all that wait, in order. If the disk does not take them, they wait (`unsaved`).

        With `durable` they have reached the disk on return, not only the kernel.
        """
        if len(self._waiting) >= _MAX_WAITING:
            self._waiting = [self._snapshot()]
        self._waiting += records
        try:
            self._write(durable)
        except OSError as error:
            self._problem = error
        else:
            self._problem = None
            if self._length - self._settled > _COMPACT_AFTER:
                self._compact()

    @property
    def is_lost(self) -> bool:
        """Whether somebody removed, renamed, replaced or cut the file under its holder, as logrotate does.

        The next append makes it anew, or tells why it can't.
        """
        if self._descriptor is None:
            return False
        try:
            status = os.fstat(self._descriptor)
            return status.st_size < self._length or not os.path.samestat(status, os.lstat(self._path))
        except FileNotFoundError:
            return True
        except OSError:
            return False  # nobody knows; the next append will meet the same trouble, and tell

    @property
    def unsaved(self) -> str | None:
        """Why the last append did not reach the file, without a path; None if it did."""
        if self._problem is None:
            return None
        if self._problem.errno == errno.EEXIST:
            return "another file took the name of the run's journal; move it away"
        return _lost_directory(self._directory, self._problem) or self._problem.strerror or "the write failed"

    def _write(self, durable: bool) -> None:
        descriptor = self._descriptor
        if descriptor is None or self.is_lost:
            descriptor = self._create()
        if self._torn:
            os.ftruncate(descriptor, self._length)
            self._torn = False
        # An opened file that held no whole record yet starts like a new one.
        records = self._waiting if self._seq > 1 else [{**self._meta(), **self._forgotten}, *self._waiting]
        # The first record of a later version raises the version that the first line tells, before it is written.
        version = max([self._version, *map(version_of, records)])
        if version > self._version and self._seq > 1:
            self._replace(of_version(version, _read(descriptor, self._length)))
            descriptor = self._descriptor or descriptor
        self._version = version
        if self._seq == 1:
            records[0]["version"] = version
        data = b"".join(encode(record, seq) for seq, record in enumerate(records, self._seq))
        if not data:
            return
        self._torn = True
        try:
            os.lseek(descriptor, self._length, os.SEEK_SET)
            files.write_all(descriptor, data)
            if durable:
                files.flush(descriptor)
                self._flush_name()
        except OSError:
            # Take back a part that was written: the file must stay replayable for the next reader.
            os.ftruncate(descriptor, self._length)
            self._torn = False
            raise
        self._torn = False
        self._length += len(data)
        self._seq += len(records)
        self._waiting = []

    def _compact(self) -> None:
        """Put a short journal in the place of a long one. If that fails the long one goes on, and is tried later."""
        if not _COMPACTING.acquire(blocking=False):
            return  # another run's is under way; the next append tries again
        # The module of `compacted` is loaded here, as few runs ever get here; so that may fail too.
        try:
            with suppress(OSError, DamagedError, ImportError):
                found = None if self._descriptor is None else replay(_read(self._descriptor, self._length))
                if found is not None:
                    from .compact import compacted

                    self._replace(compacted(found))
            self._settled = self._length
        finally:
            _COMPACTING.release()

    def _replace(self, data: bytes) -> None:
        """Put a file with `data` in the place of this one, whole.

        Raises:
            OSError: it did not work, or somebody put another file there; this one goes on.
        """
        old = self._descriptor
        # Somebody who removed the file, or put another in its place, has the last word.
        if old is None or not os.path.samestat(os.fstat(old), os.lstat(self._path)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self._path)
        with suppress(FileNotFoundError):
            os.unlink(self._stage)  # of an attempt that failed
        new = files.create_exclusively(self._stage, None)
        try:
            # Locked before it has its name: there is no moment at which the run's journal is free. Who waits for the
            # lock of the old file finds that it has no name any more.
            if not files.try_lock(new):
                raise BlockingIOError(errno.EBUSY, os.strerror(errno.EBUSY), self._stage)
            files.write_all(new, data)
            files.flush(new)
            os.rename(self._stage, self._path)
        except BaseException:
            files.close(new)
            with suppress(OSError):
                os.unlink(self._stage)
            raise
        self._descriptor, self._length = new, len(data)
        self._seq = data.count(b"\n") + 1
        self._name_flushed = False
        files.close(old)
        self._flush_name()

    def _create(self) -> int:
        """A new file: the run's first, or one in place of a file that was deleted under it."""
        old = self._descriptor
        if old is not None and files.has_name(old, self._path):
            # Cut short where it has its name still: what is left of it would be taken for damage.
            with suppress(OSError):
                os.ftruncate(old, 0)
            self.close()
            self._lose()
            old = None
        files.make_private_directory(self._directory)
        while True:
            descriptor = files.create_or_take_empty(self._path)
            try:
                is_free = files.try_lock(descriptor, patience=_LOOK)
            except OSError:
                # No lock is to be had now. An empty file is taken up again by the next attempt.
                files.close(descriptor)
                raise
            if not is_free:
                # Another process found the file before this one had locked it, and holds the run now.
                files.close(descriptor)
                raise BlockingIOError(errno.EBUSY, os.strerror(errno.EBUSY), self._path)
            status = os.fstat(descriptor)
            if status.st_size:  # somebody began the run meanwhile, and has ended since
                files.close(descriptor)
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self._path)
            if status.st_nlink:
                break
            files.close(descriptor)  # a person's command removed it, as one without a record: make it again
        if old is not None:
            # Only now: while no new file can be made, the old one may come back, as with a directory moved away.
            files.close(old)
            self._lose()
        self._descriptor, self._length, self._seq, self._settled = descriptor, 0, 1, 0
        self._made = True
        self._torn = self._name_flushed = False
        return descriptor

    def _lose(self) -> None:
        """Note that the file which told of the run until now is gone. Authority is known here; the history is not."""
        self._waiting.insert(0, self._snapshot())
        self._forgotten = {"forgotten": timestamp()}
        log.warning(
            "a journal was moved or cut under its run; authority is saved anew, its history not", file=self._name
        )

    def _flush_name(self) -> None:
        if not self._name_flushed:
            with files.open_directory(self._directory) as directory:
                files.flush(directory)
            self._name_flushed = True

    def remove(self) -> None:
        """Remove the file, if it is still the one under its name, and let go of it."""
        self.close(discard=True)

    def close(self, *, discard: bool = False) -> None:
        """Let go of the file and its lock. What waits is lost. A new file that nothing could be written to goes."""
        if self._descriptor is not None:
            if discard or (self._made and not self._length and not self._forgotten):
                with suppress(OSError):
                    if files.has_name(self._descriptor, self._path):
                        os.unlink(self._path)
            files.close(self._descriptor)
            self._descriptor = None


def _busy(name: str) -> RunBusyError:
    return RunBusyError(
        f"run {name.removesuffix('.jsonl')} is open in another process; end that one first, or use another run id"
    )


def _lost_directory(directory: str, problem: OSError) -> str | None:
    """What to do, if the trouble is that the directory is not the one any more in which this process may write."""
    if problem.errno == errno.EACCES and not os.path.isdir(directory):
        return "the journal directory is missing; put it back, and restart the sidecar if it was made anew"
    if problem.errno == errno.EACCES and files.is_permitted(directory):
        return "the journal directory was replaced while in use; restart the sidecar"
    return None


def _read(descriptor: int, length: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    return files.read_up_to(descriptor, length)

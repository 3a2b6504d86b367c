"""Listing many runs: how those that are over stood when they were last read is kept, so that only the others are read.

What is kept is a cache in the directory of whoever lists, never beside the journals. It holds for a journal whose name,
inode, size and time of change (of content, mode or owner) are still the same. Without it, or where any of it is not as
this program wrote it, journals are read, and it is made anew. A run that is not over is always read, as it may have
ended, or be open. What a failing disk changes goes unseen here; `doctor`, `runs show` and `runs --saw` read all of a
journal.
"""

import os
import time
from binascii import crc32
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedWriter
from typing import Final

from ..named_tuple import NamedTuple
from ..system import files
from .directory import identities, identity_directory, run_names
from .ledger import Journaled, aside, journal, older_journals
from .terms import REASONS, journal_name

__all__ = ["SETTLED", "WORTH_KEEPING", "Listed", "as_listed", "listed"]

_HEAD: Final = b"memory-sidecar standings 2\n"
WORTH_KEEPING: Final = 1000
"""Journals from which on it pays to keep how they stood; fewer are read in a moment."""
SETTLED: Final = 2 * 10**9
"""Nanoseconds after which the next change surely has another time, on whatever file system."""
_BLOCK: Final = 1000
"""Lines under one checksum: to read the cache is a tenth of what a listing takes."""
_BLOCK_BYTES: Final = 1 << 20
"""More than as many lines ever have."""


class Listed(NamedTuple):
    """A run as a row of a listing: the members are those of `ledger.Journaled`."""

    run: str
    state: str
    identity: str
    created: str
    updated: str
    held: int
    unusable: Journaled | None
    """The journal, if it cannot be used."""


def listed(directory: str, identity: str | None, cache: str | None) -> Iterator[Listed]:
    """The journals that `ledger.journals` yields; how they stood is kept in the file `cache` from time to time.

    Raises:
        OSError: the directory, or one of an identity, cannot be read.
    """
    kept = _read(cache) if cache is not None else iter(())
    writer = _Writer(cache if identity is None else None)
    newest = next(kept, None)
    try:
        for name in identities(directory) if identity is None else [identity]:
            own = identity_directory(directory, name)
            for run in run_names(own):
                marks = _marks(f"{own}/{journal_name(run)}")
                while newest is not None and (newest[0], newest[1]) < (name, run):
                    newest = next(kept, None)
                if newest is not None and newest[1] == run and newest[0] == name and newest[2] == marks != "":
                    writer.add(newest)
                    yield Listed(run, newest[3], name, newest[4], newest[5], int(newest[6]), None)
                elif (found := journal(own, run, name)) is not None:
                    if (new := _kept(name, run, marks, found)) is not None:
                        writer.add(new)
                        writer.more = True
                    yield as_listed(found)
            yield from map(as_listed, aside(own, name))
        writer.keep()
    finally:
        writer.close()
    yield from map(as_listed, older_journals(directory, identity))


def as_listed(found: Journaled) -> Listed:
    """What a listing tells of a journal that was read."""
    unusable = found._replace(data=b"") if found.problem else None
    return Listed(found.run, found.state, found.identity, found.created, found.updated, found.held, unusable)


def _marks(path: str) -> str:
    """What tells that a journal is as it was; "" where nothing does.

    Of one that changed just now nothing does: another change within the clock's tick would have the same time.
    """
    try:
        status = os.lstat(path)
    except OSError:
        return ""
    if abs(time.time_ns() - status.st_ctime_ns) < SETTLED:
        return ""
    return f"{status.st_ino} {status.st_size} {status.st_ctime_ns}"


# --- the cache -----------------------------------------------------------------------------------------------------

_Kept = tuple[str, str, str, str, str, str, str]
"""Identity, run, marks, state, created, updated, and how many notes it has authority over: a line of the cache."""


def _kept(name: str, run: str, marks: str, found: Journaled) -> _Kept | None:
    """What to keep of a journal that is listed as `run` of the identity `name`; None if it is read at each listing."""
    if (
        not marks or found.state not in REASONS or (found.identity, found.run) != (name, run)
    ):  # open, or on a disk without case
        return None
    new = (name, run, marks, found.state, found.created, found.updated, str(found.held))
    # A text with a tab or a line break, which nobody writes, would forge lines of the cache.
    return new if "".join(new).isascii() and "".join(new).isprintable() else None


def _read(path: str) -> Iterator[_Kept]:
    """What is kept, in the order of a listing, as far as it is whole."""
    with suppress(OSError, ValueError), open(path, "rb") as file:
        if file.readline(len(_HEAD)) != _HEAD:
            return
        while header := file.readline(32):
            length, summed = int(header[:8], 16), int(header[8:], 16)
            block = file.read(min(length, _BLOCK_BYTES))
            if crc32(block) != summed:
                return
            for line in block.decode().split("\n"):
                name, run, marks, state, created, updated, held = line.split("\t")
                yield name, run, marks, state, created, updated, held


class _Writer:
    """The cache made anew, beside the one in use."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._file: BufferedWriter | None = None
        self._count = 0
        self._lines: list[str] = []
        self.more = False
        """It says more than the one in use."""
        if path is not None:
            with suppress(OSError):
                files.make_private_directory(os.path.dirname(path))
                self._file = os.fdopen(files.create_exclusively(self._stage, None), "wb")
                self._file.write(_HEAD)

    @property
    def _stage(self) -> str:
        return f"{self._path}.{os.getpid()}"

    def add(self, kept: _Kept) -> None:
        if self._file is not None:
            self._lines.append("\t".join(kept))
            self._count += 1
            if len(self._lines) == _BLOCK:
                self._write()

    def _write(self) -> None:
        block = "\n".join(self._lines).encode()
        self._lines.clear()
        if self._file is not None:
            try:
                self._file.write(b"%08x%08x\n%s" % (len(block), crc32(block), block))
            except OSError:
                self.close()

    def keep(self) -> None:
        """Put it in the place of the one in use, if it says more."""
        if self._lines:
            self._write()
        if self._file is not None and self._count >= WORTH_KEEPING and self.more:
            with suppress(OSError):
                self._file.flush()
                os.replace(self._stage, self._path or "")

    def close(self) -> None:
        if self._file is not None:
            file, self._file = self._file, None
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                os.unlink(self._stage)

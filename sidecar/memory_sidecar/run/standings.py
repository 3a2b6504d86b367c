"""Listing many runs: how those that are over stood when they were last read is kept, so that only the others are read.

What is kept is a cache in the directory of whoever lists, never beside the journals. It holds for a journal whose name,
inode, size and time of change (of content, mode or owner) are still the same. Without it, or where any of it is not as
this program wrote it, journals are read, and it is made anew. A run that is not over is always read, as it may have
ended, or be open. What a failing disk changes goes unseen here; `doctor`, `runs show` and `runs --saw` read all of a
journal.
"""

import os
from binascii import crc32
from collections.abc import Iterator
from contextlib import suppress
from io import BufferedWriter
from typing import Final

from ..named_tuple import NamedTuple
from ..system import files
from .directory import identities, identity_directory, journal_name, run_names
from .glance import Standing
from .kinds import REASONS
from .ledger import Journaled, journal, older_journals

__all__ = ["WORTH_KEEPING", "listed"]

_HEAD: Final = b"memory-sidecar standings 1\n"
WORTH_KEEPING: Final = 1000
"""Journals from which on it pays to keep how they stood; fewer are read in a moment."""


class _Kept(NamedTuple):
    """How a run stood when its journal was read."""

    key: tuple[str, str]
    """Its identity and id."""
    marks: tuple[int, int, int]
    standing: Standing
    line: bytes
    """As the cache has it."""


def listed(directory: str, identity: str | None, cache: str | None) -> Iterator[Journaled]:
    """The journals that `ledger.journals` yields, without their data, kept in the file `cache` from time to time.

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
                path = f"{own}/{journal_name(run)}"
                marks = _marks(path)
                while newest is not None and newest.key < (name, run):
                    newest = next(kept, None)
                if newest is not None and newest.key == (name, run) and newest.marks == marks:
                    writer.copy(newest.line)
                    yield Journaled(path, run, name, newest.standing.state, False, "", newest.standing, b"")
                elif (found := journal(own, run, name)) is not None:
                    writer.add(marks, found)
                    yield found._replace(data=b"")
        writer.keep()
    finally:
        writer.close()
    yield from older_journals(directory, identity)


def _marks(path: str) -> tuple[int, int, int]:
    """What tells that a journal is as it was."""
    try:
        status = os.lstat(path)
    except OSError:
        return 0, 0, 0
    return status.st_ino, status.st_size, status.st_ctime_ns


# --- the cache -----------------------------------------------------------------------------------------------------


def _read(path: str) -> Iterator[_Kept]:
    """What is kept, in the order of a listing, as far as it is whole."""
    with suppress(OSError, ValueError), open(path, "rb") as file:
        if file.readline() != _HEAD:
            return
        for line in file:
            body, _, summed = line[:-1].rpartition(b"\t")
            if int(summed, 16) != crc32(body):
                return
            identity, run, inode, size, changed, state, held, created, updated = body.decode().split("\t")
            standing = Standing({}, state, "", int(held), created, updated)
            yield _Kept((identity, run), (int(inode), int(size), int(changed)), standing, line)


class _Writer:
    """The cache made anew, beside the one in use."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._file: BufferedWriter | None = None
        self._count, self._new = 0, False
        if path is not None:
            with suppress(OSError):
                files.make_private_directory(os.path.dirname(path))
                self._file = os.fdopen(files.create_exclusively(self._stage, None), "wb")
                self._file.write(_HEAD)

    @property
    def _stage(self) -> str:
        return f"{self._path}.{os.getpid()}"

    def add(self, marks: tuple[int, int, int], found: Journaled) -> None:
        """Keep how the run stood, if it is over."""
        if found.state in REASONS:
            told = (found.identity, found.run, *map(str, marks), found.state, str(found.held))
            body = "\t".join((*told, found.created, found.updated))
            if body.isascii() and body.replace("\t", "").isprintable():
                self.copy(b"%s\t%08x\n" % (body.encode(), crc32(body.encode())))
                self._new = True

    def copy(self, line: bytes) -> None:
        """Keep what was kept before."""
        self._count += 1
        if self._file is not None:
            try:
                self._file.write(line)
            except OSError:
                self.close()

    def keep(self) -> None:
        """Put it in the place of the one in use, if it says more."""
        if self._file is not None and self._count >= WORTH_KEEPING and self._new:
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

"""Which notes there are, without reading their bodies: what a look has told of an unchanged file is kept."""

import errno
import os
import time
from collections.abc import Container

from ...hints import Final
from ...store.contract import Item
from ...store.document import HEADER_BYTES, UNREADABLE, parse_description
from ...store.errors import UnreadableError
from ...store.rules import MAX_ENTRIES, MAX_READ_BYTES, check_capacity, is_key
from ...system import files
from ...system.counting import count_ending
from .entry import SUFFIX

__all__ = ["Listing", "check_room"]

_SETTLED_NS: Final = 100_000_000
"""A file younger than this when it was looked at may change again within one tick of the file system's clock, so
its time stamps prove nothing yet. Coarser than any tick of a clock that counts fractions of a second."""

_SETTLED_COARSE_NS: Final = 2_100_000_000
"""The same where a stamp has no fraction: FAT counts in steps of two seconds, some network file systems in seconds."""


class Listing:
    """The lines that were made, each kept for as long as its file is surely unchanged."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[_Stamp, Item]] = {}

    def items(self, directory: int) -> list[Item]:
        """Every note of the open directory, sorted by key."""
        # Built anew each time, so that deleted notes leave it; swapped whole, so that threads may race.
        known, kept = self._kept, dict[str, tuple[_Stamp, Item]]()
        items = []
        now = time.time_ns()
        for name in names(directory, known):
            line = known.get(name)
            # The common case of a warm listing: one system call.
            if line is not None:
                try:
                    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if line[0] == _stamp(status):
                    kept[name] = line
                    items.append(line[1])
                    continue
            looked = _look(directory, name)
            if looked is not None:
                description, seen = looked
                item = Item(name.removesuffix(SUFFIX), description)
                items.append(item)
                if seen is not None and _is_settled(seen, now):
                    kept[name] = (_stamp(seen), item)
        self._kept = kept
        return sorted(items)


def _look(directory: int, name: str) -> tuple[str, os.stat_result | None] | None:
    """The description of one note, and its status where that may be kept; None if there is no such note (any more)."""
    try:
        opened = files.open_with_status(name, directory)
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
    except (PermissionError, UnreadableError):
        return UNREADABLE, None
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return UNREADABLE, None  # a bad block under one note must not hide the others
    return description, status


_Stamp = tuple[int, int, int, int]


def _is_settled(status: os.stat_result, now: int) -> bool:
    """Whether the file's time stamps, seen at `now`, would tell any later change."""
    changed, written = status.st_ctime_ns, status.st_mtime_ns
    tick = _SETTLED_NS if changed % 1_000_000_000 and written % 1_000_000_000 else _SETTLED_COARSE_NS
    return abs(now - changed) > tick and abs(now - written) > tick


def _stamp(status: os.stat_result) -> _Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def names(directory: int, known: Container[str] = ()) -> list[str]:
    """The file names of all entries. Links, FIFOs, directories and illegal names are not entries.

    `known` are names that were entries, so surely legal ones.
    """
    with os.scandir(directory) as entries:
        return [
            entry.name
            for entry in entries
            if (entry.name in known or (entry.name.endswith(SUFFIX) and is_key(entry.name.removesuffix(SUFFIX))))
            and entry.is_file(follow_symlinks=False)
        ]


def check_room(directory: int) -> None:
    """Raise `StoreFullError` if there is no room for one more entry. The caller holds the directory's lock."""
    # Names that are no entries count too at first. Only where that is too many does it matter what each one is.
    if count_ending(directory, SUFFIX) >= MAX_ENTRIES:
        check_capacity(len(names(directory)))

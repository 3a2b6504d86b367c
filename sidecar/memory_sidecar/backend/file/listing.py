"""Which notes there are, without reading their bodies: what a look has told of an unchanged file is kept."""

import errno
import os
import time
from collections.abc import Callable
from operator import attrgetter

from ...hints import Final
from ...store.contract import Item
from ...store.document import HEADER_BYTES, UNREADABLE, parse_description
from ...store.errors import UnreadableError
from ...store.rules import MAX_ENTRIES, MAX_READ_BYTES, are_keys, check_capacity, is_key
from ...system import files
from ...system.counting import count_ending
from .entry import SUFFIX

__all__ = ["Listing", "check_room", "keys"]

_SETTLED_NS: Final = 100_000_000
"""A file younger than this when it was looked at may change again within one tick of the file system's clock, so
its time stamps prove nothing yet. Coarser than any tick of a clock that counts fractions of a second."""

_SETTLED_COARSE_NS: Final = 2_100_000_000
"""The same where a stamp has no fraction: FAT counts in steps of two seconds, some network file systems in seconds."""


_Stamp = tuple[int, int, int, int]
_Line = tuple[_Stamp | None, Item]
"""A note as a listing shows it, and what its file's status then was; None where that proves nothing."""

_stamp: Callable[[os.stat_result], _Stamp] = attrgetter("st_ino", "st_size", "st_mtime_ns", "st_ctime_ns")


class Listing:
    """The newest listing. Each of its lines is kept for as long as the note's file is surely unchanged."""

    def __init__(self) -> None:
        self._kept: tuple[dict[str, _Line], list[Item]] = {}, []

    def items(self, directory: int) -> list[Item]:
        """Every note of the open directory, sorted by key."""
        (known, items), now = self._kept, time.time_ns()
        found, changed = keys(directory), set()
        for key in found:
            line = known.get(key)
            # The common case of a warm listing: one system call.
            if line is not None:
                try:
                    if _stamp(os.stat(key + SUFFIX, dir_fd=directory, follow_symlinks=False)) == line[0]:
                        continue
                except FileNotFoundError:
                    pass
            changed.add(key)
        if not changed and len(found) == len(items):
            return items.copy()
        # Built anew, so that deleted notes leave it; swapped whole, so that threads may race.
        lines, items = dict[str, _Line](), []
        for key in sorted(found):
            line = _look(directory, key, now) if key in changed else known[key]
            if line is not None:
                items.append(line[1])
                if line[0] is not None:
                    lines[key] = line
        self._kept = lines, items
        return items.copy()


def _look(directory: int, key: str, now: int) -> _Line | None:
    """The line of one note, read at `now`; None if there is no such note (any more)."""
    try:
        opened = files.open_with_status(key + SUFFIX, directory)
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
        return None, Item(key, UNREADABLE)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return None, Item(key, UNREADABLE)  # a bad block under one note must not hide the others
    stamp = _stamp(status)
    # `Item(...)` takes three times as long, and a launch makes a thousand.
    return stamp if _is_settled(stamp, now) else None, tuple.__new__(Item, (key, description))


def _is_settled(stamp: _Stamp, now: int) -> bool:
    """Whether the file's time stamps, seen at `now`, would tell any later change."""
    _, _, written, changed = stamp
    if written <= changed < now - _SETTLED_COARSE_NS:
        return True  # by far the most
    tick = _SETTLED_NS if changed % 1_000_000_000 and written % 1_000_000_000 else _SETTLED_COARSE_NS
    return abs(now - changed) > tick and abs(now - written) > tick


def keys(directory: int) -> set[str]:
    """The keys of all entries. Links, FIFOs, directories and illegal names are not entries."""
    with os.scandir(directory) as entries:
        # A set: a directory that is changed meanwhile may tell a name twice.
        found = {
            entry.name[: -len(SUFFIX)]
            for entry in entries
            if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False)
        }
    return found if are_keys(found) else {key for key in found if is_key(key)}


def check_room(directory: int) -> None:
    """Raise `StoreFullError` if there is no room for one more entry. The caller holds the directory's lock."""
    # Names that are no entries count too at first. Only where that is too many does it matter what each one is.
    if count_ending(directory, SUFFIX) >= MAX_ENTRIES:
        check_capacity(len(keys(directory)))

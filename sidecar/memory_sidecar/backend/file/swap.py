"""Replacing and removing the very note that is expected, beside writers that take no lock.

The directory's lock keeps our own sidecars apart. An editor, a sync program or another implementation takes none, so
between a look at a note and a rename over it somebody may have saved. Therefore nothing is renamed over: the new note
and what stands there change places in one step, and then what came out is looked at. If it is what was expected, it is
removed. If not, it was saved since, and goes back. A removal is the same without a new note: rename aside, look, remove
or put back.

What is aside has a name that tells what it may be, so that after a crash the next start knows: the expected note and
one that nobody acknowledged are removed, and a save that was displaced goes back under its key, or stays where it is if
its key was written since. All of this happens under the directory's lock.

What cannot be noticed: a program that has opened the old note, writes into it only after it was looked at, and did not
empty it on opening. Where the file system or the kernel cannot exchange names (`system.exchange`), a replacement is a
rename over, and what is saved in the instant between look and rename is lost.
"""

import errno
import os
from contextlib import suppress

from ...hints import Final
from ...store.contract import ANYTHING, Expected
from ...store.errors import ConflictError, OutcomeUnknownError, UnreadableError
from ...store.rules import MAX_READ_BYTES
from ...system import exchange, files, staging
from .entry import SUFFIX, revision_of, stored

__all__ = ["remove", "replace", "sweep"]

_DIGITS: Final = 16
"""Of a revision, in a name: 249 bytes with the longest key, and a name may have 255."""
_NOTHING: Final = "0" * _DIGITS
"""In the place of the new note's revision, where there is none."""
_ASIDE: Final = r"([0-9a-f]{16})-([0-9a-f]{16})-[0-9a-f]{8}-(.*)"
"""What follows the prefix in such a name."""
_ROUNDS: Final = 100
"""How often something is put back while others save. Each round is one more save within microseconds."""


def replace(directory: int, stage: str, key: str, revision: str, expected: str) -> None:
    """Give the staged file, whose revision is `revision`, the key's name, in place of the note `expected`.

    Raises:
        ConflictError: that is not there; what is stays, or is back.
        OutcomeUnknownError: it could not be put back; it is in the directory, under a hidden name.
    """
    name = key + SUFFIX
    aside = _set_aside(directory, stage, key, expected, revision)
    try:
        if not exchange.exchange(directory, aside, name):
            staging.publish_over(directory, aside, name)
            return
    except FileNotFoundError:
        _drop(directory, aside)
        raise ConflictError(absent=True) from None
    except OSError:
        _drop(directory, aside)
        raise
    try:
        met = _look(directory, aside)
    except OSError:
        _put_back(directory, aside, name, revision, None)
        raise
    if met != expected:
        _put_back(directory, aside, name, revision, met)
        raise ConflictError(absent=False)
    _drop(directory, aside)


def remove(directory: int, key: str, expected: Expected, largest: int = MAX_READ_BYTES) -> str | None:
    """Remove the note `expected`. Returns its revision; None if nothing has the key's name.

    `largest` is as of `entry.stored`.

    Raises:
        ConflictError: another note is there; it stays, or is back.
    """
    name = key + SUFFIX
    try:
        aside = _set_aside(directory, name, key, expected if isinstance(expected, str) else _NOTHING, _NOTHING)
    except FileNotFoundError:
        return None  # somebody who takes no lock was faster
    try:
        met = _look(directory, aside, largest)
    except OSError:
        _restore(directory, aside, name)
        raise
    if met is None or expected not in (ANYTHING, met):
        _restore(directory, aside, name)
        raise ConflictError(absent=False)
    try:
        os.unlink(aside, dir_fd=directory)
    except OSError:
        _restore(directory, aside, name)
        raise
    return met


def sweep(directory: int) -> list[str]:
    """Settle what crashed processes left aside. Returns the names of what stays: saves that were displaced and whose
    keys were written since."""
    kept = []
    if any(name.startswith(exchange.ASIDE_PREFIX) for name in os.listdir(directory)):
        import re

        is_aside = re.compile(re.escape(exchange.ASIDE_PREFIX) + _ASIDE).fullmatch
        with files.locked(directory):  # nobody is in the middle of an exchange
            for name in os.listdir(directory):
                found = is_aside(name)
                if found is not None and not _settle(directory, name, found[1], found[2], found[3] + SUFFIX):
                    kept.append(name)
    return kept


def _settle(directory: int, aside: str, expected: str, revision: str, name: str) -> bool:
    """Whether nothing stays aside."""
    with suppress(OSError, OutcomeUnknownError):
        met = _look(directory, aside)
        if met is None:
            return False
        if met[:_DIGITS] in (expected, revision):
            os.unlink(aside, dir_fd=directory)
            return True
        if name == SUFFIX:
            return False
        standing = _look(directory, name)
        if standing is None and revision == _NOTHING:
            staging.publish_new(directory, aside, name)
            _drop(directory, aside)
            return True
        if standing is not None and standing[:_DIGITS] == revision:
            _put_back(directory, aside, name, standing, met)
            return True
    return False


def _set_aside(directory: int, name: str, key: str, expected: str, revision: str) -> str:
    """Rename something; the new name tells what it may be."""
    aside = f"{exchange.ASIDE_PREFIX}{expected[:_DIGITS]}-{revision[:_DIGITS]}-{os.urandom(4).hex()}-"
    for full in (aside + key, aside):
        try:
            os.rename(name, full, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError as error:
            # File systems that encrypt names have shorter ones (143 bytes for eCryptfs). Then the key is left out.
            if error.errno != errno.ENAMETOOLONG or full == aside:
                raise
        else:
            return full
    raise AssertionError("one of the two is the last")


def _look(directory: int, name: str, largest: int = MAX_READ_BYTES) -> str | None:
    """The revision of what has the name; None if it is no note, or may not be read."""
    try:
        document = stored(directory, name, largest)
    except UnreadableError:
        return None
    return None if document is None else revision_of(document)


def _put_back(directory: int, aside: str, name: str, above: str, met: str | None) -> None:
    """Exchange what is aside, of revision `met`, and what was put in its place, of revision `above`.

    If that is no longer there, it is a newer save, which goes back in turn.

    Raises:
        OutcomeUnknownError: that cannot be done.
    """
    below: str | None = above
    try:
        for _ in range(_ROUNDS):
            if not exchange.exchange(directory, aside, name):
                break
            out = _look(directory, aside)
            if out is not None and out == below:
                _drop(directory, aside)
                return
            below, met = met, out
    except FileNotFoundError:
        # Somebody removed the note after it was saved: both are gone then.
        _drop(directory, aside)
        return
    except OSError as error:
        raise OutcomeUnknownError(above) from error
    raise OutcomeUnknownError(above)


def _restore(directory: int, aside: str, name: str) -> None:
    """Give what is aside its name again, unless somebody has saved anew under it.

    Raises:
        OutcomeUnknownError: that cannot be done.
    """
    try:
        if not exchange.rename_new(directory, aside, name):
            staging.publish_new(directory, aside, name)
            _drop(directory, aside)
    except FileExistsError:
        _drop(directory, aside)
    except OSError as error:
        raise OutcomeUnknownError from error


def _drop(directory: int, aside: str) -> None:
    # The change is made or taken back by now: an error here must not hide that, and the next start sweeps.
    with suppress(OSError):
        os.unlink(aside, dir_fd=directory)

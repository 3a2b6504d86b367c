"""What `doctor` finds in a directory that notes or journals are kept in, and of its disk. Nothing is changed."""

import os
import stat
from contextlib import suppress
from typing import Final

from ...system import disk, files, staging
from ..shared.remedy import quoted
from .check import Check, Checks, wrong

__all__ = ["check_directory", "litter"]

_LITTLE: Final = 16 * 1024 * 1024
"""Free bytes under which a disk soon refuses notes: a full store takes four times as much."""
_FEW: Final = 64
"""Free inodes under which it does."""


def litter(check: str, directory: str) -> Checks:
    """Temporary files that nobody writes any more, and that the last start could not remove."""
    with suppress(OSError):
        found = staging.stale(directory)
        if found:
            yield Check(
                "temporary-files",
                check,
                "note",
                f"{len(found)} temporary files of writers that died are in {directory}, and could not be removed",
                f"rm {' '.join(quoted(os.path.join(directory, name)) for name in found)}",
            )


def check_directory(check: str, directory: str, option: str, read_only: bool = False, vouch: str = "") -> Checks:
    """Whether a directory is there, or can be made, and is private; whether its disk has room.

    With `read_only` one that is there only has to be readable; for `vouch` see `disk.refusal`.
    """
    existing = directory
    while not os.path.lexists(existing) and os.path.dirname(existing) != existing:
        existing = os.path.dirname(existing)
    change = f"make it a directory that this user can read and write, or set {option}"
    if not os.path.isdir(existing):
        yield Check(
            "directory-unusable", check, "wrong", f"cannot use {directory}: {existing} is not a directory", change
        )
        return
    if read_only and existing == directory:
        if os.access(directory, os.R_OK | os.X_OK):
            yield Check("directory", check, "ok", f"{directory}, to be read only")
        else:
            yield Check(
                "directory-unusable", check, "wrong", f"cannot use {directory}: it is not readable by this user", change
            )
        return
    space = os.statvfs(existing)
    if space.f_flag & os.ST_RDONLY:
        mount = f"mount it writable, or set {option}"
        yield Check("disk-read-only", check, "wrong", f"cannot use {directory}: its disk is read-only", mount)
        return
    if not _may_write(existing):
        if os.stat(existing).st_uid == os.geteuid() and not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
            change = f"chmod u+rwx {quoted(existing)}"
        yield Check(
            "directory-unusable",
            check,
            "wrong",
            f"cannot use {directory}: {existing} is not writable by this user",
            change,
        )
        return
    yield from _disk(check, directory, existing, vouch)
    if existing != directory:
        yield Check("directory-missing", check, "ok", f"{directory} will be made at the first start")
    else:
        yield _privacy(check, directory, option)
    free, inodes = space.f_bavail * space.f_frsize, space.f_favail
    # Some file systems count no inodes.
    if free < _LITTLE or (space.f_files and inodes < _FEW):
        full = not free or (space.f_files and not inodes)
        code, state = ("disk-full", "wrong") if full else ("disk-nearly-full", "note")
        yield Check(
            code, check, state, f"only {free // 1024} KiB are free on its disk", "free space, or use another disk"
        )


def _disk(check: str, directory: str, existing: str, vouch: str) -> Checks:
    with suppress(OSError):
        found = disk.inspect(existing)
        refused = disk.refusal(directory, found, vouch=vouch)
        if refused is not None:
            yield wrong("disk-unfit", check, refused)
        if not found.flushes:
            yield Check(
                "disk-cannot-flush",
                check,
                "note",
                f"{directory}: {disk.CANNOT_FLUSH}",
                "use a directory on a local disk",
            )


def _may_write(directory: str) -> bool:
    # Kernel file systems (/proc, /sys) let root write, as far as access(2) tells, and make no file all the same.
    with suppress(OSError), files.open_directory(directory) as opened:
        if os.access(directory, os.R_OK | os.W_OK | os.X_OK) and os.fstat(opened).st_nlink:
            return os.path.realpath(directory).split(os.sep)[1] not in ("proc", "sys")
    return False


def _privacy(check: str, directory: str, option: str) -> Check:
    status = os.stat(directory)
    mode = stat.S_IMODE(status.st_mode)
    mend = f"chmod 700 {quoted(directory)}"
    if directory == os.path.dirname(directory) or mode & stat.S_ISVTX:
        # One that all programs share: nobody can want it to be closed to the others.
        mend = f"use a directory of its own: set {option}"
    if mode & 0o002:
        what = f"any user may put files into {directory} (mode {mode:04o})"
        return Check("directory-writable-by-others", check, "wrong", what, mend)
    if status.st_uid != os.geteuid():
        return Check(
            "directory-open-to-others",
            check,
            "note",
            f"{directory} belongs to another user",
            f"chown -R {quoted(_user())} {quoted(directory)}, if it should not",
        )
    if mode & 0o077:
        what = f"{directory} is open to other users (mode {mode:04o})"
        return Check("directory-open-to-others", check, "note", what, mend)
    return Check("directory", check, "ok", directory)


def _user() -> str:
    import pwd

    with suppress(KeyError):
        return pwd.getpwuid(os.geteuid()).pw_name
    return str(os.geteuid())

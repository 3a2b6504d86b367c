"""What the file system under a directory can do, found by trying it: locks, flushing, and whether machines share it.

Whoever refuses a directory for such a reason, or tells of one, takes the words from here: `serve`, `info` and `doctor`
then say the same.
"""

import os
import sys
from contextlib import suppress

from ..hints import Final
from ..named_tuple import NamedTuple
from ..remedy import RemedyError
from . import files

__all__ = ["CANNOT_FLUSH", "Disk", "inspect", "is_read_only", "refusal"]

CANNOT_FLUSH: Final = (
    "its file system cannot flush a directory: after a power cut the newest changes may be gone, however they were "
    "acknowledged"
)

_NETWORK: Final = frozenset(
    ("9p", "afs", "cifs", "fakeowner", "hgfs", "ncpfs", "nfs", "nfs4", "prl_fs", "smb3", "smbfs", "vboxsf", "virtiofs")
)
"""Kinds that several machines may have at once, each perhaps with locks of its own. Cluster file systems that share
flock(2) among all machines (ceph, gfs2, ocfs2, gpfs) are not among them, nor is Lustre, which has it shared or not
at all."""

_LOCAL_FUSE: Final = frozenset(
    ("fuse.bindfs", "fuse.encfs", "fuse.fuse-overlayfs", "fuse.gocryptfs", "fuse.mergerfs", "fuse.ntfs-3g")
)
"""Kinds that are served by a process of this machine, from directories or disks of this machine."""

_MAGIC: Final = {0x01021997: "9p", 0x517B: "smbfs", 0x6969: "nfs", 0x65735546: "fuse", 0xFE534D42: "smb3"} | {
    0x5346414F: "afs",
    0xFF534D42: "cifs",
    0x786F4256: "vboxsf",
}
"""statfs(2), where /proc does not tell. virtiofs has the number of fuse."""


class Disk(NamedTuple):
    """What was found of a file system."""

    kind: str
    """Its type as mount(8) has it; "" where the system doesn't tell."""
    no_locks: str
    """Why advisory locks don't work; "" if they do."""
    flushes: bool
    """Whether a directory can be flushed to the disk."""

    @property
    def is_shared(self) -> bool:
        """Whether other machines may have it too, without sharing its locks."""
        return self.kind in _NETWORK or (self.kind.startswith("fuse") and self.kind not in (*_LOCAL_FUSE, "fuseblk"))


def inspect(directory: str) -> Disk:
    """Try what the file system under `directory` can do. Nothing in it is changed.

    Raises:
        OSError: it cannot be opened.
    """
    with files.open_directory(directory) as opened:
        no_locks = ""
        try:
            files.try_lock(opened, shared=True)
        except OSError as error:
            no_locks = error.strerror or str(error)
        try:
            flushes = files.flush(opened)
        except OSError:
            flushes = True  # it failed this time, which is another thing than not being able to
        return Disk(_kind(opened, directory), no_locks, flushes)


def is_read_only(path: str) -> bool:
    """Whether `path`, or where it would be made, is mounted read-only. A failed access alone doesn't tell: it says
    that permission is denied."""
    while not os.path.lexists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    try:
        return bool(os.statvfs(path).f_flag & os.ST_RDONLY)
    except OSError:
        return False


def refusal(directory: str, disk: Disk, *, vouch: str = "") -> RemedyError | None:
    """Why `directory` cannot be written by several sidecars that rely on locks; None if it can.

    With `vouch` an update must find what its run has read. Where machines share a directory but not its locks, no
    sidecar can promise that, unless an operator vouches by this setting that one machine alone writes there.
    """
    if disk.no_locks:
        return RemedyError(
            f"cannot use {directory}: its file system has no locks ({disk.no_locks})", "use a directory on a local disk"
        )
    if vouch and disk.is_shared:
        return RemedyError(
            f"cannot guard updates in {directory}: it is on a network file system ({disk.kind}), whose locks other "
            "machines may not see",
            f"use a directory on a local disk, or, if this machine alone writes there, set {vouch}",
        )
    return None


def _kind(descriptor: int, directory: str) -> str:
    """The type of the file system that an open directory is on."""
    with suppress(OSError, ValueError, IndexError):
        with open(f"/proc/self/fdinfo/{descriptor}", "rb") as file:
            fields = dict(line.split(b":", 1) for line in file.read().splitlines())
        mount = fields[b"mnt_id"].strip()
        with open("/proc/self/mountinfo", "rb") as file:
            for line in file:
                head, _, tail = line.partition(b" - ")
                if head.split(b" ", 1)[0] == mount:
                    return os.fsdecode(tail.split(b" ")[0])
    return _magic_kind(directory) if sys.platform == "linux" else ""


def _magic_kind(directory: str) -> str:
    import ctypes

    buffer = ctypes.create_string_buffer(512)  # struct statfs starts with f_type, a word
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.statfs(os.fsencode(directory), buffer) != 0:
        return ""
    word = int.from_bytes(buffer.raw[: ctypes.sizeof(ctypes.c_long)], sys.byteorder)
    return _MAGIC.get(word & 0xFFFFFFFF, "")

"""File systems of many kinds, each made in a file or directory of its own, and mounted while a test needs it."""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

__all__ = ["DISKS", "Disk", "NotHereError", "mounted"]


class NotHereError(Exception):
    """This machine cannot mount it. The text says why."""


class Disk(NamedTuple):
    """`make` mounts it at the second directory, and may use the first for what lies below."""

    make: Callable[[Path, Path], None]
    guard: str = "works"
    """What comes of the guard: `works`; `vouch` (it needs the operator's word that one machine alone writes there)."""
    start: str = ""
    """Words of the start's refusal; "" where it serves."""
    flushes: bool = True
    """Whether it can flush a directory."""
    longest: int = 255
    """Bytes of the longest name."""
    folds_case: bool = False
    """Whether names that differ by case are one."""


def _run(*words: object) -> str:
    """What the program printed.

    Raises:
        NotHereError: it is not installed, failed, or does not end.
    """
    program = shutil.which(str(words[0]))
    if program is None:
        raise NotHereError(f"{words[0]} is not installed")
    try:
        done = subprocess.run(
            list(map(str, words)), capture_output=True, text=True, check=False, timeout=30, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise NotHereError(f"{words[0]} does not come to an end") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise NotHereError(f"{words[0]}: {said[0] if said else 'failed'}")
    return done.stdout.strip()


def _image(size: str, options: str, *make: str) -> Callable[[Path, Path], None]:
    """A disk in a file: made with `make`, mounted with `options`."""

    def mount(below: Path, at: Path) -> None:
        image = below / "image"
        with image.open("wb") as file:
            file.truncate(int(size) << 20)
        _run(*make, image)
        _run("mount", "-o", f"loop{options}", image, at)

    return mount


def _fuse_image(size: str, make: Sequence[str], *mount: str) -> Callable[[Path, Path], None]:
    """A disk in a file that a process serves; `{device}` is the file as a block device."""

    def serve(below: Path, at: Path) -> None:
        image = below / "image"
        with image.open("wb") as file:
            file.truncate(int(size) << 20)
        _run(*make, image)
        device = _run("losetup", "--find", "--show", image) if "{device}" in mount else ""
        try:
            _run(*(word.format(image=image, device=device, at=at) for word in mount))
        finally:
            if device:
                _run("losetup", "--detach", device)  # once it is unmounted

    return serve


def _served(*words: str, before: Sequence[str] = ()) -> Callable[[Path, Path], None]:
    """What a process makes of the directory `{below}`, or of two of them."""

    def serve(below: Path, at: Path) -> None:
        for name in ("lower", "upper", "work"):
            (below / name).mkdir(mode=0o700)
        (below / "password").write_text("secret\n")
        names = {name: below / name for name in ("lower", "upper", "work", "password")}
        if before:
            _run(*(word.format(at=at, **names) for word in before))
        _run(*(word.format(at=at, **names) for word in words))

    return serve


def _tmpfs(options: str) -> Callable[[Path, Path], None]:
    return lambda _, at: _run("mount", "-t", "tmpfs", "-o", f"size=16m,mode=700,{options}", "tmpfs", at)


def _casefold(below: Path, at: Path) -> None:
    _image("16", "", "mkfs.ext4", "-q", "-O", "casefold", "-E", "encoding=utf8")(below, at)
    shutil.rmtree(at / "lost+found")
    _run("chattr", "+F", at)


def _sshfs(below: Path, at: Path) -> None:
    server = Path("/usr/lib/openssh/sftp-server")
    if not server.exists():
        raise NotHereError(f"{server} is not installed")
    connect = below / "connect"
    connect.write_text(f"#!/bin/sh\nexec {server}\n")
    connect.chmod(0o700)
    _served("sshfs", "-o", f"ssh_command={connect}", "nowhere:{lower}", "{at}")(below, at)


def _squashfs(below: Path, at: Path) -> None:
    (below / "tree").mkdir()
    _run("mksquashfs", below / "tree", below / "image", "-quiet")
    _run("mount", "-o", "loop", below / "image", at)


def _read_only(below: Path, at: Path) -> None:
    _tmpfs("nodev")(below, at)
    _run("mount", "-o", "remount,ro", at)


_LAYERS: Final = "lowerdir={lower},upperdir={upper},workdir={work}"
_EXT4: Final = ("mkfs.ext4", "-q", "-F")
_NTFS: Final = ("mkfs.ntfs", "-q", "-F")
_GOCRYPTFS: Final = ("gocryptfs", "-q", "-passfile", "{password}")
_ENCFS: Final = ("encfs", "--standard", "--extpass", "cat {password}", "{lower}", "{at}")

DISKS: Final[dict[str, Disk]] = {
    "tmpfs": Disk(_tmpfs("nodev")),
    "tmpfs, nosuid, noexec, nodev": Disk(_tmpfs("nosuid,noexec,nodev")),
    "ext4, small inodes": Disk(_image("96", "", "mkfs.ext4", "-q", "-I", "128", "-b", "1024")),
    "ext4, no journal, few inodes": Disk(_image("16", "", "mkfs.ext4", "-q", "-O", "^has_journal", "-N", "64")),
    "ext4, names without case": Disk(_casefold, folds_case=True),
    "ext2": Disk(_image("16", "", "mkfs.ext2", "-q")),
    "xfs": Disk(_image("320", "", "mkfs.xfs", "-q")),
    "btrfs": Disk(_image("128", "", "mkfs.btrfs", "-q")),
    "overlay": Disk(_served("mount", "-t", "overlay", "overlay", "-o", _LAYERS, "{at}")),
    "fuse-overlayfs": Disk(_served("fuse-overlayfs", "-o", _LAYERS, "{at}")),
    "bindfs": Disk(_served("bindfs", "{lower}", "{at}"), guard="vouch"),
    "mergerfs": Disk(_served("mergerfs", "{lower}:{upper}", "{at}")),
    "unionfs": Disk(_served("unionfs", "-o", "cow", "{upper}=RW:{lower}=RO", "{at}"), guard="vouch"),
    "gocryptfs": Disk(_served(*_GOCRYPTFS, "{lower}", "{at}", before=(*_GOCRYPTFS, "-init", "{lower}"))),
    "encfs": Disk(_served(*_ENCFS), longest=190),
    "sshfs": Disk(_sshfs, guard="vouch"),
    "fuse2fs": Disk(_fuse_image("16", _EXT4, "fuse2fs", "-o", "rw", "{image}", "{at}"), guard="vouch"),
    "ntfs-3g": Disk(_fuse_image("16", _NTFS, "ntfs-3g", "{device}", "{at}")),
    "ntfs, names without case": Disk(
        _fuse_image("96", _NTFS, "lowntfs-3g", "-o", "ignore_case", "{device}", "{at}"),
        folds_case=True,
    ),
    "exfat-fuse": Disk(_fuse_image("96", ("mkfs.exfat",), "mount.exfat-fuse", "{device}", "{at}"), folds_case=True),
    "fusefat": Disk(
        _fuse_image("16", ("mkfs.vfat",), "fusefat", "-o", "rw+", "{image}", "{at}"), "vouch", folds_case=True
    ),
    "squashfs": Disk(_squashfs, start="Read-only file system"),
    "tmpfs, read-only": Disk(_read_only, start="Read-only file system"),
}


@contextmanager
def mounted(name: str, place: Path) -> Iterator[Path]:
    """The disk, mounted below `place`, and gone again at the end.

    Raises:
        NotHereError: it cannot be mounted here.
    """
    below, at = place / "below", place / "disk"
    below.mkdir(parents=True)
    at.mkdir(mode=0o700)
    if os.geteuid():
        raise NotHereError("only root may mount")
    try:
        DISKS[name].make(below, at)
        if not os.path.ismount(at):
            raise NotHereError("it was not mounted after all")
        yield at
    finally:
        with suppress(OSError):
            subprocess.run(["umount", "--lazy", at], capture_output=True, check=False)

"""Directories on a disk that does not tell `Task-A` from `task-a`: a real one where this machine can make one, and a
simulation of the system's calls, for names below one place, everywhere.
"""

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

__all__ = ["mounted", "simulated"]


@contextmanager
def mounted(place: Path) -> Iterator[Path | None]:
    """A folding directory of an ext4 of its own; None where this user or kernel cannot have one."""
    image, mount = place / "image", place / "disk"
    mount.mkdir()
    image.write_bytes(b"")
    os.truncate(image, 16 * 1024 * 1024)

    def done(*words: object) -> bool:
        if shutil.which(str(words[0])) is None:
            return False
        return subprocess.run([str(word) for word in words], capture_output=True, check=False).returncode == 0

    made = done("mkfs.ext4", "-q", "-O", "casefold", image)
    if not made or os.geteuid() or not done("mount", "-o", "loop", image, mount):
        yield None
        return
    try:
        folding = mount / "folding"
        folding.mkdir()
        yield folding if done("chattr", "+F", folding) else None
    finally:
        done("umount", mount)


def simulated(place: Path, patch: pytest.MonkeyPatch) -> Path:
    """`place`, in which from now on a name finds what is called so but for case, if nothing is called so."""
    listdir = os.listdir

    def found(path: Any, directory: int | None) -> Any:
        if not isinstance(path, str) or not path:
            return path
        head, tail = os.path.split(path)
        if directory is None and head not in ("", "/") and head != str(place):
            head = found(head, None)
        if directory is None and not f"{head}/".startswith(f"{place}/"):
            return path
        try:
            names = listdir(directory if directory is not None and not head else head)
        except OSError:
            return path
        same = [tail] if tail in names else [name for name in names if name.lower() == tail.lower()]
        return os.path.join(head, same[0]) if same else os.path.join(head, tail)

    def folding(call: Callable[..., Any], paths: int, *named: str) -> Callable[..., Any]:
        def wrapped(*given: Any, **more: Any) -> Any:
            directories = [more.get(name) for name in named] or [None]
            first = [
                found(
                    os.fspath(path) if isinstance(path, os.PathLike) else path,
                    directories[min(place, len(directories) - 1)],
                )
                for place, path in enumerate(given[:paths])
            ]
            return call(*first, *given[paths:], **more)

        return wrapped

    for name in ("open", "stat", "lstat", "mkdir", "unlink", "rmdir", "access", "scandir"):
        patch.setattr(os, name, folding(getattr(os, name), 1, *(() if name == "scandir" else ("dir_fd",))))
    for name in ("link", "rename"):
        patch.setattr(os, name, folding(getattr(os, name), 2, "src_dir_fd", "dst_dir_fd"))
    return place

"""Renaming with a condition, where the kernel and the file system can: renameat2(2), which no binding covers.

`native` is loaded by the first call: a process that never overwrites a file does without.
"""

import errno
import os
from functools import cache

from ..hints import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from .lockdown.kernel import Kernel

__all__ = ["ASIDE_PREFIX", "displaced", "exchange", "kernel", "rename_new"]

ASIDE_PREFIX: Final = ".swap-"
"""How the name of what was exchanged begins while it is looked at; and of what a crash left so and is to be kept."""

_NOREPLACE, _EXCHANGE = 1, 2
_CANNOT: Final = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM})
"""EINVAL: the file system has no such operation. ENOSYS: the kernel has none. EPERM is what filters of containers say;
where it means that the directory may not be changed, the plain rename that follows says so too."""


def exchange(directory: int, one: str, other: str) -> bool:
    """Let two names of the directory, whatever they are, change places in one step. False if that cannot be done here.

    Raises:
        FileNotFoundError: one of them is not there.
    """
    return _renamed(directory, one, other, _EXCHANGE)


def rename_new(directory: int, old: str, new: str) -> bool:
    """Rename, unless the new name is taken. False if that cannot be done here.

    Raises:
        FileExistsError: it is taken, by whatever it may be.
        FileNotFoundError: the old one is not there.
    """
    return _renamed(directory, old, new, _NOREPLACE)


def displaced(path: str) -> list[str]:
    """Names in the directory `path` of what was set aside and neither removed nor put back, as a crash leaves it."""
    with os.scandir(path) as entries:
        return sorted(entry.name for entry in entries if entry.name.startswith(ASIDE_PREFIX))


def _renamed(directory: int, old: str, new: str, flags: int) -> bool:
    system = kernel()
    if system is None:
        return False
    names = [system.buffer(os.fsencode(name) + b"\0") for name in (old, new)]
    result = system.call("renameat2", directory, names[0], directory, names[1], flags)
    if -result in _CANNOT:
        return False
    if result:
        raise OSError(-result, os.strerror(-result))
    return True


@cache
def kernel() -> "Kernel | None":
    """The kernel's calls that no binding covers; None on a machine whose numbers for them are not known."""
    from .lockdown.kernel import Kernel, machine

    found, _ = machine()
    return None if found is None else Kernel(found)

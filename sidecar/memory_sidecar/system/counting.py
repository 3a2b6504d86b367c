"""How many names of a directory end in a certain way, told by one call of the kernel where that can be made directly.

`os.listdir` gives up the interpreter's lock and takes it again for each name, and makes a text of each. A directory's
lock is held meanwhile, and other threads get in between: at a thousand names that was more than all the rest of a
create.
"""

import os

from ..hints import TYPE_CHECKING, Final
from . import exchange

if TYPE_CHECKING:
    from .native import Buffer

__all__ = ["count_ending"]

_BUFFER: Final = 1 << 16
"""Bytes of entries that the kernel tells at once: some two thousand names."""

_spare: "Final[list[Buffer]]" = []
"""Buffers that nobody uses now. To get the pages of a new one took longer than all the rest where names are few."""


def count_ending(directory: int, ending: str) -> int:
    """How many names in the open directory end so, whatever they are. Never fewer than there are; rarely more."""
    raw = _count_raw(directory, ending.encode() + b"\0")
    return sum(name.endswith(ending) for name in os.listdir(directory)) if raw is None else raw


def _count_raw(directory: int, ending: bytes) -> int | None:
    """The same by getdents64(2), in whose entries a zero byte ends each name; None where that cannot be called.

    The eight bytes of an offset may look like an ending too, which hardly ever happens. Then the count is too high.
    """
    try:
        system = exchange.kernel()
    except (ImportError, OSError):  # a Python without `_ctypes`, or no descriptor left to load it
        return None
    if system is None:
        return None
    count = 0
    buffer = _spare.pop() if _spare else system.buffer(bytes(_BUFFER))
    while (length := system.call("getdents64", directory, buffer, len(buffer))) > 0:
        count += buffer[:length].count(ending)
        system.clear(buffer, length)  # the kernel leaves what was in the padding between two names
    _spare.append(buffer)
    os.lseek(directory, 0, os.SEEK_SET)  # as `os.listdir` does at its end: whoever reads on begins at the first name
    return count if length == 0 else None

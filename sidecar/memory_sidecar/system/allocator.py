"""How the C library's allocator is to behave in a process of many short threads."""

import sys
from contextlib import suppress

from ..hints import Final

__all__ = ["settle"]

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h of glibc

_MAPPED: Final = 128 * 1024
"""Bytes from which on a block is mapped by itself: glibc's own value to begin with. Setting it keeps glibc from raising
it to the largest frame ever seen, below which it would give nothing back."""

_KEPT: Final = 1024 * 1024
"""Bytes that may stay free at the heap's end: what a listing takes is not given back after each."""


def settle() -> None:
    """Have all threads allocate from one place, and large blocks given back to the system when they are freed.

    glibc gives each thread an arena of its own, up to eight for each processor, and what one thread allocates and
    another frees stays there: memory would grow in steps as runs come and go. Here one thread at a time runs Python, so
    they don't wait for each other. Called before the first thread is started. Other C libraries have no such setting.
    """
    if sys.platform != "linux":
        return
    from .native import function

    with suppress(AttributeError, OSError):  # musl has no such function
        mallopt = function("mallopt", 2)
        for setting, value in ((_M_ARENA_MAX, 1), (_M_MMAP_THRESHOLD, _MAPPED), (_M_TRIM_THRESHOLD, _KEPT)):
            mallopt(setting, value)

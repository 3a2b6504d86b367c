"""Functions of the C library that no module of Python offers, by the code in C that `ctypes` itself calls.

`ctypes` defines some fifty classes that nobody asks for here: a twentieth of a launch. What is used of `_ctypes` is
what `ctypes.CDLL` and `create_string_buffer` are made of, the same from Python 3.11 to 3.14. Loaded when first needed:
a Python may lack it.
"""

import _ctypes

from ..hints import Any

__all__ = ["Buffer", "address", "buffer", "clear", "error_number", "function"]

address = _ctypes.addressof
error_number = _ctypes.get_errno


class _Long(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001 - all that there is
    _type_ = "l"


class _Char(_ctypes._SimpleCData):  # type: ignore[type-arg]  # noqa: SLF001 - the same
    _type_ = "c"


class _Function(_ctypes.CFuncPtr):
    """Takes words of the machine and returns one: as `int`, an argument would leave half a register undefined."""

    _flags_ = _ctypes.FUNCFLAG_CDECL | _ctypes.FUNCFLAG_USE_ERRNO
    _restype_ = _Long


Buffer = Any
"""Bytes at an address of their own, which the kernel may change; their content is `raw`."""


def function(name: str, arguments: int) -> _Function:
    """The function of the C library with this name, which takes so many words.

    Raises:
        OSError: there is none, or no library that can be asked.
    """
    itself: Any = None  # the program, with all that it has loaded
    found = _Function(_ctypes.dlsym(_ctypes.dlopen(itself, 0), name))
    found.argtypes = [_Long] * arguments
    return found


def buffer(content: bytes) -> Buffer:
    made: Buffer = (_Char * len(content))()
    made.raw = content
    return made


_memset = function("memset", 3)


def clear(made: Buffer, length: int) -> None:
    """Make the first `length` bytes of a buffer zeros."""
    _memset(address(made), 0, length)

"""The calls of the kernel that a lock makes itself: no binding covers them. `ctypes` is loaded by the first."""

import errno
import os
import sys

from ...hints import TYPE_CHECKING
from .tables import CONDITIONAL, MACHINES, REFUSED, USED, Machine

if TYPE_CHECKING:
    import ctypes

__all__ = ["Kernel", "machine", "name_of"]


class Kernel:
    """The few calls this needs, made directly: no binding covers them."""

    def __init__(self, machine: Machine) -> None:
        import ctypes

        self.ctypes = ctypes
        self.machine = machine
        libc = ctypes.CDLL(None, use_errno=True)
        self._syscall = libc.syscall
        # Every argument as a full register: an `int` would leave its upper half undefined.
        self._syscall.argtypes = [ctypes.c_long] * 7
        self._syscall.restype = ctypes.c_long

    def call(self, name: str, *arguments: "int | ctypes.Array[ctypes.c_char] | None") -> int:
        """The result, or minus the error number."""
        numbers = REFUSED.get(name) or CONDITIONAL.get(name) or USED[name]
        words = [
            self.ctypes.addressof(argument) if isinstance(argument, self.ctypes.Array) else argument or 0
            for argument in arguments
        ]
        words += [0] * (6 - len(words))
        result: int = self._syscall(numbers[self.machine.column], *words)
        return result if result != -1 else -self.ctypes.get_errno()

    def buffer(self, content: bytes) -> "ctypes.Array[ctypes.c_char]":
        return self.ctypes.create_string_buffer(content, len(content))

    def address(self, array: "ctypes.Array[ctypes.c_char]") -> int:
        return self.ctypes.addressof(array)


def machine() -> tuple[Machine | None, str]:
    """This machine's column, or why there is none."""
    if sys.platform != "linux":
        return None, f"not available on {sys.platform}: the rights are given up through Linux calls"
    name = os.uname().machine
    known = MACHINES.get(name)
    if known is None or sys.maxsize < 2**32:
        bits = 64 if sys.maxsize > 2**32 else 32
        return None, f"not available on a {bits}-bit program on {name}: only x86_64 and aarch64 are known"
    return known, ""


def name_of(number: int) -> str:
    """An error by its name."""
    return errno.errorcode.get(number, str(number))

"""The calls of the kernel that a lock makes itself: no binding covers them. `native` is loaded by the first."""

import errno
import os
import sys

from ...hints import TYPE_CHECKING
from .tables import CONDITIONAL, MACHINES, REFUSED, USED, Machine

if TYPE_CHECKING:
    from ..native import Buffer

__all__ = ["Kernel", "machine", "name_of"]


class Kernel:
    """The few calls this needs, made directly: no binding covers them."""

    def __init__(self, machine: Machine) -> None:
        from .. import native

        self.machine = machine
        self.buffer = native.buffer
        self.address = native.address
        self.clear = native.clear
        self._error_number = native.error_number
        self._syscall = native.function("syscall", 7)

    def call(self, name: str, *arguments: "int | Buffer | None") -> int:
        """The result, or minus the error number."""
        numbers = REFUSED.get(name) or CONDITIONAL.get(name) or USED[name]
        words = [
            argument if isinstance(argument, int) else 0 if argument is None else self.address(argument)
            for argument in arguments
        ]
        words += [0] * (6 - len(words))
        result: int = self._syscall(numbers[self.machine.column], *words)
        return result if result != -1 else -self._error_number()


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

"""Runs a program with fewer system calls, or otherwise confined, in this very process: a wrapper for tests.

    python confined.py [--missing NAME,...] [--denied NAME,...] [--only FILE] [--no-new-code] -- PROGRAM ARGUMENT...

What is missing answers ENOSYS, as in a kernel or a sandbox that doesn't have it; what is denied EPERM, as by a
container's or a service manager's filter. `--only` names a file with the calls that are left, one a line; the others
are denied.
"""

import ctypes
import errno
import os
import struct
import subprocess
import sys
from typing import Final

_RETURN, _LOAD, _EQUAL = 0x06, 0x20, 0x15
_ALLOW: Final = 0x7FFF0000
_ERROR: Final = 0x00050000
_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _PR_SET_MDWE = 22, 38, 65


def number_of(name: str) -> int | None:
    """The number of a system call here; None if this machine has no such call, or no header that tells."""
    return _numbers().get(name)


def _numbers() -> dict[str, int]:
    if not _NUMBERS:
        done = subprocess.run(
            ["cc", "-E", "-dM", "-include", "sys/syscall.h", "-x", "c", "/dev/null"],
            capture_output=True,
            text=True,
            check=False,
        )
        for line in done.stdout.splitlines():
            words = line.split()
            if len(words) == 3 and words[1].startswith("__NR_") and words[2].isdecimal():
                _NUMBERS[words[1].removeprefix("__NR_")] = int(words[2])
    return _NUMBERS


_NUMBERS: Final[dict[str, int]] = {}


def instruction(code: int, operand: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, true, false, operand)


def program(answers: dict[int, int], otherwise: int) -> bytes:
    """A filter that gives each call its answer."""
    code = instruction(_LOAD, 0)  # the call's number
    for number, answer in answers.items():
        code += instruction(_EQUAL, number, 0, 1) + instruction(_RETURN, answer)
    return code + instruction(_RETURN, otherwise)


def confine(missing: list[str], denied: list[str], only: list[str]) -> None:
    answers = {_numbers()[name]: _ERROR | errno.ENOSYS for name in missing if name in _numbers()}
    answers |= {_numbers()[name]: _ERROR | errno.EPERM for name in denied if name in _numbers()}
    answers |= {_numbers()[name]: _ALLOW for name in only if name in _numbers()}
    code = program(answers, _ERROR | errno.EPERM if only else _ALLOW)
    libc = ctypes.CDLL(None, use_errno=True)
    kept = ctypes.create_string_buffer(code)
    header = struct.pack("@HP", len(code) // 8, ctypes.addressof(kept))
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if libc.prctl(_PR_SET_SECCOMP, 2, ctypes.create_string_buffer(header), 0, 0):
        sys.exit(f"cannot confine: {os.strerror(ctypes.get_errno())}")


def main(words: list[str]) -> None:
    at = words.index("--")
    options, command = words[:at], words[at + 1 :]
    lists: dict[str, list[str]] = {"--missing": [], "--denied": [], "--only": []}
    while options:
        name = options.pop(0)
        if name == "--no-new-code":
            ctypes.CDLL(None).prctl(_PR_SET_MDWE, 1, 0, 0, 0)
        elif name == "--only":
            with open(options.pop(0)) as file:
                lists[name] = file.read().split()
        else:
            lists[name] = options.pop(0).split(",")
    if any(lists.values()):
        confine(*lists.values())
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])

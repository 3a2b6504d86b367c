"""Runs a function in a child process that is stopped at every system call, to kill it there or to spoil the call.

ptrace by hand (x86_64 Linux): a fork of this process costs milliseconds, so thousands of cuts are cheap, and the child
runs the real code against the real file system.
"""

import ctypes
import os
import platform
import signal
import sys
from collections.abc import Callable
from typing import NamedTuple

__all__ = ["AVAILABLE", "NAMES", "Stop", "run_traced"]

AVAILABLE = sys.platform == "linux" and platform.machine() == "x86_64"

_TRACEME, _PEEKUSER, _POKEUSER, _SYSCALL, _SETOPTIONS = 0, 3, 6, 24, 0x4200
_OPTIONS = 0x1 | 0x100000  # TRACESYSGOOD, EXITKILL
_RAX, _RDX, _ORIG_RAX = 10 * 8, 12 * 8, 15 * 8
_SYSCALL_STOP = signal.SIGTRAP | 0x80

# The calls through which the file system is reached: where an error is a fault of the disk and not of the machine.
NAMES = {
    0: "read",
    1: "write",
    2: "open",
    3: "close",
    4: "stat",
    5: "fstat",
    6: "lstat",
    8: "lseek",
    18: "pwrite64",
    21: "access",
    73: "flock",
    74: "fsync",
    75: "fdatasync",
    77: "ftruncate",
    82: "rename",
    83: "mkdir",
    86: "link",
    87: "unlink",
    217: "getdents64",
    257: "openat",
    258: "mkdirat",
    262: "newfstatat",
    263: "unlinkat",
    264: "renameat",
    265: "linkat",
    269: "faccessat",
    316: "renameat2",
    332: "statx",
}


class Stop(NamedTuple):
    """The child is about to make its system call `number`, the `count`th that a decision was asked about."""

    count: int
    number: int

    @property
    def name(self) -> str | None:
        return NAMES.get(self.number)


Decision = Callable[[Stop], "int | str | None"]
"""None lets the call happen, "kill" ends the child there, "short" halves a write, a number is an errno to fail with."""


def run_traced(work: Callable[[], bytes], decide: Decision) -> tuple[bytes | None, list[Stop]]:
    """What `work` returned in a traced child (None if it was killed or died), and the calls that it made.

    An exception in the child comes back as `b"raised: ..."`.
    """
    source, sink = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(work, source, sink)
    os.close(sink)
    try:
        stops = _trace(pid, decide)
        with os.fdopen(source, "rb") as answers:
            return answers.read() or None, stops
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        raise


def _child(work: Callable[[], bytes], source: int, sink: int) -> None:
    os.close(source)
    _ptrace(_TRACEME, 0, 0, 0)
    os.kill(os.getpid(), signal.SIGSTOP)
    try:
        answer = work()
    except BaseException as error:  # noqa: BLE001 - told to the parent
        answer = f"raised: {error!r}".encode()
    # Anything from here on is the harness receiving its answer; the mark ends the tracing.
    os.kill(os.getpid(), signal.SIGSTOP)
    os.write(sink, answer)
    os._exit(0)


def _trace(pid: int, decide: Decision) -> list[Stop]:
    stops: list[Stop] = []
    os.waitpid(pid, 0)
    _ptrace(_SETOPTIONS, pid, 0, _OPTIONS)
    entering, fail_with = True, 0
    while True:
        _ptrace(_SYSCALL, pid, 0, 0)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            return stops
        if os.WSTOPSIG(status) == signal.SIGSTOP:
            _ptrace(17, pid, 0, 0)  # detach: the rest is not ours to cut
            os.waitpid(pid, 0)
            return stops
        if os.WSTOPSIG(status) != _SYSCALL_STOP:
            continue
        if entering:
            stop = Stop(len(stops), _ptrace(_PEEKUSER, pid, _ORIG_RAX, 0))
            stops.append(stop)
            decision = decide(stop)
            if decision == "kill":
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return stops
            if decision == "short":
                _ptrace(_POKEUSER, pid, _RDX, max(1, _ptrace(_PEEKUSER, pid, _RDX, 0) // 2))
            elif isinstance(decision, int):
                fail_with = decision
                _ptrace(_POKEUSER, pid, _ORIG_RAX, -1)
        elif fail_with:
            _ptrace(_POKEUSER, pid, _RAX, -fail_with)
            fail_with = 0
        entering = not entering


if AVAILABLE:
    _libc = ctypes.CDLL(None, use_errno=True)
    _libc.ptrace.argtypes = [ctypes.c_long] * 4
    _libc.ptrace.restype = ctypes.c_long


def _ptrace(request: int, pid: int, address: int, data: int) -> int:
    # The raw calls that read return their value; glibc's wrapper does that for PEEKUSER.
    ctypes.set_errno(0)
    result: int = _libc.ptrace(request, pid, address, data)
    if result == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result

"""The two descriptors of the wire, and the process at their other end.

Only what a parent process made for its child is accepted: pipes or an unnamed socket pair. What another program
could reach by a name (a terminal, a FIFO, a network or named socket) is refused.
"""

import os
import stat
from collections.abc import Callable

__all__ = ["NotPrivateError", "claim", "watch_parent"]


class NotPrivateError(Exception):
    """A standard descriptor is not a private channel. The text says which, and who may start the program."""


def claim() -> tuple[int, int]:
    """Take stdin and stdout for the wire: the descriptors to read from and to write to.

    Afterwards descriptor 0 is empty and descriptor 1 is stderr, so that a stray read or print cannot touch the
    wire.

    Raises:
        NotPrivateError: one of them is not a pipe or an unnamed socket pair.
    """
    for descriptor, name in ((0, "stdin"), (1, "stdout")):
        if not _is_private(descriptor):
            raise NotPrivateError(f"{name} is not a pipe from a parent process")
    source, sink = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(null, 0)
    try:
        os.fstat(2)
    except OSError:  # started without a stderr; what goes there is dropped, not written to the next open file
        os.dup2(null, 2)
    os.dup2(2, 1)
    if null > 2:
        os.close(null)
    return source, sink


def _is_private(descriptor: int) -> bool:
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    if stat.S_ISFIFO(mode):
        try:
            # A FIFO in the file system has a path, a pipe has not. Where /proc is missing the two look alike.
            return not os.readlink(f"/proc/self/fd/{descriptor}").startswith("/")
        except OSError:
            return True
    return stat.S_ISSOCK(mode) and _is_unnamed_pair(descriptor)


def _is_unnamed_pair(descriptor: int) -> bool:
    import socket  # only parents that make socket pairs (Node) pay for it

    with socket.socket(fileno=os.dup(descriptor)) as channel:
        if channel.family != socket.AF_UNIX or channel.type != socket.SOCK_STREAM:
            return False
        try:
            return not channel.getsockname() and not channel.getpeername()
        except OSError:
            return False


def watch_parent() -> tuple[int | None, Callable[[], bool]]:
    """A descriptor that turns readable when the parent process dies, and a test whether it has.

    A pidfd tells of the process, not of the thread that started this one; and it tells even while another process
    holds the pipe open. Without it (None) the caller polls the test.
    """
    parent = os.getppid()
    descriptor: int | None = None
    if hasattr(os, "pidfd_open"):
        try:
            descriptor = os.pidfd_open(parent)
        except OSError:
            descriptor = None  # the parent is gone already, or this kernel or sandbox has none
    return descriptor, lambda: os.getppid() != parent

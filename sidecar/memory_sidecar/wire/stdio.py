"""The two descriptors of the wire, and the process at their other end.

Only what a parent process made for its child is accepted: pipes or an unnamed socket pair. What another program
could reach by a name (a terminal, a FIFO, a network or named socket) is refused.
"""

import errno
import os
import select
import stat
from collections.abc import Callable

from ..hints import Final
from ..named_tuple import NamedTuple

__all__ = [
    "PARENT_VARIABLE",
    "TICKET_VARIABLE",
    "NotPrivateError",
    "Parent",
    "claim",
    "receive",
    "send",
    "send_at_once",
    "watch_parent",
]

TICKET_VARIABLE: Final = "MEMORY_SIDECAR_TICKET"
"""The environment variable that names the file of the launch ticket: see `ticket`."""

PARENT_VARIABLE: Final = "MEMORY_SIDECAR_PARENT"
"""The environment variable in which a harness may say which process it is."""


class NotPrivateError(Exception):
    """A standard descriptor is not a private channel. The text says which, and who may start the program."""


def claim() -> tuple[int, int]:
    """Take stdin and stdout for the wire: the descriptors to read from and to write to. All three are open.

    Afterwards descriptor 0 is empty and descriptor 1 is stderr, so that a stray read or print cannot touch the
    wire.

    Raises:
        NotPrivateError: one of them is not a pipe or an unnamed socket pair.
        OSError: there is no descriptor left. 0 and 1 are as they were then.
    """
    for descriptor, name in ((0, "stdin"), (1, "stdout")):
        if not _is_private(descriptor):
            raise NotPrivateError(f"{name} is not a pipe from a parent process")
    taken: list[int] = []
    try:
        taken += [os.dup(0), os.dup(1)]
        empty = _open_empty()
    except OSError:
        for descriptor in taken:
            os.close(descriptor)
        raise
    source, sink = taken
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return source, sink


def _open_empty() -> int:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # a root directory without /dev
        empty, writer = os.pipe()
        os.close(writer)
        return empty


def receive(source: int, size: int) -> bytes | None:
    """What the channel holds, at most `size` bytes; b"" at its end, and None if there is nothing yet.

    Raises:
        OSError: the other end was reset.
    """
    try:
        return os.read(source, size)
    except BlockingIOError:  # it does not wait, and somebody else who shares it was faster
        return None


def send(sink: int, data: bytes) -> None:
    """Write every byte, however few the channel takes at a time.

    A launcher may have shared a channel that does not wait (Node, with `stdio: "inherit"`). The flag belongs to all who
    have the channel, so it is left as it is, and the waiting is done here.

    Raises:
        OSError: nobody reads it any more.
    """
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(sink, view) :]
        except BlockingIOError:
            room = select.poll()
            room.register(sink, select.POLLOUT)
            room.poll()


def send_at_once(sink: int, data: bytes) -> int | None:
    """Write what the channel takes without waiting, and return how many bytes; None if the system can't try that.

    What goes wrong is left to `send` to tell.
    """
    try:
        return os.pwritev(sink, [data], -1, os.RWF_NOWAIT)
    except OSError as error:
        return None if error.errno == errno.EOPNOTSUPP else 0  # a pipe of a Linux before 6.4


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


class Parent(NamedTuple):
    """Whose child this process is."""

    descriptors: tuple[int, ...]
    """Each turns readable when a process dies that this one depends on; none where the system has no such thing."""
    is_gone: Callable[[], bool]


def watch_parent(named: str = "") -> Parent:
    """Watch the process that launched this one, from now on, and the harness that `named` names.

    A pidfd tells of the process, not of the thread that started this one; and it tells even while another process
    holds the pipe open. Without it the caller polls `is_gone`.

    A parent that died before this was called left no trace: the system names another one in its place. So a harness may
    say who it is, as `PID@NAMESPACE`, the latter as `/proc/self/ns/pid` reads, since a number means nothing elsewhere.
    """
    parent = os.getppid()
    descriptors = []
    dead = False
    for pid in {parent, _named(named) or parent}:
        try:
            descriptors.append(os.pidfd_open(pid))
        except ProcessLookupError:
            dead = True
        except (AttributeError, OSError, OverflowError):
            pass  # this system or sandbox has none; or the parent is outside of this process's namespace
    return Parent(tuple(descriptors), lambda: dead or os.getppid() != parent)


def _named(text: str) -> int | None:
    """The process that the harness says it is; None if it doesn't, or says so in another namespace."""
    number, _, namespace = text.partition("@")
    try:
        return int(number) if number.isdecimal() and namespace == os.readlink("/proc/self/ns/pid") else None
    except (OSError, ValueError):
        return None

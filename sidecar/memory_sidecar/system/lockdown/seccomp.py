"""The filter that decides which system calls exist, as a program of classic BPF. Pure: it can be examined anywhere."""

import errno
import struct
from collections.abc import Iterable
from itertools import chain

from ...hints import Final
from ...named_tuple import NamedTuple
from .tables import CONDITIONAL, NEWEST, REFUSED, UNKNOWN, Machine, Numbers

__all__ = ["Check", "conditions", "program"]

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_VSOCK = 1, 2, 10, 16, 40
SOCK_STREAM, SOCK_DGRAM, SOCK_RAW = 1, 2, 3
SOCK_FLAGS: Final = 0o2004000  # SOCK_CLOEXEC | SOCK_NONBLOCK, the same on both machines
IPPROTO_TCP, IPPROTO_MPTCP = 6, 262
MSG_FASTOPEN: Final = 0x20000000
_CLONE_THREAD: Final = 0x00010000
_CLONE_NEW: Final = 0x7E020000  # NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 3, 4, 38
_PR_SET_PTRACER: Final = 0x59616D61

# What opening, polling and showing things needs: TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX,
# TCGETS2. All others act: on a device, on a terminal (TIOCSTI types into it), on a file's flags.
_HARMLESS_IOCTLS: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A)

# Copies, flags and record locks of a descriptor, and a pipe's size: F_DUPFD to F_SETLKW, F_OFD_GETLK to
# F_OFD_SETLKW, F_DUPFD_CLOEXEC, F_GETPIPE_SZ. All others act on somebody else: F_SETOWN, F_SETOWN_EX and F_SETSIG
# have the kernel send any signal to any process of the user (Landlock stops it from ABI 6 on only), F_SETLEASE delays
# whoever opens the file, F_NOTIFY watches a directory.
_OWN_FCNTLS: Final = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1032)


class Check(NamedTuple):
    """A condition on one 32-bit word of the arguments: masked, it is (or isn't) one of `values`."""

    word: int
    """Twice the argument's position; plus one for its upper half (both machines are little-endian)."""
    mask: int
    values: tuple[int, ...]
    wanted: bool = True


ALL: Final = 0xFFFFFFFF


def conditions(pid: int, connect: bool) -> dict[str, tuple[Check, ...]]:
    """When each conditional call is allowed: all its checks hold. No entry: never.

    Only words that the kernel itself looks at are compared, so garbage in an upper half decides nothing.
    """
    stream = Check(2, ALL & ~SOCK_FLAGS, (SOCK_STREAM,))
    allowed = {
        # Stream pairs only: a datagram pair can send to any other socket by its address.
        "socketpair": (Check(0, ALL, (AF_UNIX,)), stream),
        # MSG_FASTOPEN connects without `connect`, past Landlock; an address is for datagrams.
        "sendto": (Check(6, MSG_FASTOPEN, (0,)), Check(8, ALL, (0,)), Check(9, ALL, (0,))),
        "sendmsg": (Check(4, MSG_FASTOPEN, (0,)),),
        "sendmmsg": (Check(6, MSG_FASTOPEN, (0,)),),
        # Threads, never processes: those would outlive this one, and its harness.
        "clone": (Check(0, _CLONE_THREAD | _CLONE_NEW, (_CLONE_THREAD,)),),
        "kill": (Check(0, ALL, (pid,)),),
        "tgkill": (Check(0, ALL, (pid,)),),
        "prlimit64": (Check(0, ALL, (0, pid)),),
        "prctl": (Check(0, ALL, (PR_SET_DUMPABLE, _PR_SET_PTRACER), wanted=False),),
        "ioctl": (Check(2, ALL, _HARMLESS_IOCTLS),),
        "fcntl": (Check(2, ALL, _OWN_FCNTLS),),
    }
    if connect:
        # A protocol of 0 is TCP here; MPTCP and SMC are other protocols of the same type.
        allowed["socket"] = (
            Check(0, ALL, (AF_INET, AF_INET6)),
            stream,
            Check(4, ALL, (0, IPPROTO_TCP)),
        )
        allowed["connect"] = ()  # the ports are Landlock's: a filter can't read an address
    return allowed


# Classic BPF: load a word of `struct seccomp_data`, mask it, compare and jump, return.
_LOAD, _AND, _JUMP_EQUAL, _JUMP_GREATER, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x06
_DATA_NUMBER, _DATA_ARCH, _DATA_ARGUMENTS = 0, 4, 16
_ALLOW, _KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

_Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false (each over so many instructions), operand."""


def program(machine: Machine, pid: int, connect: bool) -> bytes:
    """The filter as `struct sock_filter[]`. Pure: it can be examined for a machine one doesn't have."""
    refuse: _Instruction = (_RETURN, 0, 0, ERRNO | errno.EPERM)
    unknown: _Instruction = (_RETURN, 0, 0, ERRNO | errno.ENOSYS)
    code: list[_Instruction] = [
        (_LOAD, 0, 0, _DATA_ARCH),
        # Another convention (32-bit code) has other numbers; nothing here speaks it by accident.
        (_JUMP_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _DATA_NUMBER),
        (_JUMP_GREATER, 0, 1, NEWEST),
        unknown,
    ]
    for number in _numbers(UNKNOWN, machine):
        code += [(_JUMP_EQUAL, 0, 1, number), unknown]
    for number in _numbers(REFUSED, machine):
        code += [(_JUMP_EQUAL, 0, 1, number), refuse]
    allowed = conditions(pid, connect)
    for name, numbers in CONDITIONAL.items():
        body = _allow_if(allowed[name], refuse) if name in allowed else [refuse]
        code += [(_JUMP_EQUAL, 0, len(body), numbers[machine.column] or 0), *body]
    code.append((_RETURN, 0, 0, _ALLOW))
    return struct.pack("=" + "HBBI" * len(code), *chain.from_iterable(code))


def _numbers(table: Numbers, machine: Machine) -> Iterable[int]:
    return (number for numbers in table.values() if (number := numbers[machine.column]) is not None)


def _allow_if(checks: tuple[Check, ...], refuse: _Instruction) -> list[_Instruction]:
    body: list[_Instruction] = []
    for check in checks:
        body.append((_LOAD, 0, 0, _DATA_ARGUMENTS + 4 * check.word))
        if check.mask != ALL:
            body.append((_AND, 0, 0, check.mask))
        last = len(check.values) - 1
        if check.wanted:  # equal to one: over the others and the refusal
            body += [(_JUMP_EQUAL, last - at + 1, 0, value) for at, value in enumerate(check.values)]
        else:  # equal to one: to the refusal; equal to none: over it
            body += [(_JUMP_EQUAL, last - at, 1 if at == last else 0, value) for at, value in enumerate(check.values)]
        body.append(refuse)
    body.append((_RETURN, 0, 0, _ALLOW))
    return body

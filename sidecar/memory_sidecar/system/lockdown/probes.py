"""Tries what must be impossible once a process is locked: a lock that doesn't hold is worse than none."""

import errno
import os
import struct
from collections.abc import Sequence

from ...hints import Any, Final
from .held import Held
from .kernel import Kernel
from .landlock import ABI_PORTS, root_is_listed
from .seccomp import (
    AF_INET,
    AF_INET6,
    AF_NETLINK,
    AF_UNIX,
    AF_VSOCK,
    IPPROTO_MPTCP,
    MSG_FASTOPEN,
    SOCK_DGRAM,
    SOCK_FLAGS,
    SOCK_RAW,
    SOCK_STREAM,
)

__all__ = ["probe"]


_DEVICE: Final = "/dev/null"
_TERMINAL: Final = "/dev/ptmx"
"""Everybody may open it, and gets a new terminal's other end; without lockdown that always succeeds."""
_F_SETOWN: Final = 8


def probe(kernel: Kernel, held: Held, writable: Sequence[str], ports: Sequence[int] | None) -> list[str]:
    """Try what must be impossible now; the names of what isn't.

    No probe changes anything even where it succeeds: sockets are closed again, `/dev/null` is only opened,
    and the others name what doesn't exist, so an open door shows itself by another error than EPERM.
    """
    outcomes: dict[str, bool] = {}
    if held.landlock_abi is not None:
        inside = any(_DEVICE.startswith(f"{os.path.realpath(path)}/") for path in writable)
        outcomes["writing outside the given directories"] = not inside and _opens(_DEVICE, os.O_WRONLY)
        outcomes["reading a terminal"] = not inside and root_is_listed() and _opens(_TERMINAL, os.O_RDONLY)
    if held.seccomp:
        outcomes |= _probe_calls(kernel)
        outcomes |= _probe_sockets(kernel, ports is not None)
    if ports is not None and held.seccomp and (held.landlock_abi or 0) >= ABI_PORTS:
        outcomes["connecting to another port"] = _connects(kernel, ports)
    return [name for name, possible in outcomes.items() if possible]


def _opens(path: str, how: int) -> bool:
    try:
        os.close(os.open(path, how | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _probe_calls(kernel: Kernel) -> dict[str, bool]:
    nowhere = kernel.buffer(b"/proc/self/none\0")
    attempts: dict[str, tuple[str, tuple[Any, ...]]] = {
        "binding": ("bind", (-1, None, 0)),
        "listening": ("listen", (-1, 1)),
        "accepting": ("accept4", (-1, None, None, 0)),
        "io_uring": ("io_uring_setup", (0, None)),
        "executing": ("execve", (nowhere, None, None)),
        "executing a descriptor": ("execveat", (-1, nowhere, None, None, 0)),
        "choosing whom a descriptor signals": ("fcntl", (-1, _F_SETOWN, 0)),
        "fast open": ("sendto", (-1, None, 0, MSG_FASTOPEN, None, 0)),
    }
    return {what: kernel.call(name, *args) != -errno.EPERM for what, (name, args) in attempts.items()}


def _probe_sockets(kernel: Kernel, connect: bool) -> dict[str, bool]:
    kinds = {
        "UDP": (AF_INET, SOCK_DGRAM, 0),
        "UDP over IPv6": (AF_INET6, SOCK_DGRAM, 0),
        "MPTCP": (AF_INET, SOCK_STREAM, IPPROTO_MPTCP),
        "raw sockets": (AF_INET, SOCK_RAW, 1),
        "unix sockets": (AF_UNIX, SOCK_STREAM, 0),
        "vsock": (AF_VSOCK, SOCK_STREAM, 0),
        "netlink": (AF_NETLINK, SOCK_RAW, 0),
    }
    if not connect:
        kinds["TCP"] = (AF_INET, SOCK_STREAM, 0)
        kinds["TCP over IPv6"] = (AF_INET6, SOCK_STREAM, 0)
    outcomes = {}
    for what, (family, kind, protocol) in kinds.items():
        result = kernel.call("socket", family, kind | SOCK_FLAGS, protocol)
        if result >= 0:
            os.close(result)
        outcomes[what] = result >= 0
    if not connect:
        outcomes["connecting"] = kernel.call("connect", -1, None, 0) != -errno.EPERM
        return outcomes
    tcp = kernel.call("socket", AF_INET, SOCK_STREAM | SOCK_FLAGS, 0)
    if tcp >= 0:  # listening binds by itself, to any free port of every address
        outcomes["listening without binding"] = kernel.call("listen", tcp, 1) != -errno.EPERM
        os.close(tcp)
    return outcomes


def _connects(kernel: Kernel, ports: Sequence[int]) -> bool:
    """Whether a port outside `ports` may be connected to: on this host, where nobody waits for it."""
    tcp = kernel.call("socket", AF_INET, SOCK_STREAM | SOCK_FLAGS, 0)
    if tcp < 0:
        return False
    try:
        port = next(port for port in range(1, 65536) if port not in ports)
        address = kernel.buffer(struct.pack("=HHI8x", AF_INET, _swap(port), _swap32(0x7F000001)))
        return kernel.call("connect", tcp, address, len(address)) != -errno.EACCES
    finally:
        os.close(tcp)


def _swap(value: int) -> int:
    return int.from_bytes(value.to_bytes(2, "big"), "little")


def _swap32(value: int) -> int:
    return int.from_bytes(value.to_bytes(4, "big"), "little")

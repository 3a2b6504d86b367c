"""Ports for servers that a test starts: found free here, and listened on a moment later by another process.

A port that the kernel gave out and took back is soon given to somebody else, such as a client of another test's broker,
and so is the port of a server that is stopped for a while. Those below the kernel's own range go to nobody by chance;
among the suite's processes, a name in the abstract socket namespace says whose a port is until its process ends.
"""

import random
import socket
import sys
from contextlib import suppress
from typing import Final

__all__ = ["free_port"]

_LOWEST: Final = 12_000


def _first_of_the_kernels() -> int:
    with suppress(OSError, ValueError), open("/proc/sys/net/ipv4/ip_local_port_range") as file:
        return int(file.read().split()[0])
    return 32_768


_CHANCE: Final = random.SystemRandom()  # not the generator that hypothesis seeds alike in every worker
_END: Final = max(_first_of_the_kernels(), _LOWEST + 1000)


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on, and that is this process's from now on."""
    while True:
        port = _CHANCE.randrange(_LOWEST, _END)
        if not _taken(port):
            continue
        with socket.socket() as tried, suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port


def _taken(port: int) -> bool:
    """Whether the port was nobody's among the suite's processes, and is this one's now."""
    if sys.platform != "linux":
        return True
    mark = socket.socket(socket.AF_UNIX)
    try:
        mark.bind(f"\0memory-sidecar-tests/{port}")
    except OSError:
        mark.close()
        return False
    mark.detach()  # open for as long as this process lives
    return True

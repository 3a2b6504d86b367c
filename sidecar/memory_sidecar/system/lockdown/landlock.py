"""Which files may be written, which TCP ports connected: rights by Landlock's version, and how they are given up."""

import errno
import os
import struct
from collections.abc import Iterable, Iterator, Sequence

from ...hints import Final
from .held import LockdownError
from .kernel import Kernel, name_of

__all__ = ["ABI_PORTS", "ABI_SCOPES", "landlock_abi", "restrict", "root_is_listed"]

_FS_EXECUTE, _FS_WRITE_FILE, _FS_READ_FILE, _FS_REMOVE_FILE, _FS_MAKE_REG = 1 << 0, 1 << 1, 1 << 2, 1 << 5, 1 << 8
_FS_REMOVE_DIR, _FS_MAKE_DIR = 1 << 4, 1 << 7
_FS_MAKE_OTHERS: Final = 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12  # devices, sockets, FIFOs, symlinks
_FS_REFER, _FS_TRUNCATE, _FS_IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_NET_BIND_TCP, _NET_CONNECT_TCP = 1 << 0, 1 << 1
_SCOPE_ABSTRACT_UNIX_SOCKET, _SCOPE_SIGNAL = 1 << 0, 1 << 1

# What is handled from which ABI on: (ABI, files, network, scope). One right is left unhandled, which keeps it: listing
# a directory. Only what is handled can be denied.
HANDLED: Final = (
    (
        1,
        _FS_EXECUTE | _FS_WRITE_FILE | _FS_READ_FILE | _FS_REMOVE_DIR | _FS_REMOVE_FILE | _FS_MAKE_DIR | _FS_MAKE_REG
        | _FS_MAKE_OTHERS,
        0,
        0,
    ),
    (2, _FS_REFER, 0, 0),
    (3, _FS_TRUNCATE, 0, 0),
    (4, 0, _NET_BIND_TCP | _NET_CONNECT_TCP, 0),
    (5, _FS_IOCTL_DEV, 0, 0),
    (6, 0, 0, _SCOPE_ABSTRACT_UNIX_SOCKET | _SCOPE_SIGNAL),
)  # fmt: skip

# What memory and journal need inside their directories: write, stage, link, rename, truncate and unlink
# ordinary files. No directories: both are made before, and a rule names a directory itself, so one made anew
# under the same path would not be covered anyway; only where identities come and go are theirs made below it, and
# then never removed. No move from one directory into another.
_GRANTED: Final = _FS_READ_FILE | _FS_WRITE_FILE | _FS_MAKE_REG | _FS_REMOVE_FILE | _FS_TRUNCATE

# Files are read wherever they are, but for devices: a terminal of the same user could be read by its name, whoever
# types there. Landlock knows no exceptions, so all that is beside the devices is granted by name, and those devices
# that tell nothing.
_DEVICES: Final = "dev"
_READABLE_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "shm")

ABI_TRUNCATE, ABI_PORTS, ABI_SCOPES = 3, 4, 6
_CREATE_RULESET_VERSION, _RULE_PATH_BENEATH, _RULE_NET_PORT = 1, 1, 2


def landlock_abi(kernel: Kernel, connect: bool) -> tuple[int | None, str]:
    """The ABI, and what is wrong with it."""
    abi = kernel.call("landlock_create_ruleset", None, 0, _CREATE_RULESET_VERSION)
    if abi == -errno.EOPNOTSUPP:
        return None, "no Landlock: it is switched off at boot (add landlock to lsm= of the kernel)"
    if abi <= 0:
        return None, f"no Landlock: the kernel or a container's filter refuses it ({name_of(-abi)})"
    if abi < ABI_TRUNCATE:
        return abi, f"Landlock ABI {abi} leaves truncating files open (Linux 6.2 closes it)"
    if connect and abi < ABI_PORTS:
        return abi, f"Landlock ABI {abi} leaves every TCP port open to connect (Linux 6.7 closes it)"
    if not root_is_listed():
        return abi, "terminals and other devices can be read by their names, since the root directory cannot be listed"
    return abi, ""


def restrict(kernel: Kernel, abi: int, writable: Sequence[str], ports: Sequence[int], *, grow: bool) -> int:
    """Apply Landlock. With `grow` directories may be made too. The error number, 0 for none."""
    files, network, scope = (_union(row[column] for row in HANDLED if row[0] <= abi) for column in (1, 2, 3))
    if not root_is_listed():
        files &= ~_FS_READ_FILE
    # The structure grew with the ABIs, and a kernel refuses what lies beyond its own unless it is zero.
    attributes = kernel.buffer(struct.pack("=QQQ", files, network, scope))
    ruleset = kernel.call("landlock_create_ruleset", attributes, len(attributes), 0)
    if ruleset < 0:
        return -ruleset
    granted = _GRANTED | (_FS_MAKE_DIR if grow else 0)
    try:
        for path in writable:
            error = _allow_beneath(kernel, ruleset, path, granted & files)
            if error:
                return error
        for path in _readable() if files & _FS_READ_FILE else ():
            error = _allow_reading(kernel, ruleset, path)
            if error:
                return error
        for port in ports if network else ():
            rule = kernel.buffer(struct.pack("=QQ", _NET_CONNECT_TCP, port))
            result = kernel.call("landlock_add_rule", ruleset, _RULE_NET_PORT, rule, 0)
            if result:
                return -result
        return -kernel.call("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)


def _union(bits: Iterable[int]) -> int:
    whole = 0
    for some in bits:
        whole |= some
    return whole


def root_is_listed() -> bool:
    """Whether what stands beside the devices can be granted; else devices stay readable."""
    return os.access(os.sep, os.R_OK)


def _readable() -> Iterator[str]:
    """Where files may be read. A file system that is mounted at the root itself later is not among it."""
    for name in os.listdir(os.sep):
        if name != _DEVICES:
            yield f"/{name}"
    for name in _READABLE_DEVICES:
        yield f"/{_DEVICES}/{name}"


def _allow_reading(kernel: Kernel, ruleset: int, path: str) -> int:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # a link to nowhere, or a system without this device: nothing to read there
        return 0
    return _allow(kernel, ruleset, descriptor, _FS_READ_FILE)


def _allow_beneath(kernel: Kernel, ruleset: int, path: str, rights: int) -> int:
    try:
        directory = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise LockdownError(
            f"cannot open the writable directory {path}: {error.strerror}; make it before locking"
        ) from error
    return _allow(kernel, ruleset, directory, rights)


def _allow(kernel: Kernel, ruleset: int, place: int, rights: int) -> int:
    """Grant rights beneath an open directory, or on an open file; closes it."""
    try:
        rule = kernel.buffer(struct.pack("=Qi", rights, place))
        return -kernel.call("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(place)

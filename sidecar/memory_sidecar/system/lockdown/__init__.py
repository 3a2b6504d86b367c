"""Gives up, for the rest of the process, every right that serving memory doesn't need.

Rule: what is refused here is refused by the kernel, not by this program, and nothing can win it back. Three
mechanisms, each closing what the others leave open: Landlock (which files may be written, which devices read, which
TCP ports connected), a seccomp filter (which system calls exist at all, which sockets) and "not dumpable" (who may look
into this process). Root also loses its capabilities, but for those that open files. A thread that already
runs would keep its rights, so this happens before the first one.

Denied afterwards: writing, creating, removing, truncating anywhere but in the given directories, and there
anything but ordinary files; changing owners, modes, times and attributes; reading devices; executing; starting a
process; binding, listening, accepting; every socket but a pair of connected stream sockets; io_uring; tracing,
reading or signalling another process; shared memory and message queues; namespaces and mounts; terminal and
device control; administration. With ports to connect to, IPv4 and IPv6 TCP sockets to these ports remain.

Not denied: reading files (modules, certificates, time zones are loaded late), and using what is already open. A file
system that is mounted later at the root itself is not read; terminals, like other devices, are not opened by name.
Descriptors received before or over an open socket can't be filtered; what was opened before keeps its rights.
Landlock knows ports, not addresses: a broker's port is open on every host.

Nothing else of the product is imported here, and `native` only by a call that needs it.
"""

import fcntl
import os
import struct
import sys
import time
from collections.abc import Sequence

from ...hints import Final
from .held import Held, LockdownError, Mode
from .kernel import Kernel, machine, name_of
from .landlock import ABI_SCOPES, landlock_abi, restrict
from .probes import probe
from .seccomp import ERRNO, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, program

__all__ = ["DNS_PORT", "Held", "LockdownError", "Mode", "available", "lock", "look_up_names_over_tcp"]

DNS_PORT: Final = 53
"""Belongs among the ports of `lock` when a broker is given by name; see `look_up_names_over_tcp`."""

_PATIENCE: Final = 1000
"""Milliseconds, about; a thread needs less than one to end, unless the machine is very busy."""

_CAPABILITY_VERSION: Final = 0x20080522
# DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER: the directories of a volume may belong to anybody.
_CAPABILITIES: Final = 1 << 1 | 1 << 2 | 1 << 3

_SECCOMP_SET_MODE_FILTER, _SECCOMP_GET_ACTION_AVAIL = 1, 2
_SECCOMP_FILTER_FLAG_TSYNC: Final = 1


# --- what others call ---------------------------------------------------------


def available(connect: bool = False) -> Held:
    """What `lock` would get here, changing nothing. `connect`: with ports to connect to."""
    here, reason = machine()
    if here is None:
        return Held(None, False, False, reason)
    kernel = Kernel(here)
    abi, reason = landlock_abi(kernel, connect)
    action = kernel.buffer(struct.pack("=I", ERRNO))
    result = kernel.call("seccomp", _SECCOMP_GET_ACTION_AVAIL, 0, action)
    reasons = [reason, "" if result == 0 else _no_seccomp(result, abi)]
    return Held(abi, result == 0, True, "; ".join(filter(None, reasons)))


def lock(writable: Sequence[str], connect_ports: Sequence[int] | None, mode: Mode, *, grow: bool = False) -> Held:
    """Give up every right but those named, for good; then try the forbidden things.

    Call it once, while the process has one thread (counting those of libraries), and after what needs a right
    that goes: the memory and the journal directory are made, modes set. Threads started later are locked like
    the one that called. With a broker, connect first, on the only thread: it tells of its cluster's members,
    and their ports have to be known here. Look-ups of an event loop run on threads of its executor: shut that
    down before, and give the loop another one after.

    Args:
        writable: existing directories in and below which ordinary files may be written, made and removed.
        connect_ports: TCP ports that may be connected to, on any host: those of the configured brokers and of
            the members they told of, and `DNS_PORT` if one is given by name. A member that joins later on
            another port stays out of reach. None for no network at all.
        grow: whether directories may be made in and below the writable ones too.
        mode: "require" raises when anything is missing; "auto" takes what there is and says what is missing;
            "off" does nothing.

    Raises:
        LockdownError: a probe succeeded, a directory can't be opened or is the root, other threads run already, or
            (under "require") something is missing. The process may be locked in part: end it.
    """
    if mode == "off":
        return Held(None, False, False, "switched off")
    here, reason = machine()
    if here is None:
        return _settle(Held(None, False, False, reason), mode)
    kernel = Kernel(here)
    connect = connect_ports is not None
    abi, landlock_reason = landlock_abi(kernel, connect)
    if mode == "require":
        _settle(available(connect), mode)  # before anything is given up
    if not _alone():
        raise LockdownError("a thread that already runs would stay unlocked; lock before starting threads")

    if any(os.path.realpath(path) == os.sep for path in writable):
        raise LockdownError(f"the directory {os.sep} holds every other; keep memory in a directory of its own")
    terminal = _only_write_to_a_terminal()
    prctl(kernel, PR_SET_NO_NEW_PRIVS, 1)
    prctl(kernel, PR_SET_DUMPABLE, 0)  # refused when locked before, and then it is so already
    drop_capabilities(kernel)
    if abi is not None:
        refusal = restrict(kernel, abi, writable, connect_ports or (), grow=grow)
        if refusal:
            abi, landlock_reason = None, f"no Landlock: it refuses the rules ({name_of(refusal)})"
    result = _filter(kernel, connect)
    dumpable = prctl(kernel, PR_GET_DUMPABLE) != 0
    reasons = [
        landlock_reason,
        "" if result == 0 else _no_seccomp(result, abi),
        "others of the same user can look in: the kernel keeps this process dumpable" if dumpable else "",
        terminal,
    ]
    held = Held(abi, result == 0, not dumpable, "; ".join(filter(None, reasons)))
    open_still = probe(kernel, held, writable, connect_ports)
    if open_still:
        raise LockdownError(
            f"still possible after locking: {', '.join(open_still)}; report this, or run with --lockdown off"
        )
    return _settle(held, mode)


def look_up_names_over_tcp() -> None:
    """Have the C library look names up over TCP, for a broker given by name.

    A look-up usually sends datagrams; leave those open and anything can be sent anywhere. Name servers answer
    over TCP as well (RFC 7766), and Landlock limits TCP to a port: `DNS_PORT`. Call it before the first
    look-up, because glibc reads its options once. A name server without TCP then fails at once, at launch,
    instead of at the first reconnect. The musl library has no such option: names that aren't in the hosts
    file can't be looked up again there after `lock`.
    """
    options = os.environ.get("RES_OPTIONS", "")
    if "use-vc" not in options.split():
        os.environ["RES_OPTIONS"] = f"{options} use-vc".strip()


def _settle(held: Held, mode: Mode) -> Held:
    if mode == "require" and held.reason:
        raise LockdownError(
            f"--lockdown require, but {held.reason}; run where Linux offers all of it, or use --lockdown auto"
        )
    return held


# --- how ----------------------------------------------------------------------


def _alone() -> bool:
    """Whether this is the only thread.

    A thread that was joined may still be on its last steps outside Python; it gets a moment to end.
    """
    for _ in range(_PATIENCE):
        try:
            threads = len(os.listdir("/proc/self/task"))
        except OSError:  # no /proc here: then the threads that Python knows
            threads = 1
        if len(sys._current_frames()) > 1:  # noqa: SLF001 - documented, and needs no import of threading
            return False
        if threads == 1:
            return True
        time.sleep(0.001)
    return False


def prctl(kernel: Kernel, option: int, value: int = 0) -> int:
    return kernel.call("prctl", option, value)


def drop_capabilities(kernel: Kernel) -> None:
    """As root (in a container, say), keep only what opens files. An ordinary user has none to drop.

    Others reach past Landlock: CAP_PERFMON alone lets root read the environment of the harness.
    """
    header = kernel.buffer(struct.pack("=Ii", _CAPABILITY_VERSION, 0))
    sets = kernel.buffer(bytes(24))
    if kernel.call("capget", header, sets):
        return
    effective, permitted = struct.unpack_from("=II", sets.raw)
    kept = struct.pack("=6I", effective & _CAPABILITIES, permitted & _CAPABILITIES, 0, 0, 0, 0)
    kernel.call("capset", header, kernel.buffer(kept))


def _no_seccomp(result: int, abi: int | None) -> str:
    signals = "" if (abi or 0) >= ABI_SCOPES else ", so every process of this user can be signalled"
    return f"no seccomp: the kernel or a container's filter refuses it ({name_of(-result)}){signals}"


def _only_write_to_a_terminal() -> str:
    """A terminal at stderr is usually open for reading too: keys pressed there could be read. What is wrong, if so."""
    if not os.isatty(2) or fcntl.fcntl(2, fcntl.F_GETFL) & os.O_ACCMODE == os.O_WRONLY:
        return ""
    try:
        # Its name, where the list of descriptors isn't to be had: a process without /proc.
        path = "/proc/self/fd/2" if os.path.exists("/proc/self/fd/2") else os.ttyname(2)
        descriptor = os.open(path, os.O_WRONLY | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        return (
            f"the terminal at stderr can be read: it cannot be opened for writing alone ({name_of(error.errno or 0)})"
        )
    os.dup2(descriptor, 2)
    os.close(descriptor)
    return ""


def _filter(kernel: Kernel, connect: bool) -> int:
    """Install the filter on every thread. 0, or minus the error number."""
    code = kernel.buffer(program(kernel.machine, os.getpid(), connect))
    header = kernel.buffer(struct.pack("@HP", len(code) // 8, kernel.address(code)))
    return kernel.call("seccomp", _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC, header)

"""Gives up, for the rest of the process, every right that serving memory doesn't need.

Rule: what is refused here is refused by the kernel, not by this program, and nothing can win it back. Three
mechanisms, each closing what the others leave open: Landlock (which files may be written, which TCP ports
connected), a seccomp filter (which system calls exist at all, which sockets) and "not dumpable" (who may look
into this process). Root also loses its capabilities, but for those that open files. A thread that already
runs would keep its rights, so this happens before the first one.

Denied afterwards: writing, creating, removing, truncating anywhere but in the given directories, and there
anything but ordinary files; changing owners, modes, times and attributes; executing; starting a process;
binding, listening, accepting; every socket but a pair of connected stream sockets; io_uring; tracing,
reading or signalling another process; shared memory and message queues; namespaces and mounts; terminal and
device control; administration. With ports to connect to, IPv4 and IPv6 TCP sockets to these ports remain.

Not denied: reading files (modules, certificates, time zones are loaded late), and using what is already open.
Descriptors received before or over an open socket can't be filtered; what was opened before keeps its rights.
Landlock knows ports, not addresses: a broker's port is open on every host.

Nothing of this package is imported here, and `ctypes` only by a call that needs it.
"""

import errno
import os
import struct
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

if TYPE_CHECKING:
    import ctypes

__all__ = ["DNS_PORT", "Held", "LockdownError", "Mode", "available", "lock", "look_up_names_over_tcp"]

Mode = Literal["auto", "require", "off"]

DNS_PORT: Final = 53
"""Belongs among the ports of `lock` when a broker is given by name; see `look_up_names_over_tcp`."""


class LockdownError(Exception):
    """The process is not locked as asked for. The text is one line: what is missing, and what to do."""


class Held(NamedTuple):
    """What holds (after `lock`) or would hold (from `available`)."""

    landlock_abi: int | None
    """The Landlock version in force, None without Landlock."""
    seccomp: bool
    not_dumpable: bool
    reason: str
    """What is missing and why, in words; empty when everything holds."""

    def describe(self) -> str:
        """One line for `info` and for the meta record of a run."""
        parts = [] if self.landlock_abi is None else [f"Landlock (ABI {self.landlock_abi})"]
        parts += ["seccomp"] if self.seccomp else []
        parts += ["not dumpable"] if self.not_dumpable else []
        held = ", ".join(parts) or "nothing"
        return f"{held}; {self.reason}" if self.reason else held


# --- system calls -------------------------------------------------------------


class _Machine(NamedTuple):
    column: int
    """Where its numbers stand in the tables below."""
    audit: int
    """AUDIT_ARCH_*: what the kernel tells a filter about the calling convention in use."""


_MACHINES: Final[Mapping[str, _Machine]] = {
    "x86_64": _Machine(0, 0xC000003E),
    "aarch64": _Machine(1, 0xC00000B7),
}

# name: (x86_64, aarch64); None where that machine never had the call.
_Numbers = Mapping[str, tuple[int | None, int | None]]

# Numbers above this one are newer than this file. Refusing them as unknown keeps the list below complete on
# kernels yet to come, and the C library falls back to older calls. On x86_64 it also refuses the x32
# convention, which reaches every call under a second number with bit 30 set.
_NEWEST: Final = 469

# Refused whatever their arguments.
_REFUSED: Final[_Numbers] = {
    # Being reached.
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    # A second way to almost every call, which no filter sees.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # Other programs and processes. A memory file is the one kind of file that can be executed though Landlock
    # forbids executing, hence no use for it here.
    "execve": (59, 221),
    "execveat": (322, 281),
    "fork": (57, None),
    "vfork": (58, None),
    "memfd_create": (319, 279),
    # Looking into other processes, signalling and steering them.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424),
    "kcmp": (312, 272),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    # Channels between processes that are neither files nor sockets.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    # What Landlock doesn't cover of changing files: a mode alone can lay a private key open.
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "open_by_handle_at": (304, 265),
    # Another view of the machine.
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    # The kernel's large attack surfaces and its key store.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "fanotify_init": (300, 262),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    # Administration, which matters when a container runs this as root.
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
}

# Refused or not by their arguments: see `_conditions`.
_CONDITIONAL: Final[_Numbers] = {
    "socket": (41, 198),
    "connect": (42, 203),
    "socketpair": (53, 199),
    "sendto": (44, 206),
    "sendmsg": (46, 211),
    "sendmmsg": (307, 269),
    "clone": (56, 220),
    "kill": (62, 129),
    "tgkill": (234, 131),
    "prlimit64": (302, 261),
    "prctl": (157, 167),
    "ioctl": (16, 29),
}

# Its flags lie in memory, where no filter can look. Told that the call doesn't exist, the C library starts
# threads with `clone`, whose flags are an argument.
_UNKNOWN: Final[_Numbers] = {"clone3": (435, 435)}

# Used by this file.
_USED: Final[_Numbers] = {
    "seccomp": (317, 277),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
    "capget": (125, 90),
    "capset": (126, 91),
}

# --- seccomp ------------------------------------------------------------------

_AF_UNIX, _AF_INET, _AF_INET6, _AF_NETLINK, _AF_VSOCK = 1, 2, 10, 16, 40
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_RAW = 1, 2, 3
_SOCK_FLAGS: Final = 0o2004000  # SOCK_CLOEXEC | SOCK_NONBLOCK, the same on both machines
_IPPROTO_TCP, _IPPROTO_MPTCP = 6, 262
_MSG_FASTOPEN: Final = 0x20000000
_CLONE_THREAD: Final = 0x00010000
_CLONE_NEW: Final = 0x7E020000  # NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 3, 4, 38
_PR_SET_PTRACER: Final = 0x59616D61

# What opening, polling and showing things needs: TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX,
# TCGETS2. All others act: on a device, on a terminal (TIOCSTI types into it), on a file's flags.
_HARMLESS_IOCTLS: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A)


class _Check(NamedTuple):
    """A condition on one 32-bit word of the arguments: masked, it is (or isn't) one of `values`."""

    word: int
    """Twice the argument's position; plus one for its upper half (both machines are little-endian)."""
    mask: int
    values: tuple[int, ...]
    wanted: bool = True


_ALL: Final = 0xFFFFFFFF


def _conditions(pid: int, connect: bool) -> dict[str, tuple[_Check, ...]]:
    """When each conditional call is allowed: all its checks hold. No entry: never.

    Only words that the kernel itself looks at are compared, so garbage in an upper half decides nothing.
    """
    stream = _Check(2, _ALL & ~_SOCK_FLAGS, (_SOCK_STREAM,))
    allowed = {
        # Stream pairs only: a datagram pair can send to any other socket by its address.
        "socketpair": (_Check(0, _ALL, (_AF_UNIX,)), stream),
        # MSG_FASTOPEN connects without `connect`, past Landlock; an address is for datagrams.
        "sendto": (_Check(6, _MSG_FASTOPEN, (0,)), _Check(8, _ALL, (0,)), _Check(9, _ALL, (0,))),
        "sendmsg": (_Check(4, _MSG_FASTOPEN, (0,)),),
        "sendmmsg": (_Check(6, _MSG_FASTOPEN, (0,)),),
        # Threads, never processes: those would outlive this one, and its harness.
        "clone": (_Check(0, _CLONE_THREAD | _CLONE_NEW, (_CLONE_THREAD,)),),
        "kill": (_Check(0, _ALL, (pid,)),),
        "tgkill": (_Check(0, _ALL, (pid,)),),
        "prlimit64": (_Check(0, _ALL, (0, pid)),),
        "prctl": (_Check(0, _ALL, (_PR_SET_DUMPABLE, _PR_SET_PTRACER), wanted=False),),
        "ioctl": (_Check(2, _ALL, _HARMLESS_IOCTLS),),
    }
    if connect:
        # A protocol of 0 is TCP here; MPTCP and SMC are other protocols of the same type.
        allowed["socket"] = (
            _Check(0, _ALL, (_AF_INET, _AF_INET6)),
            stream,
            _Check(4, _ALL, (0, _IPPROTO_TCP)),
        )
        allowed["connect"] = ()  # the ports are Landlock's: a filter can't read an address
    return allowed


# Classic BPF: load a word of `struct seccomp_data`, mask it, compare and jump, return.
_LOAD, _AND, _JUMP_EQUAL, _JUMP_GREATER, _RETURN = 0x20, 0x54, 0x15, 0x25, 0x06
_DATA_NUMBER, _DATA_ARCH, _DATA_ARGUMENTS = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

_Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false (each over so many instructions), operand."""


def _program(machine: _Machine, pid: int, connect: bool) -> bytes:
    """The filter as `struct sock_filter[]`. Pure: it can be examined for a machine one doesn't have."""
    refuse: _Instruction = (_RETURN, 0, 0, _ERRNO | errno.EPERM)
    unknown: _Instruction = (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)
    code: list[_Instruction] = [
        (_LOAD, 0, 0, _DATA_ARCH),
        # Another convention (32-bit code) has other numbers; nothing here speaks it by accident.
        (_JUMP_EQUAL, 1, 0, machine.audit),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _DATA_NUMBER),
        (_JUMP_GREATER, 0, 1, _NEWEST),
        unknown,
    ]
    for number in _numbers(_UNKNOWN, machine):
        code += [(_JUMP_EQUAL, 0, 1, number), unknown]
    for number in _numbers(_REFUSED, machine):
        code += [(_JUMP_EQUAL, 0, 1, number), refuse]
    allowed = _conditions(pid, connect)
    for name, numbers in _CONDITIONAL.items():
        body = _allow_if(allowed[name], refuse) if name in allowed else [refuse]
        code += [(_JUMP_EQUAL, 0, len(body), numbers[machine.column] or 0), *body]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _numbers(table: _Numbers, machine: _Machine) -> Iterable[int]:
    return (number for numbers in table.values() if (number := numbers[machine.column]) is not None)


def _allow_if(checks: tuple[_Check, ...], refuse: _Instruction) -> list[_Instruction]:
    body: list[_Instruction] = []
    for check in checks:
        body.append((_LOAD, 0, 0, _DATA_ARGUMENTS + 4 * check.word))
        if check.mask != _ALL:
            body.append((_AND, 0, 0, check.mask))
        last = len(check.values) - 1
        if check.wanted:  # equal to one: over the others and the refusal
            body += [(_JUMP_EQUAL, last - at + 1, 0, value) for at, value in enumerate(check.values)]
        else:  # equal to one: to the refusal; equal to none: over it
            body += [(_JUMP_EQUAL, last - at, 1 if at == last else 0, value) for at, value in enumerate(check.values)]
        body.append(refuse)
    body.append((_RETURN, 0, 0, _ALLOW))
    return body


# --- Landlock -----------------------------------------------------------------

_FS_EXECUTE, _FS_WRITE_FILE, _FS_REMOVE_FILE, _FS_MAKE_REG = 1 << 0, 1 << 1, 1 << 5, 1 << 8
_FS_REMOVE_DIR, _FS_MAKE_DIR = 1 << 4, 1 << 7
_FS_MAKE_OTHERS: Final = 1 << 6 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12  # devices, sockets, FIFOs, symlinks
_FS_REFER, _FS_TRUNCATE, _FS_IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_NET_BIND_TCP, _NET_CONNECT_TCP = 1 << 0, 1 << 1
_SCOPE_ABSTRACT_UNIX_SOCKET, _SCOPE_SIGNAL = 1 << 0, 1 << 1

# What is handled from which ABI on: (ABI, files, network, scope). Two rights are left unhandled, which keeps
# them: reading a file and reading a directory. Only what is handled can be denied.
_HANDLED: Final = (
    (
        1,
        _FS_EXECUTE | _FS_WRITE_FILE | _FS_REMOVE_DIR | _FS_REMOVE_FILE | _FS_MAKE_DIR | _FS_MAKE_REG
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
# under the same path would not be covered anyway. No move from one directory into another.
_GRANTED: Final = _FS_WRITE_FILE | _FS_MAKE_REG | _FS_REMOVE_FILE | _FS_TRUNCATE

_ABI_TRUNCATE, _ABI_PORTS = 3, 4
_CREATE_RULESET_VERSION, _RULE_PATH_BENEATH, _RULE_NET_PORT = 1, 1, 2

_PATIENCE: Final = 1000
"""Milliseconds, about; a thread needs less than one to end, unless the machine is very busy."""

_CAPABILITY_VERSION: Final = 0x20080522
# DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER: the directories of a volume may belong to anybody.
_CAPABILITIES: Final = 1 << 1 | 1 << 2 | 1 << 3

_SECCOMP_SET_MODE_FILTER, _SECCOMP_GET_ACTION_AVAIL = 1, 2
_SECCOMP_FILTER_FLAG_TSYNC: Final = 1


class _Kernel:
    """The few calls this needs, made directly: no binding covers them."""

    def __init__(self, machine: _Machine) -> None:
        import ctypes

        self.ctypes = ctypes
        self.machine = machine
        libc = ctypes.CDLL(None, use_errno=True)
        self._syscall = libc.syscall
        # Every argument as a full register: an `int` would leave its upper half undefined.
        self._syscall.argtypes = [ctypes.c_long] * 7
        self._syscall.restype = ctypes.c_long

    def call(self, name: str, *arguments: "int | ctypes.Array[ctypes.c_char] | None") -> int:
        """The result, or minus the error number."""
        numbers = _REFUSED.get(name) or _CONDITIONAL.get(name) or _USED[name]
        words = [
            self.ctypes.addressof(argument) if isinstance(argument, self.ctypes.Array) else argument or 0
            for argument in arguments
        ]
        words += [0] * (6 - len(words))
        result: int = self._syscall(numbers[self.machine.column], *words)
        return result if result != -1 else -self.ctypes.get_errno()

    def buffer(self, content: bytes) -> "ctypes.Array[ctypes.c_char]":
        return self.ctypes.create_string_buffer(content, len(content))

    def address(self, array: "ctypes.Array[ctypes.c_char]") -> int:
        return self.ctypes.addressof(array)


def _machine() -> tuple[_Machine | None, str]:
    """This machine's column, or why there is none."""
    if sys.platform != "linux":
        return None, f"not available on {sys.platform}: the rights are given up through Linux calls"
    name = os.uname().machine
    machine = _MACHINES.get(name)
    if machine is None or sys.maxsize < 2**32:
        bits = 64 if sys.maxsize > 2**32 else 32
        return None, f"not available on a {bits}-bit program on {name}: only x86_64 and aarch64 are known"
    return machine, ""


def _landlock_abi(kernel: _Kernel, connect: bool) -> tuple[int | None, str]:
    """The ABI, and what is wrong with it."""
    abi = kernel.call("landlock_create_ruleset", None, 0, _CREATE_RULESET_VERSION)
    if abi == -errno.EOPNOTSUPP:
        return None, "no Landlock: it is switched off at boot (add landlock to lsm= of the kernel)"
    if abi <= 0:
        return None, f"no Landlock: the kernel or a container's filter refuses it ({_name(-abi)})"
    if abi < _ABI_TRUNCATE:
        return abi, f"Landlock ABI {abi} leaves truncating files open (Linux 6.2 closes it)"
    if connect and abi < _ABI_PORTS:
        return abi, f"Landlock ABI {abi} leaves every TCP port open to connect (Linux 6.7 closes it)"
    return abi, ""


def _name(number: int) -> str:
    return errno.errorcode.get(number, str(number))


# --- what others call ---------------------------------------------------------


def available(connect: bool = False) -> Held:
    """What `lock` would get here, changing nothing. `connect`: with ports to connect to."""
    machine, reason = _machine()
    if machine is None:
        return Held(None, False, False, reason)
    kernel = _Kernel(machine)
    abi, reason = _landlock_abi(kernel, connect)
    action = kernel.buffer(struct.pack("=I", _ERRNO))
    result = kernel.call("seccomp", _SECCOMP_GET_ACTION_AVAIL, 0, action)
    reasons = [reason, "" if result == 0 else _no_seccomp(result)]
    return Held(abi, result == 0, True, "; ".join(filter(None, reasons)))


def lock(writable: Sequence[str], connect_ports: Sequence[int] | None, mode: Mode) -> Held:
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
        mode: "require" raises when anything is missing; "auto" takes what there is and says what is missing;
            "off" does nothing.

    Raises:
        LockdownError: a probe succeeded, a directory can't be opened, other threads run already, or (under
            "require") something is missing. The process may be locked in part: end it.
    """
    if mode == "off":
        return Held(None, False, False, "switched off")
    machine, reason = _machine()
    if machine is None:
        return _settle(Held(None, False, False, reason), mode)
    kernel = _Kernel(machine)
    connect = connect_ports is not None
    abi, landlock_reason = _landlock_abi(kernel, connect)
    if mode == "require":
        _settle(available(connect), mode)  # before anything is given up
    if not _alone():
        raise LockdownError("a thread that already runs would stay unlocked; lock before starting threads")

    _prctl(kernel, _PR_SET_NO_NEW_PRIVS, 1)
    _prctl(kernel, _PR_SET_DUMPABLE, 0)  # refused when locked before, and then it is so already
    _drop_capabilities(kernel)
    if abi is not None:
        refusal = _restrict(kernel, abi, writable, connect_ports or ())
        if refusal:
            abi, landlock_reason = None, f"no Landlock: it refuses the rules ({_name(refusal)})"
    result = _filter(kernel, connect)
    dumpable = _prctl(kernel, _PR_GET_DUMPABLE) != 0
    reasons = [
        landlock_reason,
        "" if result == 0 else _no_seccomp(result),
        "others of the same user can look in: the kernel keeps this process dumpable" if dumpable else "",
    ]
    held = Held(abi, result == 0, not dumpable, "; ".join(filter(None, reasons)))
    open_still = _probe(kernel, held, connect_ports)
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


def _prctl(kernel: _Kernel, option: int, value: int = 0) -> int:
    return kernel.call("prctl", option, value)


def _drop_capabilities(kernel: _Kernel) -> None:
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


def _no_seccomp(result: int) -> str:
    return f"no seccomp: the kernel or a container's filter refuses it ({_name(-result)})"


def _restrict(kernel: _Kernel, abi: int, writable: Sequence[str], ports: Sequence[int]) -> int:
    """Apply Landlock. The error number, 0 for none."""
    files, network, scope = (_union(row[column] for row in _HANDLED if row[0] <= abi) for column in (1, 2, 3))
    # The structure grew with the ABIs, and a kernel refuses what lies beyond its own unless it is zero.
    attributes = kernel.buffer(struct.pack("=QQQ", files, network, scope))
    ruleset = kernel.call("landlock_create_ruleset", attributes, len(attributes), 0)
    if ruleset < 0:
        return -ruleset
    try:
        for path in writable:
            error = _allow_beneath(kernel, ruleset, path, _GRANTED & files)
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


def _allow_beneath(kernel: _Kernel, ruleset: int, path: str, rights: int) -> int:
    try:
        directory = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise LockdownError(
            f"cannot open the writable directory {path}: {error.strerror}; make it before locking"
        ) from error
    try:
        rule = kernel.buffer(struct.pack("=Qi", rights, directory))
        return -kernel.call("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, rule, 0)
    finally:
        os.close(directory)


def _filter(kernel: _Kernel, connect: bool) -> int:
    """Install the filter on every thread. 0, or minus the error number."""
    program = kernel.buffer(_program(kernel.machine, os.getpid(), connect))
    header = kernel.buffer(struct.pack("@HP", len(program) // 8, kernel.address(program)))
    return kernel.call("seccomp", _SECCOMP_SET_MODE_FILTER, _SECCOMP_FILTER_FLAG_TSYNC, header)


# --- probes -------------------------------------------------------------------


def _probe(kernel: _Kernel, held: Held, ports: Sequence[int] | None) -> list[str]:
    """Try what must be impossible now; the names of what isn't.

    No probe changes anything even where it succeeds: sockets are closed again, `/dev/null` is only opened,
    and the others name what doesn't exist, so an open door shows itself by another error than EPERM.
    """
    outcomes: dict[str, bool] = {}
    if held.landlock_abi is not None:
        outcomes["writing outside the given directories"] = _opens_for_writing("/dev/null")
    if held.seccomp:
        outcomes |= _probe_calls(kernel)
        outcomes |= _probe_sockets(kernel, ports is not None)
    if ports is not None and held.seccomp and (held.landlock_abi or 0) >= _ABI_PORTS:
        outcomes["connecting to another port"] = _connects(kernel, ports)
    return [name for name, possible in outcomes.items() if possible]


def _opens_for_writing(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _probe_calls(kernel: _Kernel) -> dict[str, bool]:
    nowhere = kernel.buffer(b"/proc/self/none\0")
    attempts: dict[str, tuple[str, tuple[Any, ...]]] = {
        "binding": ("bind", (-1, None, 0)),
        "listening": ("listen", (-1, 1)),
        "accepting": ("accept4", (-1, None, None, 0)),
        "io_uring": ("io_uring_setup", (0, None)),
        "executing": ("execve", (nowhere, None, None)),
        "executing a descriptor": ("execveat", (-1, nowhere, None, None, 0)),
        "fast open": ("sendto", (-1, None, 0, _MSG_FASTOPEN, None, 0)),
    }
    return {what: kernel.call(name, *args) != -errno.EPERM for what, (name, args) in attempts.items()}


def _probe_sockets(kernel: _Kernel, connect: bool) -> dict[str, bool]:
    kinds = {
        "UDP": (_AF_INET, _SOCK_DGRAM, 0),
        "UDP over IPv6": (_AF_INET6, _SOCK_DGRAM, 0),
        "MPTCP": (_AF_INET, _SOCK_STREAM, _IPPROTO_MPTCP),
        "raw sockets": (_AF_INET, _SOCK_RAW, 1),
        "unix sockets": (_AF_UNIX, _SOCK_STREAM, 0),
        "vsock": (_AF_VSOCK, _SOCK_STREAM, 0),
        "netlink": (_AF_NETLINK, _SOCK_RAW, 0),
    }
    if not connect:
        kinds["TCP"] = (_AF_INET, _SOCK_STREAM, 0)
        kinds["TCP over IPv6"] = (_AF_INET6, _SOCK_STREAM, 0)
    outcomes = {}
    for what, (family, kind, protocol) in kinds.items():
        result = kernel.call("socket", family, kind | _SOCK_FLAGS, protocol)
        if result >= 0:
            os.close(result)
        outcomes[what] = result >= 0
    if not connect:
        outcomes["connecting"] = kernel.call("connect", -1, None, 0) != -errno.EPERM
        return outcomes
    tcp = kernel.call("socket", _AF_INET, _SOCK_STREAM | _SOCK_FLAGS, 0)
    if tcp >= 0:  # listening binds by itself, to any free port of every address
        outcomes["listening without binding"] = kernel.call("listen", tcp, 1) != -errno.EPERM
        os.close(tcp)
    return outcomes


def _connects(kernel: _Kernel, ports: Sequence[int]) -> bool:
    """Whether a port outside `ports` may be connected to: on this host, where nobody waits for it."""
    tcp = kernel.call("socket", _AF_INET, _SOCK_STREAM | _SOCK_FLAGS, 0)
    if tcp < 0:
        return False
    try:
        port = next(port for port in range(1, 65536) if port not in ports)
        address = kernel.buffer(struct.pack("=HHI8x", _AF_INET, _swap(port), _swap32(0x7F000001)))
        return kernel.call("connect", tcp, address, len(address)) != -errno.EACCES
    finally:
        os.close(tcp)


def _swap(value: int) -> int:
    return int.from_bytes(value.to_bytes(2, "big"), "little")


def _swap32(value: int) -> int:
    return int.from_bytes(value.to_bytes(4, "big"), "little")

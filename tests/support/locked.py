"""A process that locks itself and then tries things, as code inside the sidecar could. For test_lockdown.py.

It reads one JSON object from its arguments, prints one with the outcomes: "done", or the name of the error.
"""

import array
import contextlib
import ctypes
import errno
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any

from memory_sidecar.system import exchange, lockdown
from memory_sidecar.system.lockdown import kernel, tables

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.argtypes = [ctypes.c_long] * 7
LIBC.syscall.restype = ctypes.c_long

CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET = 0x10000000, 0x20000, 0x40000000


def raw(name: str, *arguments: int) -> int:
    """A system call past Python, by its number on this machine."""
    column = 0 if os.uname().machine == "x86_64" else 1
    for table in (tables.REFUSED, tables.CONDITIONAL, tables.UNKNOWN, tables.USED):
        if name in table:
            number = table[name][column]
    assert number is not None, name
    result: int = LIBC.syscall(number, *arguments, *[0] * (6 - len(arguments)))
    if result == -1:
        raise OSError(ctypes.get_errno(), "")
    return result


def outcome(action: Callable[[], Any]) -> str:
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "done"


class Attempts:
    """What must be impossible. Everything that needs a right to be prepared is prepared before locking."""

    def __init__(self, writable: str, elsewhere: str) -> None:
        self.inside, self.outside = writable, elsewhere
        for name in ("foreign", "foreign-rename", "foreign-unlink", "foreign-truncate"):
            with open(f"{elsewhere}/{name}", "w") as file:
                file.write("theirs")
        with open(f"{writable}/own", "w") as file:
            file.write("ours")
        os.mkdir(f"{elsewhere}/directory")
        self.tcp = socket.socket()
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen()
        self.dialled = socket.create_connection(self.listener.getsockname())
        self.second = socket.create_connection(self.listener.getsockname())
        self.nearby = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.nearby.bind(f"\0memory-sidecar-test-{os.getpid()}")
        self.leader, self.follower = os.openpty()
        self.parent = os.pidfd_open(os.getppid())

    def all(self) -> dict[str, Callable[[], Any]]:
        return {**self.network(), **self.files(), **self.processes(), **self.kernel()}

    def network(self) -> dict[str, Callable[[], Any]]:
        def sock(*kind: int) -> Callable[[], Any]:
            return lambda: socket.socket(*kind).close()

        def bind() -> None:
            with socket.socket() as found:
                found.bind(("127.0.0.1", 0))

        def unix(address: str) -> Callable[[], Any]:
            def action() -> None:
                with socket.socket(socket.AF_UNIX) as found:
                    found.bind(address)
                    found.listen()

            return action

        def datagram_pair() -> None:
            one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
            one.sendto(b"leak", self.nearby.getsockname())
            other.close()

        def fast_open() -> None:
            with socket.socket() as found:
                found.sendto(b"leak", socket.MSG_FASTOPEN, self.listener.getsockname())

        def fast_open_message() -> None:
            # Negative descriptor: what counts is who answers, the filter or the kernel behind it.
            raw("sendmsg", -1, 0, socket.MSG_FASTOPEN)

        ring = ctypes.create_string_buffer(120)

        def udp() -> None:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
                found.sendto(b"leak", ("127.0.0.1", 9))

        return {
            "bind": bind,
            "bind a socket from before": lambda: self.tcp.bind(("127.0.0.1", 0)),
            "listen without bind": self.tcp.listen,
            "raw listen": lambda: raw("listen", self.tcp.fileno(), 1),
            "accept": self.listener.accept,
            "raw accept": lambda: raw("accept", self.listener.fileno(), 0, 0),
            "udp": udp,
            "udp6": sock(socket.AF_INET6, socket.SOCK_DGRAM),
            "mptcp": sock(socket.AF_INET, socket.SOCK_STREAM, 262),
            "smc": sock(43, socket.SOCK_STREAM),
            "raw socket": sock(socket.AF_INET, socket.SOCK_RAW, 1),
            "packet": sock(17, socket.SOCK_RAW),
            "vsock": sock(40, socket.SOCK_STREAM),
            "netlink": sock(16, socket.SOCK_RAW),
            "kernel crypto": sock(38, socket.SOCK_SEQPACKET),
            "unix": unix(f"{self.inside}/socket"),
            "abstract unix": unix(f"\0memory-sidecar-{os.getpid()}"),
            "datagram pair to an address": datagram_pair,
            "seqpacket pair": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET),
            "fast open": fast_open,
            "fast open by message": fast_open_message,
            "fast open by messages": lambda: raw("sendmmsg", -1, 0, 0, socket.MSG_FASTOPEN),
            "io_uring": lambda: raw("io_uring_setup", 4, ctypes.addressof(ring)),
            "io_uring_enter": lambda: raw("io_uring_enter", -1),
            "io_uring_register": lambda: raw("io_uring_register", -1),
        }

    def connecting(self) -> dict[str, Callable[[], Any]]:
        return {
            "connect": lambda: socket.create_connection(self.listener.getsockname(), 5).close(),
            "connect a socket from before": lambda: socket.socket.connect(self.tcp, self.listener.getsockname()),
            "tcp6": lambda: socket.socket(socket.AF_INET6, socket.SOCK_STREAM).close(),
        }

    def files(self) -> dict[str, Callable[[], Any]]:
        inside, outside = self.inside, self.outside

        def write(path: str, flags: int) -> Callable[[], Any]:
            return lambda: os.close(os.open(path, flags, 0o600))

        foreign = f"{outside}/foreign"
        readable = os.open(foreign, os.O_RDONLY)
        handle = ctypes.create_string_buffer(struct.pack("Ii", 8, 1) + bytes(8))
        value = ctypes.create_string_buffer(b"1")
        path = ctypes.create_string_buffer(foreign.encode())
        attribute = ctypes.create_string_buffer(b"user.x")
        flags = array.array("l", [0])
        return {
            "open for writing": write(foreign, os.O_WRONLY),
            "open for appending": write(foreign, os.O_WRONLY | os.O_APPEND),
            "truncate by opening": write(f"{outside}/foreign-truncate", os.O_RDONLY | os.O_TRUNC),
            "truncate": lambda: os.truncate(f"{outside}/foreign-truncate", 0),
            "create": write(f"{outside}/new", os.O_WRONLY | os.O_CREAT),
            "nameless file": write(outside, os.O_WRONLY | os.O_TMPFILE),
            "unlink": lambda: os.unlink(f"{outside}/foreign-unlink"),
            "rename within": lambda: os.rename(f"{outside}/foreign-rename", f"{outside}/renamed"),
            "rename out": lambda: os.rename(f"{inside}/own", f"{outside}/own"),
            "link in": lambda: os.link(foreign, f"{inside}/linked"),
            "link out": lambda: os.link(f"{inside}/own-2", f"{outside}/linked"),
            "mkdir": lambda: os.mkdir(f"{outside}/made"),
            "mkdir inside": lambda: os.mkdir(f"{inside}/made"),
            "rmdir": lambda: os.rmdir(f"{outside}/directory"),
            "symlink": lambda: os.symlink("/", f"{outside}/symlink"),
            "symlink inside": lambda: os.symlink("/", f"{inside}/symlink"),
            "fifo inside": lambda: os.mkfifo(f"{inside}/fifo"),
            "socket file inside": lambda: os.mknod(f"{inside}/sock", 0o140600),
            "device inside": lambda: os.mknod(f"{inside}/device", 0o020600, os.makedev(1, 3)),
            "/dev/null": write(os.devnull, os.O_WRONLY),
            "a new terminal": lambda: os.close(os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)),
            "read a terminal": lambda: os.close(os.open("/dev/ptmx", os.O_RDONLY | os.O_NOCTTY)),
            "/dev/shm": lambda: tempfile.TemporaryFile(dir="/dev/shm").close(),
            "own memory": write("/proc/self/mem", os.O_RDWR),
            "chmod": lambda: os.chmod(foreign, 0o666),
            "fchmod": lambda: os.fchmod(readable, 0o666),
            "chown": lambda: os.chown(foreign, os.geteuid(), -1),
            "fchown": lambda: os.fchown(readable, os.geteuid(), -1),
            "utime": lambda: os.utime(foreign, (0, 0)),
            "futime": lambda: os.utime(readable, (0, 0)),
            "setxattr": lambda: os.setxattr(foreign, "user.x", b"1"),
            "raw setxattr": lambda: raw(
                "setxattr",
                ctypes.addressof(path),
                ctypes.addressof(attribute),
                ctypes.addressof(value),
                1,
            ),
            "removexattr": lambda: os.removexattr(foreign, "user.none"),
            "file flags": lambda: fcntl.ioctl(readable, 0x80086601, flags),
            "open by handle": lambda: raw("open_by_handle_at", readable, ctypes.addressof(handle), os.O_RDONLY),
        }

    def processes(self) -> dict[str, Callable[[], Any]]:
        parent = os.getppid()

        def fork() -> None:
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)

        def clone(flags: int) -> Callable[[], Any]:
            def action() -> None:
                # Arguments are (flags, stack, ...): the same first two on both machines.
                child = raw("clone", flags | signal.SIGCHLD)
                if child == 0:
                    os._exit(0)
                os.waitpid(child, 0)

            return action

        def read(path: str) -> None:
            with open(path, "rb") as file:
                assert file.read(1)

        def bare_execve() -> None:
            nowhere = ctypes.create_string_buffer(b"/nonexistent")
            raw("execve", ctypes.addressof(nowhere), 0, 0)

        near, far = os.pipe()
        owner = ctypes.create_string_buffer(struct.pack("ii", 1, parent))  # F_OWNER_PID
        own = os.open(f"{self.inside}/own", os.O_RDONLY)
        place = os.open(self.inside, os.O_RDONLY)

        def signal_by_pipe() -> None:
            """The kernel sends a signal of one's choice to a process of one's choice when something arrives."""
            fcntl.fcntl(near, fcntl.F_SETOWN, parent)
            fcntl.fcntl(near, fcntl.F_SETSIG, signal.SIGURG)  # ignored by whoever has no use for it
            fcntl.fcntl(near, fcntl.F_SETFL, os.O_ASYNC)
            os.write(far, b"x")

        word = ctypes.create_string_buffer(8)
        vector = ctypes.create_string_buffer(struct.pack("PN", ctypes.addressof(word), 8))
        return {
            "run": lambda: subprocess.run(["/bin/true"], check=True),
            "spawn": lambda: os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0),
            "fork": fork,
            "clone": clone(0),
            "clone with a user namespace": clone(CLONE_NEWUSER),
            "clone3": lambda: raw("clone3", 0, 0),
            "execve": bare_execve,
            "execveat": lambda: raw("execveat", -1, 0, 0, 0, 0),
            "memory file": lambda: os.close(os.memfd_create("x")),
            "signal the parent": lambda: os.kill(parent, 0),
            "signal the group": lambda: os.kill(0, 0),
            "signal a thread of the parent": lambda: raw("tgkill", parent, parent, 0),
            "tkill": lambda: raw("tkill", parent, 0),
            "signal by descriptor": lambda: signal.pidfd_send_signal(self.parent, 0),
            "queue a signal": lambda: raw("rt_sigqueueinfo", parent, 0, 0),
            "signal by a pipe": signal_by_pipe,
            "own a pipe for the parent": lambda: fcntl.fcntl(near, fcntl.F_SETOWN, parent),
            "own it for the parent's group": lambda: fcntl.fcntl(near, fcntl.F_SETOWN, -os.getpgid(parent)),
            "own it in the newer way": lambda: raw("fcntl", near, 15, ctypes.addressof(owner)),
            "choose its signal": lambda: fcntl.fcntl(near, fcntl.F_SETSIG, signal.SIGURG),
            "own it by ioctl": lambda: fcntl.ioctl(near, 0x8901, struct.pack("i", parent)),
            "lease a file": lambda: fcntl.fcntl(own, fcntl.F_SETLEASE, fcntl.F_RDLCK),
            "watch a directory": lambda: fcntl.fcntl(place, fcntl.F_NOTIFY, fcntl.DN_MODIFY),
            "take a descriptor": lambda: os.close(raw("pidfd_getfd", self.parent, 0, 0)),
            "read the parent": lambda: raw("process_vm_readv", parent, ctypes.addressof(vector), 1, 0, 0, 0),
            "write the parent": lambda: raw("process_vm_writev", parent, ctypes.addressof(vector), 1, 0, 0),
            "ptrace": lambda: raw("ptrace", 16, -1),
            "the parent's environment": lambda: read(f"/proc/{parent}/environ"),
            "the parent's memory": lambda: open(f"/proc/{parent}/mem", "rb").close(),
            "the parent's descriptors": lambda: os.readlink(f"/proc/{parent}/fd/0"),
            "slow the parent down": lambda: os.setpriority(os.PRIO_PROCESS, parent, 10),
            "pin the parent down": lambda: os.sched_setaffinity(parent, os.sched_getaffinity(parent)),
            "the parent's limits": lambda: raw("prlimit64", parent, 7, 0, 0),
            "become dumpable": lambda: raw("prctl", 4, 1),
            "allow a tracer": lambda: raw("prctl", 0x59616D61, -1),
            "shared memory": lambda: raw("shmctl", raw("shmget", 0, 4096, 0o1600), 0, 0),
            "message queue": lambda: raw("msgctl", raw("msgget", 0, 0o1600), 0, 0),
            "semaphores": lambda: raw("semctl", raw("semget", 0, 1, 0o1600), 0, 0),
            "posix queue": lambda: raw("mq_unlink", ctypes.addressof(word)),
            "type into a terminal": lambda: fcntl.ioctl(self.follower, 0x5412, b"x"),
        }

    def kernel(self) -> dict[str, Callable[[], Any]]:
        named = """
            unshare setns mount umount2 pivot_root chroot open_tree move_mount fsopen fsconfig fsmount
            fspick mount_setattr bpf perf_event_open userfaultfd fanotify_init keyctl add_key request_key
            init_module finit_module delete_module kexec_load reboot swapon swapoff quotactl
            sethostname setdomainname clock_settime adjtimex
        """.split()  # noqa: SIM905 - a list one can read

        def bogus(name: str) -> Callable[[], Any]:
            return lambda: raw(name, -1, -1, -1, -1, -1, -1)  # fails everywhere, by another error

        return {name: bogus(name) for name in named}


class Works:
    """What the product goes on doing."""

    def __init__(self, writable: str) -> None:
        self.inside = writable

    def all(self) -> dict[str, Callable[[], Any]]:  # noqa: C901 - a list
        inside = self.inside

        def thread() -> None:
            ran: list[int] = []
            threads = [threading.Thread(target=ran.append, args=(n,)) for n in range(20)]
            for one in threads:
                one.start()
            for one in threads:
                one.join()
            assert len(ran) == 20

        def pair() -> None:
            one, other = socket.socketpair()
            one.sendall(b"x")
            one.send(b"y")
            assert other.recv(2) in (b"x", b"xy")
            os.set_blocking(one.fileno(), False)
            one.setblocking(True)

        def store() -> None:
            fd = os.open(f"{inside}/staged", os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW, 0o600)
            os.write(fd, b"note")
            os.fsync(fd)
            os.ftruncate(fd, 2)
            os.close(fd)
            os.link(f"{inside}/staged", f"{inside}/note.md")
            os.rename(f"{inside}/staged", f"{inside}/note.md.2")
            os.replace(f"{inside}/note.md.2", f"{inside}/note.md")
            directory = os.open(inside, os.O_RDONLY | os.O_DIRECTORY)
            os.fsync(directory)
            fd = os.open("beneath", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=directory)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(fd)
            os.rename("beneath", "moved", src_dir_fd=directory, dst_dir_fd=directory)
            assert exchange.exchange(directory, "moved", "note.md")
            os.unlink("moved", dir_fd=directory)
            assert os.listdir(directory)
            fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.close(directory)
            os.unlink(f"{inside}/note.md")

        def nameless() -> None:
            fd = os.open(inside, os.O_TMPFILE | os.O_WRONLY, 0o600)
            os.write(fd, b"x")
            directory = os.open(inside, os.O_RDONLY | os.O_DIRECTORY)
            os.link(f"/proc/self/fd/{fd}", "linked-in", dst_dir_fd=directory, follow_symlinks=True)
            os.unlink("linked-in", dir_fd=directory)
            os.close(directory)
            os.close(fd)

        def truncating() -> None:
            with open(f"{inside}/journal", "w") as file:
                file.write("x" * 100)
            os.truncate(f"{inside}/journal", 10)
            with open(f"{inside}/journal", "w"):
                pass

        def imports() -> None:
            import hashlib

            import yaml

            before = set(sys.modules)
            import decimal
            import sqlite3
            import ssl
            import uuid

            assert all((decimal.Decimal(1), sqlite3.sqlite_version, uuid.uuid4()))
            assert set(sys.modules) - before
            hashlib.blake2b(b"x").hexdigest()
            yaml.safe_load("a: 1")
            ssl.create_default_context()

        def loop() -> None:
            import asyncio

            async def main() -> str:
                return await asyncio.to_thread(os.getcwd)

            asyncio.run(main())

        def signals() -> None:
            came: list[int] = []
            signal.signal(signal.SIGUSR1, lambda number, _: came.append(number))
            os.kill(os.getpid(), signal.SIGUSR1)
            signal.raise_signal(signal.SIGUSR1)
            signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
            assert len(came) == 3

        def parent() -> None:
            import select

            watch = select.poll()
            watch.register(os.pidfd_open(os.getppid()), select.POLLIN)
            assert watch.poll(0) == []

        def proc() -> None:
            os.listdir("/proc/self/fd")
            os.readlink("/proc/self/fd/1")
            for name in ("status", "stat", "maps", "cmdline"):
                with open(f"/proc/self/{name}", "rb") as file:
                    assert file.read(1)

        def limits() -> None:
            import resource

            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        return {
            "threads": thread,
            "socketpair": pair,
            "storing": store,
            "nameless": nameless,
            "truncating": truncating,
            "reading": lambda: open("/etc/passwd").close(),
            "listing": lambda: os.listdir("/"),
            "imports": imports,
            "event loop": loop,
            "signals": signals,
            "parent": parent,
            "proc": proc,
            "limits": limits,
            "terminal?": lambda: os.isatty(1),
            "random": lambda: os.urandom(8),
        }


def become(uid: int, keep: int = 1 << 2) -> None:
    """An ordinary user; with CAP_DAC_READ_SEARCH, since the interpreter may lie in a directory of root's."""
    os.setgroups([])
    os.setgid(uid)
    raw("prctl", 8, 1)  # PR_SET_KEEPCAPS
    os.setuid(uid)
    header = ctypes.create_string_buffer(struct.pack("=Ii", 0x20080522, 0))
    data = ctypes.create_string_buffer(struct.pack("=6I", keep, keep, 0, 0, 0, 0))
    raw("capset", ctypes.addressof(header), ctypes.addressof(data))
    raw("prctl", 4, 1)  # the kernel made us undumpable with the change of user: begin as others do


def refuse_calls(outcomes: dict[int, int]) -> None:
    """An outer filter, as a container has one: these call numbers fail with these errors."""
    code = [(0x20, 0, 0, 0)]
    for number, error in outcomes.items():
        code += [(0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | error)]
    code.append((0x06, 0, 0, 0x7FFF0000))
    program = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *one) for one in code))
    header = ctypes.create_string_buffer(struct.pack("@HP", len(code), ctypes.addressof(program)))
    raw("prctl", 38, 1)
    raw("seccomp", 1, 0, ctypes.addressof(header))


def report_abi(abi: int) -> None:
    """Have the kernel say that it knows Landlock up to this version."""
    asked = kernel.Kernel.call

    def call(self: kernel.Kernel, name: str, *arguments: Any) -> int:
        answer = asked(self, name, *arguments)
        return min(answer, abi) if name == "landlock_create_ruleset" and arguments[2] == 1 else answer

    kernel.Kernel.call = call  # type: ignore[method-assign]


def main() -> None:
    order: dict[str, Any] = json.loads(sys.argv[1])
    mode = order["mode"]
    if order.get("uid"):
        become(order["uid"])
        child = os.fork()  # so that the parent of what follows is a process of the same user
        if child:
            os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    with contextlib.ExitStack() as stack:
        inside = stack.enter_context(tempfile.TemporaryDirectory(dir=order["base"], ignore_cleanup_errors=True))
        outside = stack.enter_context(tempfile.TemporaryDirectory(dir=order["base"], ignore_cleanup_errors=True))
        attempts, works = Attempts(inside, outside), Works(inside)
        os.link(f"{inside}/own", f"{inside}/own-2")
        tried = attempts.all()
        ports = None
        if order.get("connect"):
            ports = [attempts.listener.getsockname()[1]]
            other = socket.socket()
            other.bind(("127.0.0.1", 0))
            other.listen()
            tried["connect to another port"] = lambda: socket.create_connection(other.getsockname(), 5)
        else:
            tried |= attempts.connecting()
        if order.get("outer"):
            refuse_calls({int(number): error for number, error in order["outer"].items()})
        if order.get("abi"):
            report_abi(order["abi"])
        held = lockdown.lock([inside], ports, mode)
        answer: dict[str, Any] = {"held": held._asdict(), "line": held.describe()}
        answer["works"] = {name: outcome(action) for name, action in works.all().items()}
        if order.get("connect"):
            answer["works"] |= {name: outcome(action) for name, action in attempts.connecting().items()}
        if order.get("attempts", True):
            answer["attempts"] = {name: outcome(action) for name, action in tried.items()}
        print(json.dumps(answer), flush=True)
        os._exit(0)  # cleaning up is a right that is gone; the directory above belongs to the test


if __name__ == "__main__":
    main()

"""What a locked process can't do, and what it still can: tried in real processes, against the real kernel.

Each attempt also runs in a process that isn't locked. One that fails there as well proves nothing.
"""

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.support.ports import free_port

from memory_sidecar.system import lockdown
from memory_sidecar.system.lockdown import seccomp, tables

SUPPORT = Path(__file__).parents[1] / "support"
NOBODY = 65534
DENIED = {"EPERM", "EACCES", "EXDEV", "ENOSYS"}
ROOT = os.geteuid() == 0

HERE = lockdown.available(connect=True)
locks = pytest.mark.skipif(bool(HERE.reason), reason=f"this kernel can't hold all of it: {HERE.reason}")
as_root = pytest.mark.skipif(not ROOT, reason="needs root to become another user")

# These succeed on any kernel and for any user, when nothing is locked.
CORE = {
    "bind", "listen without bind", "accept", "udp", "netlink", "unix", "abstract unix", "io_uring",
    "datagram pair to an address", "fast open", "open for writing", "truncate by opening", "create", "unlink",
    "rename within", "rename out", "mkdir", "mkdir inside", "symlink inside", "/dev/null", "read a terminal", "chmod",
    "utime", "run", "spawn", "fork", "clone", "memory file", "become dumpable", "connect",
}  # fmt: skip


def child(base: Path, **order: Any) -> dict[str, Any]:
    order = {"mode": "require", "base": str(base), **order}
    done = subprocess.run(
        [sys.executable, str(SUPPORT / "locked.py"), json.dumps(order)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from memory_sidecar.system import lockdown\n" + code, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def base() -> Iterator[Path]:
    """A directory that every user can reach: pytest's own are private."""
    with TemporaryDirectory() as path:
        Path(path).chmod(0o777)
        yield Path(path)


@pytest.fixture(scope="module")
def unlocked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    attempts: dict[str, str] = child(tmp_path_factory.mktemp("unlocked"), mode="off")["attempts"]
    return attempts


@locks
def test_without_lockdown_the_attempts_succeed(unlocked: dict[str, str]) -> None:
    assert {name: unlocked[name] for name in CORE if unlocked[name] != "done"} == {}


@locks
@pytest.mark.parametrize("connect", [False, True], ids=["files", "jetstream"])
@pytest.mark.parametrize("uid", [0, pytest.param(NOBODY, marks=as_root)], ids=["as it is", "ordinary user"])
def test_every_attempt_is_denied_and_the_product_goes_on_working(
    base: Path, unlocked: dict[str, str], connect: bool, uid: int
) -> None:
    answer = child(base, connect=connect, uid=uid)

    assert {name: got for name, got in answer["attempts"].items() if got not in DENIED} == {}
    assert {name: got for name, got in answer["works"].items() if got != "done"} == {}
    assert answer["held"]["reason"] == ""
    if connect:
        assert answer["attempts"]["connect to another port"] == "EACCES"
    if ROOT:  # a denial means something where the same attempt ends otherwise without lockdown
        same = {name for name, got in answer["attempts"].items() if got == unlocked.get(name)}
        assert same == set()


TRUNCATING = {"truncate by opening", "truncate"}
LEAVES = {
    1: "leaves truncating files open (Linux 6.2 closes it)",
    2: "leaves truncating files open (Linux 6.2 closes it)",
    3: "leaves every TCP port open to connect (Linux 6.7 closes it)",
}


@locks
@pytest.mark.parametrize("connect", [False, True], ids=["files", "jetstream"])
@pytest.mark.parametrize("abi", [1, 2, 3, 4, 5, 6, 7])
def test_an_older_landlock_handles_what_it_knows(base: Path, abi: int, connect: bool) -> None:
    """What the kernel reports is masked. All that such a Landlock leaves open the filter closes, or it is told."""
    if abi > (HERE.landlock_abi or 0):
        pytest.skip(f"this kernel has Landlock ABI {HERE.landlock_abi}")
    answer = child(base, abi=abi, connect=connect, mode="auto")

    open_still = {name for name, got in answer["attempts"].items() if got not in DENIED}
    told = LEAVES.get(abi, "") if abi < 3 or connect else ""
    assert open_still == (TRUNCATING if abi < 3 else set()) | (
        {"connect to another port"} if connect and abi < 4 else set()
    )
    assert {name: got for name, got in answer["works"].items() if got != "done"} == {}
    held = f"Landlock (ABI {abi}), seccomp, not dumpable"
    assert answer["line"] == held + (f"; Landlock ABI {abi} {told}" if told else "")


@locks
def test_without_the_filter_an_older_landlock_leaves_signals_open(tmp_path: Path) -> None:
    seccomp = {tables.USED["seccomp"][tables.MACHINES[os.uname().machine].column] or 0: errno.EPERM}
    said = "so every process of this user can be signalled"
    for abi in (5, 6):
        answer = child(tmp_path, mode="auto", outer=seccomp, abi=abi)
        assert (said in answer["line"]) == (abi < 6)
        assert answer["attempts"]["signal the parent"] == ("done" if abi < 6 else "EPERM")


@locks
def test_a_terminal_at_stderr_is_only_written_to(tmp_path: Path) -> None:
    code = (
        "import os, sys; from memory_sidecar.system import lockdown\n"
        "held = lockdown.lock([sys.argv[1]], None, sys.argv[2])\n"
        "os.write(2, b'told')\n"
        "try: print(os.read(2, 100))\n"
        "except OSError as error: print(error.strerror)"
    )
    for mode, read in (("off", "b'typed\\n'"), ("require", "Bad file descriptor")):
        leader, follower = os.openpty()
        os.write(leader, b"typed\n")
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path), mode],
            stdout=subprocess.PIPE, stderr=follower, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert done.stdout == f"{read}\n", mode
        shown = b""
        while b"told" not in shown:  # what was typed is echoed before it, and may come apart from it
            shown += os.read(leader, 1000)
        os.close(leader)
        os.close(follower)


@locks
def test_no_terminal_is_read_by_its_name(tmp_path: Path) -> None:
    """Not the one that controls it, nor another of the same user. What is no terminal is still read."""
    code = (
        "import os, sys; from memory_sidecar.system import lockdown\n"
        "held = lockdown.lock([sys.argv[1]], None, sys.argv[2])\n"
        "for path in ('/dev/tty', sys.argv[3], '/proc/self/fd/2',\n"
        "             '/dev/zero', '/dev/urandom', '/etc/passwd', '/proc/stat'):\n"
        "    try: told = str(len(os.read(os.open(path, os.O_RDONLY | os.O_NOCTTY), 1)))\n"
        "    except OSError as error: told = error.strerror\n"
        "    print(told)"
    )
    for mode, terminal in (("off", "1"), ("require", "Permission denied")):
        leader, follower = os.openpty()
        other, named = os.openpty()
        os.write(leader, b"typed\n" * 2)
        os.write(other, b"typed\n")

        def control(terminal: int = follower) -> None:
            os.setsid()
            fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)

        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path), mode, os.ttyname(named)],
            stdout=subprocess.PIPE, stderr=follower, text=True, timeout=60, check=True, preexec_fn=control,
        )  # fmt: skip
        assert done.stdout.splitlines() == [terminal] * 3 + ["1"] * 4, mode
        for descriptor in (leader, follower, other, named):
            os.close(descriptor)


@locks
def test_a_root_that_cannot_be_listed_is_told(tmp_path: Path) -> None:
    """Then nothing beside the devices can be granted, so they stay readable as well."""
    code = (
        "import os, sys; plain = os.access\n"
        "os.access = lambda path, how: path != '/' and plain(path, how)\n"
        "held = lockdown.lock([sys.argv[1]], None, 'auto'); print(held.describe()); open('/etc/passwd').close()"
    )
    said = "terminals and other devices can be read by their names, since the root directory cannot be listed"
    assert said in run(code, str(tmp_path)).stdout
    assert "LockdownError" in run(code.replace("auto", "require"), str(tmp_path)).stderr


@locks
def test_the_root_directory_cannot_be_what_is_writable(tmp_path: Path) -> None:
    (tmp_path / "root").symlink_to("/")
    for path in ("/", "//", str(tmp_path / "root")):
        done = run("import sys; lockdown.lock([sys.argv[1]], None, 'auto')", path)
        assert "LockdownError: the directory / holds every other; keep memory in a directory of its own" in done.stderr
        assert "off" not in done.stderr
    devices = run("lockdown.lock(['/dev'], None, 'auto'); print('locked')")
    assert devices.stdout == "locked\n", devices.stderr


@locks
def test_what_is_missing_is_said_and_the_rest_is_held(tmp_path: Path) -> None:
    no_landlock = child(tmp_path, mode="auto", outer={444: errno.ENOSYS})
    assert no_landlock["held"]["landlock_abi"] is None
    assert no_landlock["line"] == (
        "seccomp, not dumpable; no Landlock: the kernel or a container's filter refuses it (ENOSYS)"
    )
    assert no_landlock["attempts"]["listen without bind"] == "EPERM"
    assert no_landlock["attempts"]["create"] == "done"

    at_boot = child(tmp_path, mode="auto", outer={444: errno.EOPNOTSUPP}, attempts=False)
    assert "switched off at boot" in at_boot["line"]

    rules = child(tmp_path, mode="auto", outer={445: errno.EPERM}, attempts=False)
    assert rules["held"]["landlock_abi"] is None
    assert "it refuses the rules (EPERM)" in rules["line"]

    seccomp = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
    no_seccomp = child(tmp_path, mode="auto", outer={seccomp: errno.EPERM})
    assert no_seccomp["line"] == (
        f"Landlock (ABI {HERE.landlock_abi}), not dumpable; "
        "no seccomp: the kernel or a container's filter refuses it (EPERM)"
    )
    assert no_seccomp["attempts"]["create"] == "EACCES"
    assert no_seccomp["attempts"]["udp"] == "done"


@locks
def test_require_refuses_before_giving_anything_up(tmp_path: Path) -> None:
    done = run(
        "import sys; sys.path.insert(0, sys.argv[1]); import locked, errno, os\n"
        "locked.refuse_calls({444: errno.ENOSYS})\n"
        "try: lockdown.lock([sys.argv[2]], None, 'require')\n"
        "except lockdown.LockdownError as error: print(error, flush=True)\n"
        "os.system('echo still free')",
        str(SUPPORT),
        str(tmp_path),
    )
    assert done.stdout.splitlines() == [
        (
            "--lockdown require, but no Landlock: the kernel or a container's filter refuses it (ENOSYS); "
            "run where Linux offers all of it, or use --lockdown auto"
        ),
        "still free",
    ]


def test_off_changes_nothing(tmp_path: Path) -> None:
    assert lockdown.lock([str(tmp_path)], None, "off").describe() == "nothing; switched off"
    assert subprocess.run(["true"], check=True).returncode == 0


@pytest.mark.parametrize(
    ("platform", "machine", "said"),
    [
        ("darwin", "arm64", "not available on darwin: the rights are given up through Linux calls"),
        (
            "linux",
            "riscv64",
            "not available on a 64-bit program on riscv64: only x86_64 and aarch64 are known",
        ),
    ],
)
def test_elsewhere_it_says_that_it_is_not_available(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, machine: str, said: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("", "", "", "", machine)))
    assert lockdown.available().describe() == f"nothing; {said}"
    assert lockdown.lock([str(tmp_path)], None, "auto").reason == said
    with pytest.raises(lockdown.LockdownError, match="--lockdown auto"):
        lockdown.lock([str(tmp_path)], None, "require")


@locks
def test_available_changes_nothing_and_lock_gets_that(tmp_path: Path) -> None:
    before = Path("/proc/self/status").read_text()
    assert lockdown.available() == HERE
    after = Path("/proc/self/status").read_text()
    for line in ("Seccomp", "NoNewPrivs", "CapEff"):
        assert re.findall(f"{line}.*", before) == re.findall(f"{line}.*", after)
    assert child(tmp_path, attempts=False)["line"] == HERE.describe()


@locks
def test_a_thread_that_runs_already_is_refused(tmp_path: Path) -> None:
    done = run(
        "import sys, threading\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        "lockdown.lock([sys.argv[1]], None, 'auto')",
        str(tmp_path),
    )
    assert "LockdownError: a thread that already runs would stay unlocked" in done.stderr


@locks
def test_a_thread_that_was_joined_is_none(tmp_path: Path) -> None:
    done = run(
        "import sys\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor() as pool: list(pool.map(len, [''] * 50))\n"
        "print(lockdown.lock([sys.argv[1]], None, 'require').describe())",
        str(tmp_path),
    )
    assert done.stdout == f"{HERE.describe()}\n", done.stderr


@locks
def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = run("import sys; lockdown.lock([sys.argv[1]], None, 'auto')", str(tmp_path / "none"))
    assert f"LockdownError: cannot open the writable directory {tmp_path / 'none'}" in done.stderr


@locks
@pytest.mark.parametrize(
    ("broken", "found"),
    [
        ("lockdown._filter = lambda *_: 0", "binding, listening, accepting, io_uring, executing"),
        (
            "lockdown.restrict = lambda *_, **__: 0",
            "writing outside the given directories, reading a terminal, connecting to another port",
        ),
        ("lockdown.seccomp.conditions = lambda *_: {'socket': ()}", "UDP, UDP over IPv6, MPTCP"),
    ],
    ids=["no filter", "no Landlock", "any socket"],
)
def test_a_lock_that_does_not_hold_is_found_by_the_probes(tmp_path: Path, broken: str, found: str) -> None:
    done = run(f"{broken}\nimport sys; lockdown.lock([sys.argv[1]], [1], 'auto')", str(tmp_path))
    assert f"LockdownError: still possible after locking: {found}" in done.stderr


@locks
def test_probes_leave_nothing_behind(tmp_path: Path) -> None:
    done = run(
        "import os, sys\n"
        "before = os.listdir('/proc/self/fd')\n"
        "lockdown.lock([sys.argv[1]], [4222], 'require')\n"
        "print(before == os.listdir('/proc/self/fd'), os.listdir(sys.argv[1]))",
        str(tmp_path),
    )
    assert done.stdout == "True []\n"


@locks
def test_locking_twice_only_takes_more_away(tmp_path: Path) -> None:
    done = run(
        "import sys\n"
        "lockdown.lock([sys.argv[1]], [1, 2], 'require')\n"
        "print(lockdown.lock([sys.argv[1]], None, 'require').reason == '')",
        str(tmp_path),
    )
    assert done.stdout == "True\n", done.stderr


@locks
def test_late_imports_outside_the_package_compile_without_writing(tmp_path: Path) -> None:
    (tmp_path / "late.py").write_text("value = 1\n")
    (tmp_path / "store").mkdir()
    done = run(
        "import sys; sys.dont_write_bytecode = False\n"
        "lockdown.lock([sys.argv[1] + '/store'], None, 'require')\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "import late; print(late.value)",
        str(tmp_path),
    )
    assert done.stdout == "1\n", done.stderr
    assert not (tmp_path / "__pycache__").exists()


@locks
@as_root
def test_others_of_the_same_user_cannot_look_in(base: Path) -> None:
    look = (
        "import os, sys\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "for name in ('environ', 'mem', 'maps', 'fd/0'):\n"
        "    try:\n"
        "        if name == 'fd/0': os.readlink(f'/proc/{sys.argv[1]}/fd/0')\n"
        "        else: open(f'/proc/{sys.argv[1]}/{name}', 'rb').read(name != 'mem')\n"
        "        print(name)\n"
        "    except OSError: pass\n"
    )
    wait = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); import locked\n"
        "locked.become(65534, keep=0)\n"
        "lockdown.lock([sys.argv[2]], None, sys.argv[3])\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    seen = {}
    for mode in ("off", "require"):
        with subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from memory_sidecar.system import lockdown\n" + wait,
                str(SUPPORT),
                str(base),
                mode,
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            looked = subprocess.run(
                [sys.executable, "-c", look, str(process.pid)], capture_output=True, text=True, check=True
            )
            seen[mode] = looked.stdout.split()
            process.communicate()
    assert "environ" in seen["off"]
    assert "mem" in seen["off"]
    assert seen["require"] == []


@locks
@pytest.mark.skipif(os.uname().machine != "x86_64", reason="32-bit calls of x86")
def test_calls_by_the_32_bit_convention_end_the_process(tmp_path: Path) -> None:
    code = (
        "import ctypes, mmap, sys\n"
        "page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
        "page.write(bytes.fromhex('b814000000cd80c3'))\n"  # mov eax, 20 (getpid); int 0x80; ret
        "call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))\n"
        "lockdown.lock([sys.argv[1]], None, sys.argv[2])\n"
        "call()"
    )
    free = run(code, str(tmp_path), "off")
    if free.returncode != 0:
        pytest.skip("this kernel has no 32-bit calls")
    assert run(code, str(tmp_path), "require").returncode == -signal.SIGSYS


@locks
@as_root
def test_names_are_looked_up_over_tcp_after_locking(tmp_path: Path) -> None:
    said = {}
    for prepared in ("prepared", "not"):
        done = subprocess.run(
            [sys.executable, str(SUPPORT / "locked_names.py"), str(tmp_path), prepared],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            # Other tests of this process may have prepared it.
            env={name: value for name, value in os.environ.items() if name != "RES_OPTIONS"},
        )
        if done.returncode == 77:
            pytest.skip("no namespaces here")
        assert done.returncode == 0, done.stderr
        said[prepared] = done.stdout
    assert said["prepared"] == "connected\n"
    assert said["not"].startswith("no name: ")


def broker(name: str, port: int, cluster: int, routes: list[int]) -> subprocess.Popen[bytes]:
    server = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if server is None:
        pytest.skip("no nats-server here")
    return subprocess.Popen(
        [
            server, "--addr", "127.0.0.1", "--port", str(port), "--name", name, "--cluster_name", "locked",
            "--cluster", f"nats://127.0.0.1:{cluster}",
            "--routes", ",".join(f"nats://127.0.0.1:{route}" for route in routes),
        ],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip


@locks
def test_a_broker_by_name_and_members_it_told_of_are_reconnected_to(tmp_path: Path) -> None:
    pytest.importorskip("nats")
    ports, clusters = [free_port() for _ in range(3)], [free_port() for _ in range(3)]
    brokers = {port: broker(f"n{at}", port, clusters[at], clusters) for at, port in enumerate(ports)}
    with contextlib.ExitStack() as stack:
        for process in brokers.values():
            stack.callback(process.wait)
            stack.callback(process.kill)
        wait_for_port(ports[0])
        locked = stack.enter_context(
            subprocess.Popen(
                [sys.executable, SUPPORT / "locked_broker.py", f"nats://localhost:{ports[0]}", tmp_path],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        stack.callback(locked.kill)
        assert locked.stdin is not None
        assert locked.stdout is not None
        assert locked.stdout.readline() == f"locked {HERE.describe()}\n"
        connected = ports[0]
        for _ in range(2):  # the last one left is a member that was only told of
            brokers[connected].kill()
            locked.stdin.write("stopped\n")
            locked.stdin.flush()
            said = locked.stdout.readline().split()
            assert said[0] == "connected"
            assert int(said[1]) in set(ports) - {connected}
            connected = int(said[1])


def wait_for_port(port: int) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.02)
    raise AssertionError(f"nothing listens on {port}")


def test_look_ups_over_tcp_keep_the_operators_options(monkeypatch: pytest.MonkeyPatch) -> None:
    for before, after in (
        (None, "use-vc"),
        ("timeout:1", "timeout:1 use-vc"),
        ("use-vc rotate", "use-vc rotate"),
    ):
        monkeypatch.delenv("RES_OPTIONS", raising=False)
        if before is not None:
            monkeypatch.setenv("RES_OPTIONS", before)
        lockdown.look_up_names_over_tcp()
        assert os.environ["RES_OPTIONS"] == after


# --- the filter, examined as a program: also for the machine one doesn't have

PID = 4242
TABLES = {**tables.REFUSED, **tables.CONDITIONAL, **tables.UNKNOWN, **tables.USED}


def judge(program: bytes, arch: int, number: int, *arguments: int) -> str:
    """What the kernel's interpreter would answer."""
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, arch, 0, *(word & (1 << 64) - 1 for word in words))
    at = accumulator = 0
    while True:
        code, true, false, operand = struct.unpack_from("=HBBI", program, at * 8)
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, operand)
        elif code == 0x54:
            accumulator &= operand
        elif code == 0x15:
            at += true if accumulator == operand else false
        elif code == 0x25:
            at += true if accumulator > operand else false
        else:
            assert code == 0x06
            if operand == 0x7FFF0000:
                return "allow"
            return "kill" if operand == 0x80000000 else errno.errorcode[operand & 0xFFFF]


@pytest.mark.parametrize("connect", [False, True], ids=["files", "jetstream"])
@pytest.mark.parametrize("name", list(tables.MACHINES))
def test_the_filter_as_a_program(name: str, connect: bool) -> None:
    machine = tables.MACHINES[name]
    program = seccomp.program(machine, PID, connect)
    assert len(program) // 8 < 4096  # the kernel's limit

    def answer(call: str, *arguments: int) -> str:
        number = TABLES[call][machine.column]
        assert number is not None
        return judge(program, machine.audit, number, *arguments)

    for call, numbers in tables.REFUSED.items():
        if numbers[machine.column] is not None:
            assert answer(call) == "EPERM", call
    network = "allow" if connect else "EPERM"
    high = 0xDEAD << 32  # the kernel reads these arguments as int: the upper half says nothing
    for wanted, call, arguments in [
        (network, "socket", (socket.AF_INET, socket.SOCK_STREAM, 0)),
        (network, "socket", (socket.AF_INET6 | high, socket.SOCK_STREAM | 0o2004000 | high, 6 | high)),
        (network, "connect", (3, 1, 16)),
        ("EPERM", "socket", (socket.AF_INET, socket.SOCK_STREAM, 262)),
        ("EPERM", "socket", (socket.AF_INET, socket.SOCK_STREAM, 256)),
        ("EPERM", "socket", (socket.AF_INET, socket.SOCK_DGRAM, 0)),
        ("EPERM", "socket", (socket.AF_INET, socket.SOCK_SEQPACKET, 132)),
        ("EPERM", "socket", (socket.AF_UNIX, socket.SOCK_STREAM, 0)),
        ("allow", "socketpair", (socket.AF_UNIX, socket.SOCK_STREAM | 0o2000000, 0)),
        ("EPERM", "socketpair", (socket.AF_UNIX, socket.SOCK_DGRAM, 0)),
        ("EPERM", "socketpair", (30, socket.SOCK_STREAM, 0)),
        ("allow", "sendto", (3, 1, 1, 0x4000, 0, 0)),
        ("EPERM", "sendto", (3, 1, 1, 0x20000000, 0, 0)),
        ("EPERM", "sendto", (3, 1, 1, 0, 0x1000, 16)),
        ("EPERM", "sendto", (3, 1, 1, 0, 1 << 40, 16)),
        ("allow", "sendmsg", (3, 1, 0x4000)),
        ("EPERM", "sendmsg", (3, 1, 0x20004000)),
        ("EPERM", "sendmmsg", (3, 1, 1, 0x20000000)),
        ("allow", "clone", (0x3D0F00,)),  # what the C library starts a thread with
        ("EPERM", "clone", (0x1200011,)),  # and a process
        ("EPERM", "clone", (0x3D0F00 | 0x10000000,)),
        ("EPERM", "clone", (0x3D0F00 | 0x40000000,)),
        ("ENOSYS", "clone3", ()),
        ("allow", "kill", (PID, 15)),
        ("EPERM", "kill", (PID - 1, 15)),
        ("EPERM", "kill", (-1, 15)),
        ("EPERM", "kill", (-PID, 15)),
        ("allow", "tgkill", (PID, PID + 3, 15)),
        ("EPERM", "tgkill", (PID + 1, PID + 1, 15)),
        ("allow", "prlimit64", (0, 7)),
        ("EPERM", "prlimit64", (1, 7)),
        ("allow", "prctl", (15,)),
        ("EPERM", "prctl", (4, 1)),
        ("EPERM", "prctl", (0x59616D61, 1)),
        ("allow", "ioctl", (0, 0x5401)),
        ("allow", "ioctl", (0, 0x802C542A)),
        ("EPERM", "ioctl", (0, 0x5412)),
        ("EPERM", "ioctl", (0, 0x40086602)),
    ]:
        assert answer(call, *arguments) == wanted, (call, arguments)

    listed = {numbers[machine.column] for numbers in TABLES.values()}
    for number in range(tables.NEWEST + 1):
        if number not in listed:
            assert judge(program, machine.audit, number) == "allow"
    for number in (tables.NEWEST + 1, 1 << 30, 1 << 30 | 41, 0xFFFFFFFF):
        assert judge(program, machine.audit, number) == "ENOSYS"
    for other in (0x40000003, 0x40000028, 0):
        assert judge(program, other, 20) == "kill"


@pytest.mark.parametrize(
    ("column", "header"),
    [(0, "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), (1, "/usr/include/asm-generic/unistd.h")],
    ids=["x86_64", "aarch64"],
)
def test_call_numbers_are_those_of_the_kernels_headers(column: int, header: str) -> None:
    try:
        text = Path(header).read_text()
    except OSError:
        pytest.skip(f"no {header} here")
    known = {
        name: int(number) for name, number in re.findall(r"#define __NR(?:3264)?_(\w+)[ \t]+(\d+)[ \t]*$", text, re.M)
    }
    newest = max(known.values())
    for name, numbers in TABLES.items():
        number = numbers[column]
        if number is not None and number > newest:
            continue  # newer than these headers: the next test checks it in another way
        assert known.get(name) == number, name


def test_newer_calls_have_one_number_on_all_machines() -> None:
    for name, (x86_64, aarch64) in TABLES.items():
        if (x86_64 or aarch64 or 0) >= 424:
            assert x86_64 == aarch64, name
        assert (x86_64 or aarch64 or 0) <= tables.NEWEST

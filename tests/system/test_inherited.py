"""What a launcher may leave to the process, and what comes of it: one row each, played with a real sidecar.

A row says how the process is launched. It is then to serve a whole session, to keep what it stores private, and to end
when its harness leaves; or to refuse, with the words that the row gives.
"""

import json
import os
import resource
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest
from tests.support.sidecar import OPEN, SERVE, UNSAVED, Sidecar, environment, launched, make_ticket, patched, until

from memory_sidecar.config import ConfigError, load
from memory_sidecar.exits import EX_CONFIG, EX_USAGE
from memory_sidecar.system import inherited


def leave_directory() -> None:
    """Stand in a directory that is gone."""
    directory = tempfile.mkdtemp()
    os.chdir(directory)
    os.rmdir(directory)


def stderr_is(make: Callable[[], int]) -> Callable[[], object]:
    """The descriptor that `make` opens, in place of stderr."""

    def replace() -> None:
        descriptor = make()
        os.dup2(descriptor, 2)
        os.close(descriptor)

    return replace


def pipe_without_a_reader() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def full_pipe() -> int:
    """One that takes nothing more and does not wait; its reader lives as long as the process."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 65536)
    os.set_inheritable(reader, True)
    return writer


def limit(what: int, most: int) -> Callable[[], object]:
    return lambda: resource.setrlimit(what, (most, most))


def ignore_signals() -> None:
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with suppress(OSError):
            signal.signal(number, signal.SIG_IGN)


class Row(NamedTuple):
    """How the process is launched: `before` runs in it before exec. `refused` is "" where it is to work."""

    before: Callable[[], object] | None = None
    env: Mapping[str, str] = MappingProxyType({})
    options: tuple[str, ...] = ()
    refused: str = ""


ROWS: dict[str, Row] = {
    "stderr closed": Row(lambda: os.close(2)),
    "stderr that nobody reads": Row(stderr_is(pipe_without_a_reader)),
    "stderr that is full and does not wait": Row(stderr_is(full_pipe)),
    "stderr on a full device": Row(stderr_is(lambda: os.open("/dev/full", os.O_WRONLY))),
    "stderr that is open for reading": Row(stderr_is(lambda: os.open("/dev/null", os.O_RDONLY))),
    "all signals blocked": Row(lambda: signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())),
    "all signals ignored": Row(ignore_signals),
    "SIGPIPE that ends a process": Row(lambda: signal.signal(signal.SIGPIPE, signal.SIG_DFL)),
    "a session of its own": Row(os.setsid),
    "too few descriptors": Row(
        limit(resource.RLIMIT_NOFILE, 12), refused="may open too few files; raise its limit of descriptors to 64"
    ),
    "hardly any descriptors": Row(
        limit(resource.RLIMIT_NOFILE, 6), refused="may open too few files; raise its limit of descriptors to 64"
    ),
    "a small stack": Row(limit(resource.RLIMIT_STACK, 256 << 10)),
    "a stack without a limit": Row(limit(resource.RLIMIT_STACK, resource.RLIM_INFINITY)),
    "no locked memory": Row(limit(resource.RLIMIT_MEMLOCK, 0)),
    "umask that takes the owner's rights": Row(lambda: os.umask(0o777)),
    "umask that gives all rights": Row(lambda: os.umask(0)),
    "the lowest priority": Row(lambda: os.nice(19)),
    "few descriptors, and more to be had": Row(lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (32, 4096))),
    "a working directory that is gone": Row(leave_directory),
    "a working directory that is gone, and a relative path": Row(
        leave_directory, options=("--journal-dir", "runs"), refused="the working directory is gone; start it in"
    ),
    "no core dumps": Row(lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0))),
    "a locale without Unicode": Row(env={"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}),
    "a locale that isn't there": Row(env={"LC_ALL": "xx_YY.KOI8-R"}),
    "a time zone that isn't there": Row(env={"TZ": "Nowhere/Land"}),
    "warnings as errors": Row(env={"PYTHONWARNINGS": "error"}),
    "no docstrings and no asserts": Row(env={"PYTHONOPTIMIZE": "2"}),
    "another encoding for streams": Row(env={"PYTHONIOENCODING": "utf-16"}),
    "no temporary directory": Row(env={"TMPDIR": "/nonexistent"}),
    "no search path": Row(env={"PATH": ""}),
    "no home": Row(env={"HOME": ""}),
    "a home that isn't there": Row(env={"HOME": "/nonexistent"}),
    "a prompt at the end": Row(env={"PYTHONINSPECT": "1"}),
    "an odd module path": Row(
        env={"PYTHONPATH": f"{environment()['PYTHONPATH']}::relative:/nonexistent:/dev/null", "PYTHONSAFEPATH": "1"}
    ),
    "variables that are not text": Row(env={"\udcff": "\udcfe", "TZ": "\udcff"}),
    "a very long variable": Row(env={"X": "x" * 100_000}),
    "telltales of the interpreter": Row(env={"PYTHONVERBOSE": "1", "PYTHONPROFILEIMPORTTIME": "1"}),
    "a debug allocator": Row(env={"PYTHONMALLOC": "debug", "PYTHONDEVMODE": "1"}),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_comes_of_it(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    with Sidecar(tmp_path, *row.options, env=environment(**row.env), preexec_fn=row.before) as sidecar:
        hello = sidecar.hello()
        sidecar.send(hello)
        answer = sidecar.answer(hello)
        if row.refused:
            assert row.refused in answer["error"]["message"]
            assert sidecar.wait() == EX_CONFIG
            return
        assert "error" not in answer
        assert sidecar.write("a", "x" * 60_000)["written"]
        assert sidecar.read("a")["content"] == "x" * 60_000
        assert sidecar.leave() == 0
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if not path.is_dir()} == {0o600}


@pytest.mark.parametrize("size", [16, 20, 22, 24, 26, 30, 40])
def test_little_address_space_is_told_with_its_remedy(size: int, tmp_path: Path) -> None:
    """Where it is enough for the interpreter, whatever that needs here."""
    with Sidecar(tmp_path, preexec_fn=limit(resource.RLIMIT_AS, size << 20)) as sidecar:
        hello = sidecar.hello()
        with suppress(BrokenPipeError):
            sidecar.send(hello)
        try:
            answer = sidecar.answer(hello)
        except EOFError:
            # The interpreter itself did not start, or there was nothing left to answer with.
            sidecar.wait()
            assert "memory_sidecar" not in sidecar.stderr or "ulimit -" in sidecar.stderr
        else:
            assert "error" not in answer or "ulimit -" in answer["error"]["message"]


def test_a_file_that_may_not_grow_is_a_disk_without_room(tmp_path: Path) -> None:
    with launched(tmp_path, preexec_fn=limit(resource.RLIMIT_FSIZE, 100)) as sidecar:
        answer = sidecar.call("memory_write", {"key": "a", "description": "d", "content": "x" * 1000})
        assert "no space left" in answer["content"][0]["text"]
        assert UNSAVED in answer["_meta"]
        assert sidecar.read("a")["found"] is False
        assert sidecar.leave() == 0


def test_runs_are_refused_before_the_others_have_no_descriptors(tmp_path: Path) -> None:
    with launched(tmp_path, preexec_fn=limit(resource.RLIMIT_NOFILE, 32)) as sidecar:
        opened = []
        while "error" not in (answer := sidecar.ask(OPEN, {"run": f"run-{len(opened)}"})):
            opened.append(f"run-{len(opened)}")
        assert "open no more files; end a run first, or raise ulimit -n" in answer["error"]["message"]
        assert len(opened) > 8
        for run in opened:
            assert sidecar.write(run, "x", run)["written"]
        sidecar.suspend(opened.pop())
        sidecar.open("another")
        assert sidecar.leave() == 0


@pytest.mark.parametrize(("descriptor", "name"), [(0, "stdin"), (1, "stdout")])
def test_a_closed_channel_is_refused_by_name(descriptor: int, name: str, tmp_path: Path) -> None:
    make_ticket(tmp_path / "ticket")
    done = subprocess.run(
        [*SERVE, "--identity", "a"],
        env=environment(MEMORY_SIDECAR_TICKET=str(tmp_path / "ticket")),
        preexec_fn=lambda: os.close(descriptor),
        stdin=subprocess.PIPE,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (EX_USAGE, b"")
    assert f"{name} is not a pipe from a parent process".encode() in done.stderr


def test_without_a_stderr_nothing_is_said_on_the_wire(tmp_path: Path) -> None:
    done = subprocess.run(
        [*SERVE], env=environment(), preexec_fn=lambda: os.close(2), stdout=subprocess.PIPE, check=False
    )
    assert (done.returncode, done.stdout) == (EX_USAGE, b"")


def test_another_process_s_pipe_is_not_held_open(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with launched(tmp_path, pass_fds=(writer,)) as sidecar:
        os.close(writer)
        assert os.read(reader, 1) == b"", "the other end is still open somewhere"
        assert sidecar.write("a", "x")["written"]
    os.close(reader)


def test_a_soft_limit_of_descriptors_does_not_limit_the_runs(tmp_path: Path) -> None:
    def few() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 4096))

    with launched(tmp_path, preexec_fn=few) as sidecar:
        for number in range(40):
            sidecar.open(f"run-{number}")
        assert sidecar.write("a", "x", "run-39")["written"]
        assert sidecar.leave() == 0


def test_threads_of_instrumentation_are_left_behind(tmp_path: Path) -> None:
    """As ddtrace-run and opentelemetry-instrument do it: a directory with a sitecustomize in PYTHONPATH."""
    code = "import threading, time\nthreading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
    with launched(tmp_path, "--lockdown", "require", env=patched(tmp_path, code)) as sidecar:
        assert sidecar.write("a", "x")["written"]
        assert len(list(Path(f"/proc/{sidecar.pid}/task").iterdir())) <= 3
        assert sidecar.leave() == 0


def test_threads_that_cannot_be_left_behind_are_named(tmp_path: Path) -> None:
    program = (
        "import sys, threading, time; threading.Thread(target=time.sleep, args=(1000,), daemon=True).start(); "
        "from memory_sidecar.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    command = (SERVE[0], "-c", program, "serve")
    with Sidecar(tmp_path, command=command) as sidecar:
        hello = sidecar.hello()
        sidecar.send(hello)
        message = sidecar.answer(hello)["error"]["message"]
        assert "threads run already in this process" in message
        assert "opentelemetry-instrument" in message
        assert sidecar.wait() == EX_CONFIG


def test_a_fifo_is_no_configuration(tmp_path: Path) -> None:
    fifo = tmp_path / "memory.yaml"
    os.mkfifo(fifo)
    with pytest.raises(ConfigError, match="it is not a regular file; check --config"):
        load(str(fifo))
    (tmp_path / "link.yaml").symlink_to(tmp_path / "real.yaml")
    (tmp_path / "real.yaml").write_text("identity: a\n")
    assert load(str(tmp_path / "link.yaml")).identity == "a", "a mounted configuration is often a link"


@pytest.mark.parametrize("command", ["serve", "info", "doctor"])
@pytest.mark.parametrize("what", ["configuration", "context"])
def test_a_fifo_is_refused_at_once(command: str, what: str, tmp_path: Path) -> None:
    config, home = tmp_path / "memory.yaml", tmp_path / "home"
    context = home / ".config" / "nats" / "context" / "here.json"
    context.parent.mkdir(parents=True)
    os.mkfifo(config if what == "configuration" else context)
    if what == "context":
        memory = {"enabled": True, "backend": "jetstream", "options": {"bucket": "b"}}
        config.write_text(json.dumps({"identity": "a", "nats_context": "here", "harness": {"memory": memory}}))
    env = environment(HOME=str(home), XDG_CONFIG_HOME="")
    if command == "serve":
        with Sidecar(tmp_path, "--config", str(config), env=env) as sidecar:
            hello = sidecar.hello()
            sidecar.send(hello)
            assert "not a regular file" in sidecar.answer(hello)["error"]["message"]
            assert sidecar.wait() == EX_CONFIG
        return
    words = [*SERVE[:-1], command, "--config", str(config), *(["--check"] if command == "info" else [])]
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert "not a regular file" in done.stdout + done.stderr
    assert done.returncode in (1, EX_CONFIG)


def test_ignored_signals_are_not_stopping_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        inherited.signal, "getsignal", lambda number: signal.SIG_IGN if number == signal.SIGHUP else None
    )
    assert inherited.stopping_signals() == [signal.SIGTERM, signal.SIGINT]


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize("device", [True, False])
def test_standard_descriptors_are_filled_without_a_device_too(closed: tuple[int, ...], device: bool) -> None:
    """In a child: each closed one holds something that is read as empty or swallows what is written."""
    if (child := os.fork()) == 0:
        status = 1
        try:
            for descriptor in closed:
                os.close(descriptor)
            if not device:
                os.devnull = "/nonexistent/null"
            inherited._fill_standard_descriptors()
            if 0 in closed:
                assert os.read(0, 1) == b""
            for descriptor in {1, 2} & {*closed}:
                with suppress(BrokenPipeError):
                    os.write(descriptor, b"x")
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def test_a_session_that_does_not_wait_for_its_channels_is_whole(tmp_path: Path) -> None:
    """Node hands its own pipes on without waiting (`stdio: "inherit"`); the flag is shared, and stays as it was."""
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)
    with Sidecar(tmp_path, stdin=theirs, stdout=theirs) as sidecar:
        theirs.close()
        ours.settimeout(30)
        channel = ours.makefile("rwb", buffering=0)

        def ask(message: dict[str, Any]) -> Any:
            channel.write(json.dumps(message).encode() + b"\n")
            line = b""
            while not line.endswith(b"\n"):
                line += ours.recv(1 << 12)
            return json.loads(line)["result"]

        ask(sidecar.hello())
        text = "x" * 65_000
        for number in range(4):
            arguments = {"key": f"k{number}", "description": "d", "content": text}
            assert ask(sidecar.tool("memory_write", arguments))["structuredContent"]["written"]
        # More than the channel holds, asked for at once and read late.
        calls = [sidecar.tool("memory_read", {"key": f"k{number % 4}"}) for number in range(20)]
        channel.write(b"".join(json.dumps(call).encode() + b"\n" for call in calls))
        wanted = {call["id"] for call in calls}
        until(lambda: _sleeps(sidecar.pid), "it waits for room")
        received = b""
        while received.count(b"\n") < len(calls):
            received += ours.recv(1 << 20)
        answers = [json.loads(line) for line in received.splitlines()]
        assert {answer["id"] for answer in answers} == wanted
        assert all(answer["result"]["structuredContent"]["content"] == text for answer in answers)
        channel.close()
        ours.close()
        assert sidecar.wait() == 0


def _sleeps(pid: int) -> bool:
    return all(
        (task / "stat").read_text().rpartition(")")[2].split()[0] == "S" for task in Path(f"/proc/{pid}/task").iterdir()
    )


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_what_is_ignored_stays_ignored(number: signal.Signals, tmp_path: Path) -> None:
    with launched(tmp_path, preexec_fn=lambda: signal.signal(number, signal.SIG_IGN)) as sidecar:
        sidecar.process.send_signal(number)
        assert sidecar.write("a", "x")["written"]
        assert sidecar.leave() == 0


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_what_is_blocked_is_let_in(number: signal.Signals, tmp_path: Path) -> None:
    with launched(tmp_path, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [number])) as sidecar:
        assert sidecar.write("a", "x")["written"]
        sidecar.process.send_signal(number)
        assert sidecar.wait() == 0


def test_one_run_too_many_is_that_run_s_refusal(tmp_path: Path) -> None:
    """Address space for a few threads more: the others go on, and a run that ended makes room."""
    with launched(tmp_path) as sidecar:
        sidecar.open("first")
        assert sidecar.write("a", "x", "first")["written"]
        size = int(Path(f"/proc/{sidecar.pid}/statm").read_text().split()[0]) * resource.getpagesize()
        resource.prlimit(sidecar.pid, resource.RLIMIT_AS, (size + (80 << 20), resource.RLIM_INFINITY))
        refused = None
        opened = []
        for number in range(60):
            answer = sidecar.ask(OPEN, {"run": f"run-{number}"})
            if "error" in answer:
                refused = answer["error"]["message"]
                break
            opened.append(f"run-{number}")
        assert opened
        assert refused is not None
        assert "no more threads; end a run first" in refused
        assert sidecar.read("a", "first")["content"] == "x"
        assert sidecar.write("b", "x", opened[-1])["written"]
        for run in opened:
            sidecar.suspend(run)
        assert sidecar.leave() == 0


def test_a_path_that_is_not_utf_8_is_told_in_legal_json(tmp_path: Path) -> None:
    place = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    Path(place).write_bytes(b"")
    with Sidecar(None, "--store-dir", place) as sidecar:
        hello = sidecar.hello()
        sidecar.send(hello)
        message = sidecar.answer(hello)["error"]["message"]
        assert "caf\ufffd" in message
        message.encode()
        assert sidecar.wait() == EX_CONFIG


def test_a_store_under_a_path_that_is_not_utf_8(tmp_path: Path) -> None:
    base = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9"))
    with launched(base) as sidecar:
        assert sidecar.write("a", "x")["written"]
        assert sidecar.leave() == 0
    assert (base / "memory" / "tester" / "a.md").exists()


REFUSED = "memory-sidecar runs on Linux, macOS and other POSIX systems, not here; on Windows use it within WSL\n"
# What Python has and doesn't have on Windows, in place of this system's.
WINDOWS = """
import os, sys
sys.platform, os.name = "win32", "nt"
sys.modules.update(dict.fromkeys(("fcntl", "grp", "pwd", "resource", "termios")))
"""


@pytest.mark.parametrize("what", ["memory_sidecar", "memory_sidecar.harness", "memory_sidecar.testing.fixtures"])
def test_an_import_on_windows_is_refused_in_one_sentence(what: str, tmp_path: Path) -> None:
    program = f"try:\n    import {what}\nexcept ImportError as error:\n    print(error)"
    done = subprocess.run(
        [SERVE[0], "-c", program], env=patched(tmp_path, WINDOWS), capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == (REFUSED, "")


@pytest.mark.parametrize("words", [["serve"], ["doctor"], ["--version"], []], ids=" ".join)
def test_the_program_on_windows_ends_with_one_sentence(words: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [SERVE[0], "-m", "memory_sidecar", *words],
        env=patched(tmp_path, WINDOWS),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (EX_CONFIG, "", f"memory-sidecar: {REFUSED}")

"""Every command under a signal, and with a reader that leaves: the right exit status, and nothing half-done unsaid."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.sidecar import is_gone, until

from memory_sidecar.cli import COMMANDS

from .conftest import PROGRAM, Cli, Place, environment

STOPPING = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}

# Each command under one of them in the ordinary run; the way it ends is the same for all.
SENT = [
    signal.SIGINT,
    pytest.param(signal.SIGTERM, marks=pytest.mark.long),
    pytest.param(signal.SIGHUP, marks=pytest.mark.long),
]

# Slows one function of the program down, so that there is a moment to stop it in: `module:function`. At its NUMBERth
# call it says so on stderr and waits for the signal, or for ever.
SLOWLY = """
import sys, os, time, signal
from importlib import import_module
module, name, number = {module!r}, {name!r}, {number}
from memory_sidecar import __main__ as program
owner = import_module(module)
*path, name = name.split(".")
for part in path:
    owner = getattr(owner, part)
real = getattr(owner, name)
calls = iter(range(1, 1 << 30))
def slowly(*arguments, **more):
    if next(calls) == number:
        os.write(2, b"[here]\\n")
        {wait}
    return real(*arguments, **more)
setattr(owner, name, slowly)
sys.argv = ["memory-sidecar", *{words!r}]
sys.exit(program.main())
"""
# In short steps: a signal in the instant before a sleep begins is noticed only after it.
FOR_EVER = "while True: time.sleep(0.01)"
# Goes on with the step at hand, once the signal is there: then the test closes stdin.
ONCE = "os.read(0, 1)"


@contextmanager
def stopped_at(
    where: str,
    number: int,
    words: tuple[object, ...],
    sent: signal.Signals,
    wait: str = FOR_EVER,
    under: tuple[str, ...] = (),
) -> Iterator[subprocess.Popen[str]]:
    module, name = where.split(":")
    program = SLOWLY.format(module=module, name=name, number=number, words=[str(word) for word in words], wait=wait)
    with subprocess.Popen(
        [*under, sys.executable, "-W", "error", "-P", "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stderr is not None
        try:
            assert process.stderr.readline() == "[here]\n"
            process.send_signal(sent)
            yield process
        finally:
            process.kill()


READ = "memory_sidecar.backend.file.notes:stored"
LIST = "memory_sidecar.backend.file.listing:keys"
RUNS = "memory_sidecar.run.ledger:glance"


@pytest.mark.parametrize("sent", SENT)
@pytest.mark.parametrize(
    ("where", "words"),
    [
        (LIST, ("list",)),
        (READ, ("show", "a")),
        (READ, ("export", "--to", "saved")),
        (LIST, ("import", "notes")),
        (LIST, ("copy", "--from", "a.yaml", "--to", "b.yaml")),
        (READ, ("quarantine", "a")),
        (LIST, ("doctor",)),
        (LIST, ("info", "--check")),
        (RUNS, ("runs",)),
        (RUNS, ("runs", "--saw", "a")),
        (RUNS, ("runs", "show", "monday")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_every_command_says_that_it_was_stopped(
    place: Place,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    words: tuple[str, ...],
    sent: signal.Signals,
) -> None:
    place.write("a", "b")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").write_text('{"key": "c", "description": "d", "content": "e"}\n')
    memory = f"identity: bot\nharness: {{memory: {{enabled: true, options: {{directory: {place.notes}}}}}}}\n"
    (tmp_path / "a.yaml").write_text(memory)
    (tmp_path / "b.yaml").write_text(memory.replace(str(place.notes), str(tmp_path / "to")))
    options = () if words[0] == "copy" else place.options
    with stopped_at(where, 1, (*words, *options), sent) as process:
        out, err = process.communicate()
    assert process.returncode == STOPPING[sent], err
    assert "Traceback" not in err
    assert "stopped" in err
    assert out == "" or words[0] in ("import", "copy")
    assert {"tmp-" in path.name for path in tmp_path.rglob(".*")} <= {False}
    assert not (tmp_path / "saved").exists()


def test_the_list_of_commands_above_is_whole() -> None:
    above = {"list", "show", "export", "import", "copy", "quarantine", "doctor", "info", "runs"}
    below = {"try", "audit"}
    # serve ends in order and says nothing; completion, permissions and schema have nothing to wait for.
    assert set(COMMANDS) - above - below == {"serve", "completion", "permissions", "schema"}


PUT = "memory_sidecar.cli.shared.transfer:put"


@pytest.mark.parametrize(
    ("command", "sent"),
    [
        ("copy", signal.SIGINT),
        ("import", signal.SIGTERM),
        pytest.param("copy", signal.SIGHUP, marks=pytest.mark.long),
        pytest.param("import", signal.SIGINT, marks=pytest.mark.long),
    ],
)
def test_what_is_half_done_is_told_and_goes_on(
    cli: Cli, place: Place, other: Place, tmp_path: Path, command: str, sent: signal.Signals
) -> None:
    place.write(*"abcde")
    cli("export", "--to", tmp_path / "saved", *place.options)
    (tmp_path / "a.yaml").write_text("identity: bot\nharness: {memory: {enabled: true}}\n")
    words: tuple[object, ...] = ("import", tmp_path / "saved", *other.options)
    if command == "copy":
        config = tmp_path / "a.yaml"
        words = ("copy", "--from", config, "--from-store-dir", place.path, "--to", config, "--to-store-dir", other.path)
    # The step at hand is finished: two notes are there, and two are told.
    with stopped_at(PUT, 2, words, sent, ONCE) as process:
        out, err = process.communicate()
    assert (process.returncode, out) == (STOPPING[sent], "2 created\n"), err
    assert "stopped after 2 of 5: interrupted\nrun the same command again to go on" in err
    assert sorted(path.name for path in other.notes.glob("*.md")) == ["a.md", "b.md"]
    again = cli(*words)  # type: ignore[arg-type]
    assert (again.status, again.out) == (0, "3 created, 2 unchanged\n")


def test_a_second_signal_does_not_wait(place: Place, other: Place, tmp_path: Path, cli: Cli) -> None:
    place.write("a", "b")
    cli("export", "--to", tmp_path / "saved", *place.options)
    with stopped_at(PUT, 2, ("import", tmp_path / "saved", *other.options), signal.SIGINT) as process:
        process.send_signal(signal.SIGTERM)
        err = process.communicate()[1]
    assert process.returncode == 143
    assert "stopped after 1 of 2" in err
    assert "Traceback" not in err


def test_export_says_that_nothing_was_written(place: Place, tmp_path: Path) -> None:
    place.write("a", "b", "c")
    with stopped_at(READ, 2, ("export", "--to", tmp_path / "saved", *place.options), signal.SIGINT) as process:
        err = process.communicate()[1]
    assert process.returncode == 130
    assert "stopped after 1 of 3 notes; nothing was written: run the same command again" in err
    assert list(tmp_path.glob("*saved*")) == []


def test_prune_tells_what_is_gone(cli: Cli, place: Place) -> None:
    for run in ("one", "three", "two"):
        place.write(f"of-{run}", run=run)
    words = ("runs", "prune", "--state", "suspended", "--json", "--store-dir", place.path)
    with stopped_at("memory_sidecar.cli.runs.prune:remove_run", 2, words, signal.SIGTERM, ONCE) as process:
        out, err = process.communicate()
    assert process.returncode == 143
    assert [one["run"] for one in json.loads(out)["removed"]] == ["one", "three"]
    assert "run the same command again to go on" in err
    assert [path.name for path in place.runs.iterdir()] == ["two.jsonl"]


def test_try_leaves_no_scratch_memory_behind(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*PROGRAM, "try"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(TMPDIR=str(tmp_path)),
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        process.stdin.write("list\n")
        process.stdin.flush()
        scratch = Path(re.findall(r"memory in (\S+),", process.stdout.readline())[0])
        assert scratch.is_dir()
        assert "This memory is empty.\n" in process.stdout  # reads on until it is answered, or to the end
        # A signal in the instant before it waits would be noticed with the next line only.
        waiting = Path(f"/proc/{process.pid}/syscall")
        until(lambda: waiting.read_text().startswith("0 0x0 "), "it waits for a line")
        process.terminate()
        err = process.stderr.read() if process.stderr else ""
    assert process.returncode == 143, err
    assert not scratch.exists()


@pytest.mark.parametrize("sent", SENT)
def test_an_audit_ends_with_what_it_launched(tmp_path: Path, sent: signal.Signals) -> None:
    server = tmp_path / "server.sh"
    server.write_text(f"echo $$ > {tmp_path}/started.tmp; mv {tmp_path}/started.tmp {tmp_path}/started; exec cat\n")
    with subprocess.Popen(
        [*PROGRAM, "audit", "--mcp", f"sh {server}"], stderr=subprocess.PIPE, text=True, env=environment()
    ) as process:
        started = tmp_path / "started"
        until(started.exists, "the server is launched")
        process.send_signal(sent)
        err = process.communicate()[1]
    assert process.returncode == STOPPING[sent], err
    assert "Traceback" not in err
    assert "stopped" in err
    until(lambda: is_gone(int(started.read_text())), "the server is gone")


def test_what_is_ignored_stays_ignored(place: Place, other: Place, tmp_path: Path, cli: Cli) -> None:
    """As under nohup, and for Ctrl-C in the background of a script."""
    place.write("a", "b")
    cli("export", "--to", tmp_path / "saved", *place.options)
    words = ("import", tmp_path / "saved", *other.options)
    ignoring = ("sh", "-c", "trap '' INT HUP; exec \"$@\"", "sh")
    with stopped_at(PUT, 1, words, signal.SIGHUP, ONCE, ignoring) as process:
        process.send_signal(signal.SIGINT)
        assert process.communicate() == ("2 created\n", "")
    assert process.returncode == 0


# --- a reader that leaves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("both", [pytest.param(False, marks=pytest.mark.long), True], ids=["stdout", "both"])
@pytest.mark.parametrize(
    "words",
    [
        ("list",),
        ("list", "--json"),
        ("show", "a"),
        ("show", "a", "--raw"),
        ("export",),
        ("import", "notes"),
        ("doctor",),
        ("info",),
        ("info", "--check", "--json"),
        ("runs",),
        ("runs", "--saw", "a"),
        ("runs", "show", "monday"),
        ("runs", "prune", "--older-than", "1d"),
        ("quarantine", "a"),
        ("completion", "bash"),
        ("audit", "--card", "card.json"),
        ("try",),
        ("--help",),
        ("list", "--help"),
    ],
    ids=" ".join,
)
def test_a_reader_that_leaves_ends_every_command_silently(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], both: bool
) -> None:
    place.write("a", content="x" * 60000)
    (place.runs / "broken.jsonl").write_text("{}\n")  # so that there is something for stderr too
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").write_text('{"key": "c", "description": "d", "content": "e"}\n')
    (tmp_path / "card.json").write_text("{}")
    options = () if words[0] in ("completion", "audit", "--help") or words[-1] == "--help" else place.options
    reader, writer = os.pipe()
    os.close(reader)
    with subprocess.Popen(
        [*PROGRAM, *words, *options],
        stdin=subprocess.DEVNULL,
        stdout=writer,
        stderr=writer if both else subprocess.PIPE,
        env=environment(),
        text=True,
    ) as process:
        os.close(writer)
        err = process.communicate()[1] or ""
    assert process.returncode == 141, err
    assert "Traceback" not in err
    assert "Exception ignored" not in err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", [("list",), ("export",), ("runs",), ("doctor",), ("info",)], ids=" ".join)
def test_an_output_that_takes_nothing_is_said(place: Place, words: tuple[str, ...]) -> None:
    place.write("a")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, *words, *place.options],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(),
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert "cannot write the output: No space left on device" in done.stderr

"""Started wrongly in every way we know: the program says what to do in one or two lines, and doctor finds the cause.

Each row: what is set up, what the program says, and what doctor says. The program is `serve`, launched by a real
harness, unless the row is about launching itself.
"""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import anyio
import pytest
from tests.support.sidecar import Sidecar

from memory_sidecar.harness import MemorySidecar, Run, StartError
from memory_sidecar.store.rules import MAX_ENTRY_BYTES

from .conftest import PROGRAM, Cli, Done, Place, environment


class Start(NamedTuple):
    """Options of serve and doctor, and more environment."""

    options: list[str]
    run: str | None = None
    env: Mapping[str, str] = MappingProxyType({})


Setup = Callable[[Place], Start]


def config(text: str | bytes) -> Setup:
    def setup(place: Place) -> Start:
        place.path.mkdir(exist_ok=True)
        path = place.path / "memory.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Start(["--config", str(path), "--store-dir", str(place.path)])

    return setup


def memory(block: str) -> Setup:
    return config(f"identity: bot\nharness:\n  memory: {block}\n")


def options(*words: str) -> Setup:
    return lambda _place: Start(list(words))


def missing_config(place: Place) -> Start:
    return Start(["--config", str(place.path / "nowhere.yaml")])


def directory_for_config(place: Place) -> Start:
    place.path.mkdir()
    return Start(["--config", str(place.path)])


def bad_identity(place: Place) -> Start:
    return Start(["--identity", "team/bot", "--store-dir", str(place.path)])


def file_for_journals(place: Place) -> Start:
    place.path.mkdir()
    (place.path / "runs").write_text("")
    return Start(list(place.options))


def file_for_memory(place: Place) -> Start:
    place.notes.parent.mkdir(parents=True)
    place.notes.write_text("")
    return Start(list(place.options))


def file_for_store_base(place: Place) -> Start:
    place.path.write_text("")
    return Start(list(place.options))


def dangling_link(place: Place) -> Start:
    place.notes.parent.mkdir(parents=True)
    place.notes.symlink_to(place.path / "gone")
    return Start(list(place.options))


def kernel_directory(_place: Place) -> Start:
    return Start(["--store-dir", "/proc/memory", "--identity", "bot"])


def no_home(_place: Place) -> Start:
    return Start(["--identity", "bot"], env={"HOME": "nowhere", "XDG_STATE_HOME": ""})


def bad_run_id(place: Place) -> Start:
    return Start(list(place.options), run="../monday")


def completed_run(place: Place) -> Start:
    place.calls("monday", ("memory_list", {}), finish=True)
    return Start(list(place.options), run="monday")


def damaged_journal(place: Place) -> Start:
    place.write("a")
    journal = place.runs / "monday.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"created"', b'"Created"', 1))
    return Start(list(place.options), run="monday")


CASES: dict[str, tuple[Setup, str, str]] = {
    "bad YAML": (config("harness: {memory: [\n"), "this is not valid YAML", "mend that line"),
    "not YAML at all": (config(b"\x00\x01\x02"), "write it as YAML, or name another file", "this is not YAML text"),
    "a list": (config("- memory\n"), "start it with `harness:`", "a configuration is a YAML mapping"),
    "misspelt memory key": (memory("{enabeld: true}"), "did you mean enabled?", "harness.memory.enabeld"),
    "misspelt outer key": (config("identiy: bot\n"), "misspelling of identity", "identiy looks like"),
    "misspelt backend": (memory("{enabled: true, backend: flie}"), "did you mean file?", "'flie' is not a backend"),
    "misspelt option": (
        memory("{enabled: true, options: {directroy: x}}"),
        "did you mean directory?",
        "options.directroy is not an option",
    ),
    "wrong type": (memory("{enabled: sometimes}"), "must be true or false; found 'sometimes'", "must be true or false"),
    "number for text": (config("identity: 7\n"), "put it in quotes", "identity must be text"),
    "duplicate keys": (config("identity: a\nidentity: b\n"), "the key 'identity' stands twice", "line 2: the key"),
    "empty directory": (
        memory("{enabled: true, options: {directory: ''}}"),
        "name a directory or leave the option out",
        "options.directory is empty",
    ),
    "empty identity in the configuration": (config("identity: ''\n"), "or leave it out", "identity is empty"),
    "empty identity": (options("--identity", ""), "or leave it out", "--identity is empty"),
    "empty store base": (options("--store-dir", ""), "or leave it out", "--store-dir is empty"),
    "empty journal directory": (options("--journal-dir", ""), "or leave it out", "--journal-dir is empty"),
    "empty configuration": (options("--config", ""), "or leave it out", "--config is empty"),
    "somebody else's home for notes": (
        memory("{enabled: true, options: {directory: ~root/notes}}"),
        "write the path in full, or ./~root for that name",
        "options.directory '~root/notes' starts with the home of another user",
    ),
    "somebody else's home for the store": (
        options("--store-dir", "~root/x"),
        "write the path in full",
        "--store-dir '~root/x' starts with the home of another user",
    ),
    "true for the memory block": (
        config("harness: {memory: true}\n"),
        "write it as `memory: {enabled: true}`",
        "harness.memory must be a mapping of options",
    ),
    "context of no broker": (
        config(
            "nats_context: nowhere\nidentity: bot\n"
            "harness: {memory: {enabled: true, backend: jetstream, options: {bucket: shared}}}\n"
        ),
        "make it with: nats context add nowhere",
        'the NATS context "nowhere" does not exist',
    ),
    "missing config": (missing_config, "No such file or directory; check --config", "nowhere.yaml"),
    "directory for a config": (directory_for_config, "Is a directory; check --config", "Is a directory"),
    "huge config": (config("#" * 1_100_000), "is larger than", "check --config"),
    "bad identity": (bad_identity, "set identity to letters, digits", "'team/bot' cannot name a directory"),
    "journal directory is a file": (file_for_journals, "set --journal-dir", "runs is not a directory"),
    "memory directory is a file": (file_for_memory, "make it a directory", "bot is not a directory"),
    "store base is a file": (file_for_store_base, "make it a directory", "base is not a directory"),
    "memory directory is a dangling link": (dangling_link, "make it a directory", "bot is not a directory"),
    "directory that cannot be made": (
        kernel_directory,
        "set harness.memory.options.directory",
        "is not writable by this user",
    ),
    "no home": (no_home, "set --journal-dir", "there is no home directory"),
    "bad run id": (bad_run_id, "--run is an id of 1 to 128 letters", "'../monday' is no run id"),
    "completed run": (completed_run, "use another run id", "has completed and cannot go on"),
    "damaged journal": (damaged_journal, "line 1: its checksum does not match", "line 1: its checksum does not match"),
}


def test_a_tilde_is_the_home_directory_wherever_no_shell_expands_it(cli: Cli, tmp_path: Path) -> None:
    """From a YAML or JSON file no shell does, nor in --option=~/x; a directory called ~ is never made."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "memory.yaml").write_text(
        "identity: bot\nharness: {memory: {enabled: true, options: {directory: ~/notes}}}\n"
    )
    env = {"HOME": str(home)}
    places = ("--config=~/memory.yaml", "--store-dir=~/state", "--journal-dir=~/runs")
    told = json.loads(cli("info", "--json", *places, env=env).out)["memory"]
    assert (told["where"]["directory"], told["journal"]) == (str(home / "notes"), str(home / "runs"))

    async def main() -> None:
        places = {"config": "~/memory.yaml", "store_dir": "~/state", "journal_dir": "~/runs"}
        async with (
            MemorySidecar.launch(**places, env=environment(HOME=str(home))) as launched,  # type: ignore[arg-type]
            launched.run("monday") as run,
        ):
            await run.call("memory_write", {"key": "a", "description": "d", "content": "c"})

    anyio.run(main)
    assert (home / "notes" / "a.md").exists()
    assert (home / "runs" / "bot" / "monday.jsonl").exists()
    assert "a    d" in cli("list", *places, env=env).out
    copied = ("--from=~/memory.yaml", "--to=~/memory.yaml", "--to-store-dir=~/other")
    assert "mean the same memory" in cli("copy", *copied, env=env).err
    assert cli("quarantine", "a", "--quarantine-dir=~/away", *places, env=env).status == 0
    assert len(list((home / "away").iterdir())) == 1
    assert not list(tmp_path.rglob("~*"))


def test_an_empty_identity_given_to_launch_is_refused(place: Place) -> None:
    async def main() -> None:
        async with MemorySidecar.launch(identity="", store_dir=place.path):
            pass

    with pytest.raises(StartError, match="--identity is empty, which names nothing"):
        anyio.run(main)
    assert not place.path.exists()


def refusal(start: Start) -> str:
    """What a harness is told when it launches the sidecar so."""

    command = [*PROGRAM, "serve", *start.options, *(["--run", start.run] if start.run else [])]
    if start.run:  # the handshake opens it; a harness of the newer protocol is told at its first call
        with Sidecar(None, command=command, identity="", env=environment(**start.env)) as sidecar:
            hello = sidecar.hello()
            sidecar.send(hello)
            return str(sidecar.answer(hello)["error"]["message"])

    async def main() -> None:
        async with MemorySidecar.launch(command=command, env=environment(**start.env), stderr=subprocess.DEVNULL):
            pass

    with pytest.raises(StartError) as raised:
        anyio.run(main)
    return str(raised.value)


def doctor(cli: Cli, start: Start) -> Done:
    words = ["doctor", *start.options, *(["--run", start.run] if start.run else [])]
    done = cli(*words, env=start.env)
    wrong = [one for one in json.loads(cli(*words, "--json", env=start.env).out)["checks"] if one["state"] == "wrong"]
    assert bool(wrong) == (done.status == 1)
    assert all(one["mend"] for one in wrong), wrong
    return done


def check(cli: Cli, start: Start, says: str, found: str) -> None:
    told = refusal(start)
    assert says in told
    assert len(told.splitlines()) == 1
    done = doctor(cli, start)
    assert done.status == 1, done.out
    assert found in done.out
    assert done.err == ""


@pytest.mark.parametrize("case", CASES)
def test_wrong_start(cli: Cli, place: Place, case: str) -> None:
    setup, says, found = CASES[case]
    check(cli, setup(place), says, found)


@pytest.mark.parametrize("case", [case for case in CASES if "run" not in case and "journal" not in case])
def test_other_commands_say_the_same(cli: Cli, place: Place, case: str) -> None:
    start = CASES[case][0](place)
    for command in ("list", "info"):
        done = cli(command, *start.options, env=start.env)
        if command == "list" or done.status:
            assert (done.status, done.out) == (78, ""), command
            assert 1 <= len(done.err.splitlines()) <= 2


def test_busy_journal(cli: Cli, place: Place) -> None:
    async def work(run: Run) -> None:
        await run.call("memory_write", {"key": "a", "description": "x", "content": "y"})
        start = Start(list(place.options), run="monday")
        await anyio.to_thread.run_sync(check, cli, start, "end that one first", "is open in another process")

    place.within("monday", work)


@contextmanager
def mounted(path: Path, options: str) -> Iterator[None]:
    """A small disk of its own at `path`."""
    path.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    if os.geteuid() or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("needs a root that may mount")
    try:
        yield
    finally:
        subprocess.run(["umount", path], check=True)


def test_read_only_disk(cli: Cli, place: Place) -> None:
    with mounted(place.path, "ro,size=64k"):
        check(cli, Start(list(place.options)), "set harness.memory.options.directory", "its disk is read-only")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_directory_of_somebody_else(cli: Cli) -> None:
    check(
        cli,
        Start(["--store-dir", "/", "--identity", "bot"]),
        "set harness.memory.options.directory",
        "is not writable by this user",
    )


def test_full_disk(cli: Cli, place: Place) -> None:
    with mounted(place.path, "size=1m"):
        place.write("a")
        _fill(place.path / "filler")
        done = doctor(cli, Start(list(place.options)))
        assert done.status == 1
        assert "only 0 KiB are free" in done.out
        done = cli("import", "-", *place.options, stdin='{"key": "b", "description": "x", "content": "y"}')
        assert done.status == 1
        assert "no space left" in done.err
        done = cli("quarantine", "a", *place.options)
        assert done.status == 1
        assert "nothing was moved; free space there, or set --quarantine-dir" in done.err
        assert cli("quarantine", "a", "--quarantine-dir", place.path.parent / "away", *place.options).status == 0


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(b"x" * 4096):
            pass


def test_a_memory_that_is_not_enabled(cli: Cli, place: Place) -> None:
    done = doctor(cli, memory("{enabled: false}")(place))
    assert done.status == 1
    assert "set harness.memory.enabled: true" in done.out


# --- launching -------------------------------------------------------------------------------------------------


def serve(env: dict[str, str], **descriptors: Any) -> subprocess.CompletedProcess[bytes]:
    options: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.run([*PROGRAM, "serve"], env=environment(**env), check=False, **(options | descriptors))


def test_no_ticket(cli: Cli, place: Place) -> None:
    done = serve({})
    assert done.returncode == 64
    assert len(done.stderr.splitlines()) == 1
    assert b"is started by an agent harness" in done.stderr
    assert "no launch ticket in MEMORY_SIDECAR_TICKET" in cli("doctor", *place.options).out


def test_a_ticket_that_was_used(cli: Cli, place: Place, tmp_path: Path) -> None:
    used = {"MEMORY_SIDECAR_TICKET": str(tmp_path / "used")}
    done = serve(used, input=b"", stdin=None)
    assert b"a ticket works once" in done.stderr
    found = cli("doctor", *place.options, env=used)
    assert (found.status, "cannot be used: the ticket does not exist" in found.out) == (1, True)


def test_a_ticket_that_others_can_read(cli: Cli, place: Place, tmp_path: Path) -> None:
    ticket = tmp_path / "ticket"
    ticket.write_text("x" * 43)
    ticket.chmod(0o644)
    found = cli("doctor", *place.options, env={"MEMORY_SIDECAR_TICKET": str(ticket)})
    assert (found.status, "the ticket's mode must be 0600, and is 0644" in found.out) == (1, True)
    assert b"mode must be 0600" in serve({"MEMORY_SIDECAR_TICKET": str(ticket)}, input=b"", stdin=None).stderr


def test_a_terminal_for_stdin(cli: Cli, place: Place, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    try:
        done = serve({"MEMORY_SIDECAR_TICKET": str(tmp_path / "ticket")}, stdin=theirs)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 64
    assert b"stdin is not a pipe from a parent process" in done.stderr
    assert "with pipes for stdin and stdout" in cli("doctor", *place.options).out


@pytest.mark.parametrize("command", ["serve", "doctor"])
def test_an_old_python(command: str) -> None:
    program = (
        "import runpy, sys; sys.version_info = (3, 9, 18, 'final', 0); "
        "runpy.run_module('memory_sidecar', run_name='__main__', alter_sys=True)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, command], env=environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (78, "")
    assert len(done.stderr.splitlines()) == 1
    assert "this is Python 3.9 at" in done.stderr
    assert "3.11 or newer is needed; install with a newer one" in done.stderr


def test_wrong_usage(cli: Cli) -> None:
    for words in (("serve", "--port", "80"), ("copy",), ("runs", "prune", "--state", "open"), ()):
        done = cli(*words)
        assert (done.status, done.out) == (64, "")
        assert len(done.err.splitlines()) == 1


def test_doctor_changes_nothing(cli: Cli, place: Place) -> None:
    assert cli("doctor", *place.options).status == 0
    assert not place.path.exists()
    place.write("a")
    before = {path: path.stat().st_mtime_ns for path in place.path.rglob("*")}
    done = cli("doctor", *place.options)
    assert (done.status, done.err) == (0, "")
    assert "1 of 1024 notes" in done.out
    assert "runs: 1 suspended" in done.out
    assert before == {path: path.stat().st_mtime_ns for path in place.path.rglob("*")}


def test_doctor_sees_what_is_open_to_others_and_what_is_no_note(cli: Cli, place: Place) -> None:
    place.write("a")
    place.notes.chmod(0o755)
    (place.notes / "README.txt").write_text("")
    (place.notes / "broken.md").write_bytes(b"\xff")
    done = cli("doctor", *place.options)
    assert f"chmod 700 {place.notes}" in done.out
    assert "README.txt" in done.out
    assert "broken: This memory is stored, but it is not UTF-8 text" in done.out
    assert done.status == 1


def test_doctor_reads_every_note_as_a_run_would(cli: Cli, place: Place) -> None:
    place.write("fine")
    header = b"---\ndescription: fine to list\n---\n\n"
    (place.notes / "body.md").write_bytes(header + b"x" * 5000 + b"\xff")
    (place.notes / "large.md").write_bytes(header + b"x" * MAX_ENTRY_BYTES)
    closed = os.geteuid() != 0
    if closed:
        (place.notes / "closed.md").write_bytes(header)
        (place.notes / "closed.md").chmod(0)
    bad = {"body", "large"} | ({"closed"} if closed else set())
    done = cli("doctor", *place.options)
    assert done.status == 1
    assert {line.split(": ")[0].split()[-1] for line in done.out.splitlines() if "is stored, but" in line} == bad
    assert all(f"-> look at {place.notes}/{key}.md, and mend it or move it away" in done.out for key in bad)
    assert json.loads(cli("info", "--check", "--json", *place.options).out)["memory"]["check"]["state"] == {
        "notes": 1 + len(bad),
        "unreadable": len(bad),
        "directory": "is there",
        "store_id": "kept in it",
    }


def test_whose_memory_is_never_guessed_and_those_that_are_there_are_named(
    cli: Cli, place: Place, tmp_path: Path
) -> None:
    place.write("a")
    Place(place.path, "second").write("b")
    config = tmp_path / "memory.yaml"
    config.write_text("harness: {memory: {enabled: true}}\n")
    options = ("--config", config, "--store-dir", place.path)
    for words in (("list",), ("show", "a"), ("export",), ("quarantine", "a"), ("try",)):
        done = cli(*words, *options)
        assert done.status == 78, words
        assert "whose memory? There are those of bot, second; name the agent with --identity NAME" in done.err
    checked = cli("info", "--check", *options)
    assert checked.status == 1
    assert "There are those of bot, second" in checked.out
    assert "where that is certain" in checked.out
    assert "bot, by --identity" in cli("info", *options, "--identity", "bot").out
    config.write_text("identity: bot\nharness: {memory: {enabled: true}}\n")
    assert json.loads(cli("info", "--json", *options).out)["memory"]["identity_from"] == "the configuration"


@pytest.mark.parametrize("option", ["--config", "--identity", "--store-dir", "--journal-dir"])
@pytest.mark.parametrize(
    "words",
    [
        (command,)
        for command in (
            "serve",
            "info",
            "list",
            "export",
            "quarantine a",
            "try",
            "doctor",
            "runs --saw a",
            "permissions",
        )
    ],
    ids=str,
)
def test_an_option_given_twice_is_never_cut_to_its_last_value(
    cli: Cli, tmp_path: Path, words: tuple[str], option: str
) -> None:
    command = words[0].split()
    if (command[0], option) in (("doctor", "--config"), ("runs", "--journal-dir"), ("quarantine", "--journal-dir")):
        return  # these take several
    help_text = cli(command[0], "--help").out
    if f"{option} " not in help_text:
        return
    done = cli(*command, option, "one", option, "two")
    assert done.status == 64
    assert f"{option} is given twice, and takes one value; see memory-sidecar {command[0]} --help" in done.err


def test_options_before_and_after_an_action_count_together(cli: Cli, place: Place, other: Place) -> None:
    place.write("plan", run="here")
    other.write("plan", run="there")
    for run in ("here", "there"):
        done = cli("runs", "--journal-dir", place.journals, "show", run, "--journal-dir", other.journals)
        assert done.status == 0, done.err
    done = cli("runs", "--identity", "bot", "show", "here", "--identity", "alice")
    assert (done.status, "--identity is given twice" in done.err) == (64, True)
    done = cli("runs", "--saw", "plan", "show", "here", *place.options)
    assert (done.status, "--saw does not go with show" in done.err) == (64, True)


def test_quarantine_asks_every_journal_directory(cli: Cli, place: Place, other: Place) -> None:
    place.write("plan", run="writer")
    place.calls("reader", ("memory_read", {"key": "plan"}), journal_dir=other.journals)
    both = ("--journal-dir", other.journals, "--journal-dir", place.journals)
    answer = json.loads(cli("quarantine", "plan", "--json", *both, *place.options).out)
    assert [one["run"] for one in answer["seen"]] == ["writer", "reader"]
    done = cli("quarantine", "--restore", "plan", *both, *place.options)
    assert done.status == 0, done.err
    done = cli("quarantine", "nope", *both, *place.options)
    assert "see memory-sidecar list --identity bot --store-dir" in done.err


def test_runs_of_a_misspelt_identity_or_directory_are_never_an_answer(cli: Cli, place: Place, tmp_path: Path) -> None:
    place.write("plan", run="writer")
    base = ("--store-dir", place.path)
    done = cli("runs", "--saw", "plan", "--identity", "carol", *base)
    assert (done.status, done.out) == (78, "")
    assert "carol has no memory that can be read, and no run in" in done.err
    for action in ((), ("export",), ("prune", "--older-than", "1d")):
        for words in (
            ("--store-dir", tmp_path / "basx"),
            ("--journal-dir", place.journals, "--journal-dir", tmp_path / "x"),
        ):
            done = cli("runs", *action, *words)
            assert (done.status, done.out, f"check {words[-2]}" in done.err) == (78, "", True), (action, words)
        assert "note: there are no runs of carol in" in cli("runs", *action, *base, "--identity", "carol").err
    place.notes.rename(tmp_path / "away")
    done = cli("runs", "--saw", "plan", *place.options)
    assert (done.status, "writer" in done.out) == (0, True)
    assert "note: there is no memory at" in done.err
    assert "so the answer is of the runs of every memory" in done.err


@pytest.mark.parametrize("words", [("list",), ("quarantine", "a"), ("show", "a"), ("export",)], ids=" ".join)
def test_a_store_base_that_is_a_file_is_not_told_as_a_memory_that_is_missing(
    cli: Cli, place: Place, words: tuple[str, ...]
) -> None:
    place.path.write_text("")
    done = cli(*words, *place.options)
    assert (done.status, "Not a directory" in done.err, "there is no memory" in done.err) == (78, True, False), done.err


def test_the_command_that_doctor_tells_names_whose_memory(cli: Cli, place: Place) -> None:
    place.write("a")
    Place(place.path, "second").write("a")
    told = cli("doctor", "--store-dir", place.path).out
    assert f"memory-sidecar try --identity NAME --store-dir {place.path}" in told
    assert f"memory-sidecar try --identity bot --store-dir {place.path}" in cli("doctor", *place.options).out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            "list --ident x",
            "--ident is no option of memory-sidecar list; did you mean --identity? see memory-sidecar list",
        ),
        ("list --conf=F", "--conf is no option of memory-sidecar list; did you mean --config? see memory-sidecar list"),
        (
            "runs --jso",
            "--jso is no option of memory-sidecar runs; did you mean --json? see memory-sidecar runs --help",
        ),
        ("runs show r --store-d x", "did you mean --store-dir? see memory-sidecar runs show --help"),
        ("serve --identty x", "--identty is no option of memory-sidecar serve; did you mean --identity? see memory-"),
        ("doctor --zzz", "--zzz is no option of memory-sidecar doctor; known are: --help, "),
        ("list more", "unrecognized arguments: more; see memory-sidecar list --help"),
        ("--versio list", "--versio is no option of memory-sidecar; did you mean --version? see memory-sidecar --help"),
    ],
)
def test_an_option_is_written_out_and_a_misspelt_one_is_told_with_its_command(cli: Cli, words: str, says: str) -> None:
    """One that is cut short would mean another as soon as a second begins so."""
    done = cli(*words.split())
    assert (done.status, says in done.err) == (64, True), done.err

"""`try`: a real sidecar under a person's hands, piped and at a terminal."""

from pathlib import Path

from memory_sidecar.run.runs import list_runs

from .conftest import Cli, Place
from .terminal import Terminal

SESSION = """\
list
write layout "Where things are" "src/parse"
write layout again x
suspend
list
resume
overwrite layout "Where things are" "lib/parse"
new other
overwrite layout mine y
read layout
overwrite layout mine "now allowed"
runs
scope
tools
instructions
call memory_read {"key": 3}
call memory_read {"key": "layout"}
call memory_read [1]
call nope
delete layout
delete layout
nonsense
write "x
read
finish
resume
help
"""


def answers(out: str) -> dict[str, list[str]]:
    """The lines after each command, by command; later ones of the same text win."""
    found: dict[str, list[str]] = {}
    for line in out.splitlines():
        prompt, mark, command = line.partition("> ")
        if mark and prompt.split(" ")[0] in ("try", "other"):
            found.pop(command, None)
            found[command] = []
        elif found:
            found[list(found)[-1]].append(line)
    return found


def test_a_session_by_hand(cli: Cli) -> None:
    done = cli("try", stdin=SESSION)
    assert (done.status, done.err) == (0, "")
    said = {command: "\n".join(lines) for command, lines in answers(done.out).items()}
    assert said['write layout "Where things are" "src/parse"'] == '{"written":true,"key":"layout"}'
    assert said["write layout again x"].startswith("refused (exists): This key already holds a memory")
    assert said["suspend"] == "run try is suspended and its process has ended; it may overwrite: layout"
    assert said["list"] == "run try is not open; type resume, or new"
    assert said['overwrite layout "Where things are" "lib/parse"'] == '{"written":true,"key":"layout"}'
    assert said["overwrite layout mine y"].startswith("refused (not_read): This run has not read")
    assert said["read layout"] == "layout: Where things are\n\nlib/parse"
    assert said['overwrite layout mine "now allowed"'] == '{"written":true,"key":"layout"}'
    assert "other  open" in said["runs"]
    assert "memory_write" in said["tools"]
    assert "<memory-index>" in said["instructions"]
    assert said['call memory_read {"key": 3}'] == "The argument key must be text."
    assert '"found":true' in said['call memory_read {"key": "layout"}']
    assert "are a JSON object" in said["call memory_read [1]"]
    assert said["call nope"].startswith("unknown tool")
    assert said["delete layout"] == '{"deleted":false,"key":"layout"}'
    assert said["nonsense"] == "there is no command nonsense; type help"
    assert said['write "x'] == "a quotation mark is not closed"
    assert said["read"] == "read takes 1 word; type help"
    assert said["finish"] == "run other is completed; it cannot be resumed"
    assert "has completed and cannot go on" in said["resume"]
    assert not Path(done.out.split()[4].rstrip(",")).exists()


def test_it_plays_with_a_memory_that_is_named(cli: Cli, place: Place) -> None:
    place.write("a", content="x\x1b[31m")
    done = cli("try", *place.options, "--run", "mine", stdin="read a\nwrite b about text\n")
    assert (done.status, done.err) == (0, "")
    assert r"x\x1b[31m" in done.out
    assert (place.notes / "b.md").exists()
    assert (place.runs / "mine.jsonl").exists()


def test_a_start_that_fails_is_one_line_of_ours(cli: Cli, place: Place) -> None:
    done = cli("try", *place.options, "--config", "nowhere.yaml")
    assert done.status == 78
    assert done.err.splitlines()[-1].startswith("memory-sidecar try: cannot read the configuration nowhere.yaml")
    assert cli("try", "--run", "../x").status == 64


def test_at_a_terminal(place: Place) -> None:
    place.write("a")
    with Terminal("try", *place.options) as terminal:
        terminal.until("try> ")
        terminal.send("read a\r")
        terminal.until("The a.")
        terminal.until("try> ")
        terminal.send("\x10")  # Ctrl-P: the line before, by readline
        terminal.until("read a")
        terminal.until_waiting()
        terminal.send("\x03")  # Ctrl-C
        assert "memory-sidecar try: stopped" in terminal.rest()
    assert terminal.status == 130
    # Ctrl-C is for the prompt; the sidecar ends by its pipe, in order.
    states = {run.run: run.state for run in list_runs(str(place.runs), "bot")}
    assert states == {"monday": "suspended", "try": "suspended"}


def test_an_empty_memory_is_said_to_be_empty(cli: Cli) -> None:
    assert answers(cli("try", stdin="list\n").out)["list"][:1] == ["This memory is empty."]


def test_what_keeps_it_from_starting_is_told_once(cli: Cli) -> None:
    done = cli("try", "--identity", "a/b")
    assert done.status == 78
    assert (done.out + done.err).count("cannot name a directory") == 1

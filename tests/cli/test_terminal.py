"""How it looks where a person looks: tables and progress at a terminal, and nothing of it anywhere else."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Cli, Place, environment
from .terminal import Terminal

STYLE = re.compile(r"\x1b\[[0-9;]*m")


def seen(*words: object, columns: int = 100) -> str:
    with Terminal(*words, columns=columns) as terminal:
        return terminal.rest()


def test_tables(place: Place) -> None:
    place.write("a", description="[red]not markup[/red] :cow: http://example.com 1234 'x'")
    shown = seen("list", *place.options)
    assert "[red]not markup[/red] :cow: http://example.com 1234 'x'" in shown
    assert "─" in shown
    assert "\x1b[33msuspended" in seen("runs", *place.options)
    assert "\x1b[32mok" in seen("doctor", *place.options)


def test_only_our_own_styles_reach_the_terminal(place: Place) -> None:
    place.write("a")
    planted = "\x1b[5mblink \x1b]52;c;ZXZpbA==\x07 \x9b2J \u202e\u200b"
    (place.notes / "a.md").write_text(f'---\ndescription: "\\e[5m \\u202e"\n---\n\n{planted}')
    for words in (("list",), ("show", "a"), ("runs", "show", "monday")):
        shown = STYLE.sub("", seen(*words, *place.options))
        assert not re.search(r"[\x00-\x08\x0b-\x0c\x0e-\x1f\x7f-\x9f\u200b\u202e]", shown), words
    assert "\x1b[5m" not in seen("list", *place.options)


def test_a_narrow_terminal_loses_nothing(place: Place) -> None:
    place.write("a", description="one two three four five six seven eight nine ten eleven twelve")
    shown = seen("list", *place.options, columns=30)
    assert "twelve" in shown
    assert max(len(STYLE.sub("", line).rstrip("\r")) for line in shown.split("\n")) <= 30


@pytest.mark.parametrize("sort", ["key", "size", "age"])
def test_the_list_of_an_empty_memory_says_so(place: Place, sort: str) -> None:
    place.notes.mkdir(parents=True)
    assert "This memory is empty." in seen("list", "--sort", sort, *place.options)


def test_raw_never_drives_a_terminal(place: Place) -> None:
    place.write("a", content="\x1b[5m")
    shown = seen("show", "a", "--raw", *place.options)
    assert "\x1b" not in shown
    assert "send it to a file or a pipe" in shown


def test_progress_and_report(place: Place, other: Place, tmp_path: Path) -> None:
    place.write("a", "b")
    with Terminal("export", "--to", tmp_path / "f", *place.options) as terminal:
        assert "2 notes, " in terminal.rest()
    with Terminal("import", tmp_path / "f", *other.options) as terminal:
        shown = terminal.rest()
    assert "import" in shown
    assert "2 created" in shown
    assert terminal.status == 0


def test_all_works_without_rich(place: Place, tmp_path: Path) -> None:
    place.write("a")
    (tmp_path / "rich.py").write_text("raise ImportError('not installed')")
    start = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from memory_sidecar.cli import main; "
    program = [sys.executable, "-W", "error", "-c", f"{start}sys.exit(main(sys.argv[1:]))"]
    for words in (("list",), ("doctor",), ("runs",), ("show", "a"), ("export",)):
        done = subprocess.run([*program, *words, *place.options], env=environment(), capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b""), words


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(cli: Cli, shell: str) -> None:
    done = cli("completion", shell)
    assert (done.status, done.err) == (0, "")
    for word in ("quarantine", "store-dir", "older-than", "doctor"):
        assert word in done.out


def test_bash_completes(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "script").write_text(cli("completion", "bash").out)
    ask = (
        f"source {tmp_path / 'script'}; COMP_WORDS=(memory-sidecar runs prune --ol); COMP_CWORD=3; "
        "$(complete -p memory-sidecar | sed 's/.*-F \\([^ ]*\\).*/\\1/'); echo ${COMPREPLY[@]}"
    )
    done = subprocess.run(["bash", "--norc", "-c", ask], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["--older-than"], done.stderr


def test_serve_loads_nothing_of_this() -> None:
    program = (
        "import sys; from memory_sidecar.cli import main; main(['serve']); "
        "loaded = {name.removeprefix('memory_sidecar.cli.').removeprefix('shared.') for name in sys.modules}; "
        "print(loaded & {'argparse', 'rich', 'json', 'shtab', 'anyio', 'report', 'failure', 'notes', 'review', 'runs'})"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stdout in ("set()\n", "{'json'}\n")


def test_help_of_every_command(cli: Cli) -> None:
    from memory_sidecar.cli import COMMANDS

    shown = cli("--help").out
    for command in COMMANDS:
        assert re.search(rf"^ +{command}\b", shown, re.MULTILINE)
        done = cli(command, "--help")
        assert (done.status, done.err) == (0, "")
        assert "Exit status" in done.out or command in ("info", "audit")

"""What a command writes arrives whole, whatever stdout is, or the exit status says that it did not."""

import fcntl
import os
import resource
import subprocess
from pathlib import Path

import pytest

from memory_sidecar.cli import COMMANDS

from .conftest import PROGRAM, Cli, Place, environment

LONG = "0123456789abcdef" * 4000  # just what a note holds, and more than one of the small pipes below
WORDS = [
    pytest.param(words, id=" ".join(words))
    for words in (("show", "a", "--raw"), ("show", "a", "--json"), ("show", "a"), ("export",))
]
ENVIRONMENTS = [pytest.param({}, id="buffered"), pytest.param({"PYTHONUNBUFFERED": "1"}, id="unbuffered")]


@pytest.fixture
def noted(place: Place) -> Place:
    place.write("a", content=LONG)
    return place


def started(words: tuple[str, ...], place: Place, env: dict[str, str], out: int) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*PROGRAM, *words, *place.options], stdout=out, stderr=subprocess.PIPE, env=environment(**env), text=True
    )


@pytest.mark.parametrize("env", ENVIRONMENTS)
@pytest.mark.parametrize("words", WORDS)
def test_a_pipe_that_does_not_block_gets_all(
    cli: Cli, noted: Place, words: tuple[str, ...], env: dict[str, str]
) -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(writer, False)
    with started(words, noted, env, writer) as process, open(reader, "rb") as pipe:
        os.close(writer)
        found = pipe.read()
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 0
    if words[0] == "export":  # the time in it differs
        assert cli("import", "-", "--dry-run", *noted.options, stdin=found.decode()).out == "would be: 1 unchanged\n"
    else:
        assert found == cli(*words, *noted.options, raw=True).out
    assert LONG.encode() in found


@pytest.mark.parametrize("env", ENVIRONMENTS)
@pytest.mark.parametrize("words", WORDS)
def test_a_file_that_takes_only_a_part_is_no_success(
    noted: Place, tmp_path: Path, words: tuple[str, ...], env: dict[str, str]
) -> None:
    """As on a disk that gets full: the first write is short, the next one fails."""
    with open(tmp_path / "out", "wb") as out:
        process = subprocess.run(
            ["sh", "-c", 'trap "" XFSZ; exec "$@"', "sh", *PROGRAM, *words, *noted.options],
            stdout=out,
            stderr=subprocess.PIPE,
            env=environment(**env),
            text=True,
            check=False,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000)),
        )
    assert process.returncode == 1
    assert "cannot write the output: File too large" in process.stderr
    assert (tmp_path / "out").stat().st_size == 10000


@pytest.mark.parametrize("env", ENVIRONMENTS)
@pytest.mark.parametrize("words", WORDS)
def test_a_reader_that_leaves_in_the_middle(noted: Place, words: tuple[str, ...], env: dict[str, str]) -> None:
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    with started(words, noted, env, writer) as process:
        os.close(writer)
        assert os.read(reader, 10)
        os.close(reader)
        assert process.stderr is not None
        assert process.stderr.read() == ""
    assert process.returncode == 141


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - {"serve"}))
def test_a_closed_stdout_is_no_success(place: Place, tmp_path: Path, command: str) -> None:
    words = {"show": ["a"], "import": ["notes"], "completion": ["bash"], "quarantine": ["a"]}.get(command, [])
    words += {"copy": ["--from", "a", "--to", "b"], "audit": ["--card", "card"]}.get(command, list(place.options))
    if command == "completion":
        words = ["bash"]
    place.write("a")
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *PROGRAM, command, *words],
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        cwd=tmp_path,
        env=environment(),
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"memory-sidecar {command}: stdout is closed, so nothing was done; ")
    assert (place.notes / "a.md").exists()


@pytest.mark.parametrize("words", [("import", "-"), ("try",)], ids=" ".join)
def test_a_closed_stdin_is_said(place: Place, words: tuple[str, ...]) -> None:
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *PROGRAM, *words, *place.options],
        capture_output=True,
        env=environment(),
        text=True,
        check=False,
    )
    assert done.returncode == 64
    assert "stdin is closed" in done.stderr


@pytest.mark.parametrize(
    ("to", "told"),
    [("-", "no room to put the notes together: File too large"), ("file", "cannot write file: File")],
)
def test_an_export_without_room_to_put_it_together_is_told_and_writes_nothing(
    place: Place, tmp_path: Path, to: str, told: str
) -> None:
    place.write(*(f"note{number}" for number in range(17)), content=LONG)  # more than is put together in memory
    process = subprocess.run(
        ["sh", "-c", 'trap "" XFSZ; exec "$@"', "sh", *PROGRAM, "export", "--to", to, *place.options],
        capture_output=True,
        cwd=tmp_path,
        env=environment(),
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, 1 << 19)),
    )
    assert (process.returncode, process.stdout) == (1, "")
    assert told in process.stderr
    assert "; make room" in process.stderr
    assert not (tmp_path / "file").exists()

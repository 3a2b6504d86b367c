"""Each command in SECURITY.md is there, and the first row's show what the row says."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.sidecar import environment

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text()
ROWS = [
    row for row in TEXT.partition("## Threats")[2].partition("The two commands")[0].splitlines() if row.startswith("| ")
]
COMMANDS = sorted(
    set(re.findall(r"`(pytest [^`]*|make [^`]*)`", TEXT)) | set(re.findall(r"(?m)^\$ ((?:pytest|make) .*)$", TEXT))
)


def names(path: Path) -> set[str]:
    files = path.rglob("test_*.py") if path.is_dir() else [path]
    return {name for file in files for name in re.findall(r"(?m)^(?:async )?def (test_\w+)", file.read_text())}


def test_every_row_has_a_command() -> None:
    for row in ROWS[1:]:
        shown = row.rstrip(" |").rpartition("|")[2]
        assert "`" in shown or shown.strip() in ("the same", "the two commands below the table"), row


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_finds_what_it_runs(command: str) -> None:
    words = shlex.split(command.partition("#")[0])
    if words[0] == "make":
        assert f"\n{words[1]}: " in (ROOT / "Makefile").read_text()
        return
    chosen = words[words.index("-k") + 1] if "-k" in words else ""
    found: set[str] = set()
    for path in [word for word in words[1:] if word.startswith("tests")]:
        assert (ROOT / path).exists(), path
        here = names(ROOT / path)
        assert here, path
        found |= here
    words = set(re.findall(r"\w+", chosen)) - {"or", "and", "not"}
    assert not words or any(word in name for word in words for name in found), (command, words)


def test_the_first_rows_commands_show_their_statuses(tmp_path: Path) -> None:
    block = TEXT.partition("The two commands of the first row")[2].partition("```console\n")[2].partition("```")[0]
    first, second = (part.replace("\\\n", " ") for part in re.findall(r"(?m)^\$ ((?:.*\\\n)*.*)$", block))
    (tmp_path / "memory-sidecar").write_text(f'#!/bin/sh\nexec {sys.executable} -P -m memory_sidecar "$@"\n')
    (tmp_path / "memory-sidecar").chmod(0o755)
    env = environment() | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    said = [
        subprocess.run(
            ["bash", "-c", command],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env=env,
            stdin=subprocess.DEVNULL,
        )
        for command in (first, second)
    ]
    assert said[0].stdout.splitlines()[-1] == "64"
    assert "refused by the exposure policy" in said[1].stdout
    assert said[1].stdout.splitlines()[-1] == "77"


def test_what_takes_minutes_says_so() -> None:
    for row in ROWS:
        if "make faults" in row or "test_proxies" in row:
            assert "minutes" in row

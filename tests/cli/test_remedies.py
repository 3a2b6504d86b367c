"""What a message tells a person to run can be pasted: it means the place that was looked at, and nothing else."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_sidecar.cli.shared.journals import remedy
from memory_sidecar.cli.shared.remedy import command, quoted
from memory_sidecar.run.ledger import Journaled

from .conftest import Cli, Place

AWKWARD = "it's a; place $(touch pwned) `touch pwned`\x1b[2J\u202e"


@pytest.fixture
def awkward(tmp_path: Path) -> Place:
    return Place(tmp_path / AWKWARD)


def pasted(line: str, cwd: Path, home: Path) -> "subprocess.CompletedProcess[str]":
    program = cwd / "bin" / "memory-sidecar"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m memory_sidecar "$@"\n')
    program.chmod(0o755)
    env = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "XDG_STATE_HOME": str(home)}
    return subprocess.run(["bash", "-c", line], cwd=cwd, env=env, capture_output=True, text=True, check=False)


def remedies(text: str) -> list[str]:
    return re.findall(r"(?:memory-sidecar|chmod|mkdir) [^\n]*", text)


def test_a_pasted_removal_takes_the_one_journal_that_was_named(cli: Cli, awkward: Place, tmp_path: Path) -> None:
    awkward.write("a")
    for name in ("broken", "evidence"):
        (awkward.runs / f"{name}.jsonl").write_text('{"seq":1,"type":"meta"}\n')
    for words in (("doctor",), ("runs",), ("runs", "--saw", "a"), ("runs", "show", "broken"), ("quarantine", "a")):
        done = cli(*words, *awkward.options)
        lines = re.findall(r"rm [^\n]*", done.out + done.err)
        assert lines, words
        (line,) = [one for one in lines if "broken" in one]
        assert "prune" not in done.out + done.err
    assert pasted(line, tmp_path, tmp_path).returncode == 0
    assert {path.name for path in awkward.runs.iterdir()} == {"monday.jsonl", "evidence.jsonl"}
    assert not list(tmp_path.rglob("pwned"))


def test_every_place_option_is_carried(cli: Cli, awkward: Place, other: Place, tmp_path: Path) -> None:
    config = tmp_path / "a config.yaml"
    config.write_text("harness: {memory: {enabled: true}}\n")
    awkward.write("a")
    options = ("--config", config, *awkward.options, "--journal-dir", other.path, "--quarantine-dir", tmp_path / "q r")
    done = cli("quarantine", "a", *options)
    (line,) = remedies(done.out)
    back = pasted(line, tmp_path, tmp_path / "home")
    assert (back.returncode, back.stdout) == (0, "a is back in the memory\n")
    words = shlex.split(command({"config": str(config), "store_dir": None, "identity": "-x", "json": "y"}, "list"))
    assert words == ["memory-sidecar", "list", "--config", str(config), "--identity=-x"]
    for asked, place in ((("show", "nope"), options[:-2]), (("quarantine", "--restore", "nope"), options)):
        (line,) = remedies(cli(*asked, *place).err.partition(": ")[2])
        assert pasted(line, tmp_path, tmp_path / "home").returncode == 0


def test_commands_of_the_system_are_quoted_too(cli: Cli, awkward: Place, tmp_path: Path) -> None:
    awkward.write("a")
    awkward.notes.chmod(0o755)
    checks = json.loads(cli("doctor", "--json", *awkward.options).out)["checks"]
    (mend,) = [check["mend"] for check in checks if check["mend"].startswith("chmod 700")]
    assert pasted(mend, tmp_path, tmp_path).returncode == 0
    assert awkward.notes.stat().st_mode & 0o777 == 0o700
    missing = awkward.path / "no such" / "file"
    done = cli("export", "--to", missing, *awkward.options)
    (line,) = remedies(done.err.partition("make it first: ")[2])
    assert pasted(line, tmp_path, tmp_path).returncode == 0
    assert missing.parent.is_dir()
    assert not list(tmp_path.rglob("pwned"))


@given(st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8), max_size=5))
def test_a_shell_reads_back_what_was_quoted(words: list[str]) -> None:
    line = " ".join(["printf '%s\\0' x", *map(quoted, words)])
    assert "\x1b" not in line
    found = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    assert found.decode().split("\0")[1:-1] == words


def test_another_owners_journal_is_for_that_one_to_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a run.jsonl"
    path.write_text("")
    one = Journaled(str(path), "a run", "bot", "unreadable", False, "cannot be read: Permission denied")
    assert remedy(one) == f"let this user read it: chmod u+r '{path}'"
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert remedy(one) == (f"let this user read it; it belongs to another: as that one, or root, chmod o+r '{path}'")


def test_a_remedy_names_the_options_of_its_command_and_no_other_name_is_touched(cli: Cli, tmp_path: Path) -> None:
    missing = tmp_path / "my--config.yaml"
    other = tmp_path / "other.yaml"
    other.write_text("harness: {memory: {enabled: true}}\n")
    said = cli("copy", "--from", missing, "--to", other).err
    assert said == (
        f"memory-sidecar copy: --from: cannot read the configuration {missing}: No such file or directory; "
        "check --from\n"
    )
    said = cli("copy", "--from", other, "--to", missing).err
    assert "--from-identity NAME, or give the --from FILE" in said
    base = tmp_path / "a--store-dir"
    said = cli("copy", "--from", other, "--from-identity", "me", "--from-store-dir", base, "--to", missing).err
    assert f"there is no memory at {base}/memory/me; check --from-identity, --from-store-dir and --from," in said

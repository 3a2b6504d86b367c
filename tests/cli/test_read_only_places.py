"""A memory that may only be read: on a read-only mount (as root), or in a directory closed to writing."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.sidecar import launched

from memory_sidecar.backend.choose import open_backend
from memory_sidecar.config import Config, MemoryConfig
from memory_sidecar.exits import StartError
from memory_sidecar.places import make_journal_dir

from .conftest import Cli, Place

READ_ONLY = "identity: bot\nharness: {memory: {enabled: true, read_only: true}}\n"


@pytest.fixture
def closed(place: Place) -> Iterator[Place]:
    """A place with notes, a dead writer's temporary file and a journal, none of which can be changed any more."""
    place.write("plan", "other")
    (place.notes / ".tmp-0123456789abcdef").write_text("half")
    if os.geteuid():
        directories = [path for path in (place.path, *place.path.rglob("*")) if path.is_dir()]
        for path in directories:
            path.chmod(0o500)
        yield place
        for path in directories:
            path.chmod(0o700)
        return
    words = ["mount", "--bind", str(place.path), str(place.path)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not permitted here")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", str(place.path)], check=True)
        yield place
    finally:
        subprocess.run(["umount", str(place.path)], check=True)


def test_what_only_reads_needs_no_more_than_reading(cli: Cli, closed: Place, other: Place, tmp_path: Path) -> None:
    options = closed.options
    assert cli("list", *options).out.splitlines()[1:] == ["other  About other", "plan   About plan"]
    assert "The plan." in cli("show", "plan", *options).out
    assert cli("export", "--to", tmp_path / "saved", *options).status == 0
    target = ("--to-store-dir", str(other.path), "--to-identity", "bot")
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text("harness: {memory: {enabled: true}}\n")
    copied = cli(
        *("copy", "--from", "a.yaml", "--from-store-dir", closed.path, "--from-identity", "bot", "--to", "b.yaml"),
        *target,
    )
    assert copied.out == "2 created\n"
    assert cli("import", tmp_path / "saved", "--dry-run", *options).out == "would be: 2 unchanged\n"
    assert "monday" in cli("runs", *options).out
    assert [one["what"] for one in json.loads(cli("runs", "--saw", "plan", "--json", *options).out)["seen"]] == [
        "created"
    ]
    assert (closed.notes / ".tmp-0123456789abcdef").exists()


def test_what_writes_says_why_it_cannot(cli: Cli, closed: Place, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text('{"key": "new", "description": "d", "content": "c"}\n')
    for words in (("import", tmp_path / "notes"), ("quarantine", "plan", "--quarantine-dir", tmp_path / "q")):
        done = cli(*words, *closed.options)
        assert done.status == 78, words
        mend = (
            "its disk is read-only; mount it writable" if not os.geteuid() else "make it a directory that this user can"
        )
        assert mend in done.err


def test_a_read_only_sidecar_serves_from_it(cli: Cli, closed: Place, tmp_path: Path) -> None:
    config = tmp_path / "memory.yaml"
    config.write_text(READ_ONLY)
    places = ("--config", str(config), "--journal-dir", str(tmp_path / "runs"))
    # Runs are journaled, so their directory has to be writable; that is said, and not that permission is missing.
    with pytest.raises(StartError) as refused:
        make_journal_dir(str(closed.path / "runs-of-tomorrow"), "bot")
    assert ("its disk is read-only; mount it writable, or set --journal-dir" in str(refused.value)) == (
        not os.geteuid()
    ), refused.value
    with launched(closed.path, *places, "--identity", "bot") as sidecar:
        assert "- plan: About plan" in sidecar.open("reader")["instructions"]
        assert [one["key"] for one in sidecar.call("memory_list")["structuredContent"]["memories"]] == ["other", "plan"]
        assert sidecar.read("plan")["content"] == "The plan.\n"
        sidecar.leave()
    done = cli("doctor", *places, "--store-dir", closed.path)
    assert (done.status, f"{closed.notes}, to be read only" in done.out) == (0, True)
    assert cli("info", "--check", *places, "--store-dir", closed.path).status == 0


def test_a_sidecar_that_may_write_does_not_start_on_it(cli: Cli, closed: Place, tmp_path: Path) -> None:
    options = (*closed.options, "--journal-dir", str(tmp_path / "runs"))
    done = cli("doctor", *options)
    assert done.status == 1
    assert "2 of 1024 notes" in done.out
    done = cli("doctor", *closed.options)
    assert (done.status, "runs: 1 suspended" in done.out) == (1, True)
    assert cli("info", "--check", *options).status == 1


def test_a_read_only_sidecar_makes_its_directory_and_writes_nothing_into_it(place: Place, tmp_path: Path) -> None:
    config = tmp_path / "memory.yaml"
    config.write_text(READ_ONLY)
    with launched(place.path, "--config", str(config), "--identity", "bot") as sidecar:
        assert sidecar.call("memory_list")["structuredContent"] == {"memories": []}
    assert list(place.notes.iterdir()) == []
    # What the lockdown leaves writable: of a memory that is only read, nothing.
    for read_only, kept in ((True, ()), (False, (str(place.notes),))):
        memory = MemoryConfig(enabled=True, read_only=read_only)
        assert open_backend(Config(memory=memory), "bot", str(place.path)).directories == kept

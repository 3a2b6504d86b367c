"""A run in one process, where the wire is not needed to see it: what a cancelled call may still do."""

from pathlib import Path
from typing import Any

import pytest

from memory_sidecar.backend.file import FileOptions, open_file
from memory_sidecar.run.read import read_journal
from memory_sidecar.run.runs import list_runs
from memory_sidecar.run.session import Answer, Run, Setting
from memory_sidecar.tools.catalog import Catalog


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    options = FileOptions(directory="notes", require_read_before_update=True)
    opened = open_file(options, "tester", str(tmp_path))
    catalog = Catalog(enabled=True, read_only=False)
    return Setting(opened.store, opened.fingerprint, catalog, True, "tester", str(tmp_path / "runs"))


def call(run: Run, tool: str, *, cancelled: bool = False, **arguments: Any) -> Answer:
    answer: Answer = run.call(tool, arguments, lambda: cancelled)
    return answer


def test_a_read_that_was_cancelled_while_it_ran_grants_nothing(setting: Setting, tmp_path: Path) -> None:
    writer, reader = Run("writer", setting), Run("reader", setting)
    writer.open()
    reader.open()
    call(writer, "memory_write", key="plan", description="d", content="old")
    call(reader, "memory_read", key="plan", cancelled=True)
    assert reader.scope()["keys"] == {}
    refused = call(reader, "memory_write", key="plan", description="d", content="new", overwrite=True)
    assert refused.outcome.structured is not None
    assert refused.outcome.structured["code"] == "not_read"
    reader.end("suspended")
    found, _ = read_journal(str(tmp_path / "runs" / "reader.jsonl"))
    assert found is not None
    assert found.keys == {}
    writer.end("suspended")


def test_a_write_that_was_cancelled_while_it_ran_is_known_to_its_run(setting: Setting) -> None:
    run = Run("writer", setting)
    run.open()
    call(run, "memory_write", key="plan", description="d", content="old", cancelled=True)
    # What is stored is the run's own: it may go on from there.
    again = call(run, "memory_write", key="plan", description="d", content="new", overwrite=True)
    assert again.outcome.structured == {"written": True, "key": "plan"}
    run.end("completed")


def test_a_run_that_is_refused_lets_go_of_its_journal(setting: Setting, tmp_path: Path) -> None:
    from memory_sidecar.run.terms import RunRefusedError

    first = Run("monday", setting)
    first.open()
    first.end("suspended")
    with pytest.raises(RunRefusedError):
        Run("monday", setting).open("never")
    assert [found.state for found in list_runs(str(tmp_path / "runs"), "tester")] == ["suspended"]


def test_there_are_no_runs_where_there_is_no_directory(tmp_path: Path) -> None:
    assert list_runs(str(tmp_path / "nowhere"), "tester") == []

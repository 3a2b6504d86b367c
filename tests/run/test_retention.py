"""Old journals go where the operator said so: of runs that are over, and of no other."""

import os
import time
from pathlib import Path

import pytest

from memory_sidecar.run import records, retention
from memory_sidecar.run.journal import Journal
from memory_sidecar.run.retention import begin, remove_old

DAY = 86400.0


def made(directory: Path, run: str, days: float, reason: str | None, identity: str = "i") -> Path:
    """The journal of a run that was last used so many days ago, and ended with `reason`, or not at all."""
    when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(time.time() - days * DAY))
    written = [records.meta(run=run, identity=identity, tools=["t"], store="s") | {"created": when}]
    if reason is not None:
        written += [records.terminal(reason), records.snapshot({})]  # type: ignore[arg-type]
    dated = [record | ({"time": when} if "time" in record else {}) for record in written]
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / f"{run}.jsonl"
    path.write_bytes(b"".join(records.encode(record, number) for number, record in enumerate(dated, 1)))
    os.utime(path, (time.time() - days * DAY,) * 2)
    return path


def opened(directory: Path, run: str, identity: str) -> Journal:
    mine = records.meta(run=run, identity=identity, tools=["t"], store="s")
    journal = Journal(str(directory), run, meta=lambda: mine, snapshot=lambda: records.snapshot({}))
    journal.open()
    return journal


def names(directory: Path) -> set[str]:
    return {path.stem for path in directory.glob("*.jsonl")}


def test_only_old_runs_that_are_over_go(tmp_path: Path) -> None:
    for reason in ("completed", "error", "budget", "max_iterations", "suspended"):
        made(tmp_path, f"old-{reason}", 31, reason)
        made(tmp_path, f"new-{reason}", 29, reason)
    made(tmp_path, "interrupted", 31, None)
    (tmp_path / "damaged.jsonl").write_bytes(b'{"seq":1,"type":"meta"}\n')
    (tmp_path / "foreign.jsonl").write_bytes(b"a list\n")
    (tmp_path / "empty.jsonl").touch()
    made(tmp_path, "another", 31, "completed", identity="j")
    for path in ("damaged", "foreign", "empty"):
        os.utime(tmp_path / f"{path}.jsonl", (0, 0))
    before = names(tmp_path)
    assert remove_old(str(tmp_path), "i", 30 * DAY) == 4
    assert before - names(tmp_path) == {"old-completed", "old-error", "old-budget", "old-max_iterations"}


def test_a_run_that_was_used_since_stays_whatever_its_file_says_and_the_other_way_round(tmp_path: Path) -> None:
    os.utime(made(tmp_path, "restored", 1, "completed"), (0, 0))
    os.utime(made(tmp_path, "touched", 400, "completed"))
    assert remove_old(str(tmp_path), "i", 30 * DAY) == 0


def test_a_run_that_was_made_after_the_clock_was_put_back_was_not_used_before_it_was_made(tmp_path: Path) -> None:
    path = made(tmp_path, "run", 400, "completed")
    first, *rest = path.read_bytes().splitlines(keepends=True)
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())
    record = {name: value for name, value in records.decode(first[:-1]).items() if name != "seq"} | {"created": now}
    path.write_bytes(b"".join([records.encode(record, 1), *rest]))
    os.utime(path, (0, 0))
    assert remove_old(str(tmp_path), "i", 30 * DAY) == 0


def test_a_run_that_is_open_stays(tmp_path: Path) -> None:
    made(tmp_path, "r", 31, "error")
    journal = opened(tmp_path, "r", "i")
    try:
        assert remove_old(str(tmp_path), "i", 0.0) == 0
    finally:
        journal.close()
    assert remove_old(str(tmp_path), "i", 0.0) == 1


def test_of_many_identities_each_directory_is_looked_at(tmp_path: Path) -> None:
    for identity in ("a", "b"):
        made(tmp_path / identity, "r", 31, "completed", identity=identity)
    assert remove_old(str(tmp_path), None, 30 * DAY) == 2


def test_one_start_removes_so_many_and_the_next_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_AT_ONCE", 2)
    for number in range(3):
        made(tmp_path, f"r{number}", 31, "completed")
    assert remove_old(str(tmp_path), "i", DAY) == 2
    assert remove_old(str(tmp_path), "i", DAY) == 1


def test_a_directory_that_cannot_be_read_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("threading.Thread.start", lambda thread: thread.run())
    (tmp_path / "file").touch()
    begin(str(tmp_path / "file"), "i", DAY)
    begin(str(tmp_path / "file"), None, DAY)
    told = capfd.readouterr().err.splitlines()
    assert len(told) == 2
    assert all("journals of old runs are not removed" in line and "Not a directory" in line for line in told)

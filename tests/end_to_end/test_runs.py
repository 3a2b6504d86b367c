"""Runs and the authority they earn: kept through a suspend or a kill, void where it means nothing, never shared."""

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.sidecar import (
    DEADLINE,
    LIST,
    OPEN,
    UNSAVED,
    RefusedError,
    Sidecar,
    configured,
    environment,
    guarded,
    launched,
    until,
)

MONDAY = ("--run", "monday")

pytestmark = pytest.mark.usefixtures("both_eras")


@pytest.fixture
def guard(tmp_path: Path) -> tuple[str, str]:
    """The arguments that make an overwrite need the authority of a read."""
    return guarded(tmp_path)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "state"


def records(base: Path, run: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (base / "runs" / "tester" / f"{run}.jsonl").read_text().splitlines()]


def plant(base: Path, guard: tuple[str, ...], *keys: str) -> None:
    """Notes from another run."""
    with launched(base, *guard) as sidecar:
        for key in keys:
            sidecar.write(key, "old")
        assert sidecar.leave() == 0


# --- suspend, kill, resume -------------------------------------------------------------------------------------------


def test_a_suspended_run_resumes_with_the_authority_it_had(base: Path, guard: tuple[str, str]) -> None:
    plant(base, guard, "read", "unread", "gone")
    with launched(base, *guard) as sidecar:
        assert sidecar.open("monday")["resumed"] is False
        sidecar.read("read", "monday")
        sidecar.write("own", "mine", "monday")
        sidecar.read("gone", "monday")
        sidecar.call("memory_delete", {"key": "gone"}, "monday")
        scope = sidecar.suspend("monday")["scope"]
        assert sorted(scope["keys"]) == ["own", "read"]
        sidecar.leave()
    with launched(base, *guard) as sidecar:
        opened = sidecar.open("monday", resume="require")
        assert opened["resumed"] is True
        assert opened["scope"] == scope
        assert sidecar.write("read", "new", "monday", overwrite=True)["written"]
        assert sidecar.write("own", "new", "monday", overwrite=True)["written"]
        assert sidecar.write("unread", "new", "monday", overwrite=True)["code"] == "not_read"
        assert sidecar.read("unread", "monday")["content"] == "old"


def test_a_kill_right_after_a_reads_reply_costs_no_authority(base: Path, guard: tuple[str, str]) -> None:
    plant(base, guard, "plan")
    with launched(base, *guard, *MONDAY) as sidecar:
        assert sidecar.read("plan")["found"]
        sidecar.kill()
    with launched(base, *guard, *MONDAY) as sidecar:
        assert sidecar.write("plan", "new", overwrite=True) == {"written": True, "key": "plan"}
        sidecar.kill()
    with launched(base, *guard, *MONDAY) as sidecar:
        # The write's own authority survived as well.
        assert sidecar.write("plan", "newer", overwrite=True)["written"]


def test_what_another_process_changed_meanwhile_is_refused_as_changed(base: Path, guard: tuple[str, str]) -> None:
    plant(base, guard, "plan")
    with launched(base, *guard, *MONDAY) as sidecar:
        sidecar.read("plan")
        sidecar.kill()
    with launched(base, *guard) as other:
        other.read("plan")
        assert other.write("plan", "theirs", overwrite=True)["written"]
    with launched(base, *guard, *MONDAY) as sidecar:
        refused = sidecar.write("plan", "mine", overwrite=True)
        assert refused["written"] is False
        assert refused["code"] == "changed"
        assert "memory_read" in refused["reason"]
        assert sidecar.read("plan")["content"] == "theirs"
        assert sidecar.write("plan", "mine", overwrite=True)["written"]


def test_a_refused_key_stays_refused_after_a_resume(base: Path, guard: tuple[str, str]) -> None:
    plant(base, guard, "plan")
    with launched(base, *guard, *MONDAY) as sidecar:
        sidecar.read("plan")
        with launched(base, *guard) as other:
            other.read("plan")
            other.write("plan", "theirs", overwrite=True)
        assert sidecar.write("plan", "mine", overwrite=True)["code"] == "changed"
        sidecar.kill()
    with launched(base, *guard, *MONDAY) as sidecar:
        assert sidecar.write("plan", "mine", overwrite=True)["code"] == "not_read"


def test_a_new_run_has_read_nothing(base: Path, guard: tuple[str, str]) -> None:
    plant(base, guard, "plan")
    with launched(base, *guard, *MONDAY) as sidecar:
        sidecar.read("plan")
        sidecar.leave()
    with launched(base, *guard, "--run", "tuesday") as sidecar:
        assert sidecar.write("plan", "new", overwrite=True)["code"] == "not_read"


def test_a_collision_does_not_count_as_having_read(base: Path, guard: tuple[str, str]) -> None:
    plant(base, guard, "plan")
    with launched(base, *guard, *MONDAY) as sidecar:
        assert sidecar.write("plan", "new")["code"] == "exists"
        assert sidecar.call("memory_list")["structuredContent"]["memories"]
        assert sidecar.write("plan", "new", overwrite=True)["code"] == "not_read"


def test_runs_of_one_process_share_the_notes_but_no_authority(base: Path, guard: tuple[str, str]) -> None:
    plant(base, guard, "plan")
    with launched(base, *guard) as sidecar:
        sidecar.open("monday")
        sidecar.open("tuesday")
        sidecar.read("plan", "monday")
        assert sidecar.write("plan", "new", "tuesday", overwrite=True)["code"] == "not_read"
        assert sidecar.write("plan", "new", overwrite=True)["code"] == "not_read"
        assert sidecar.write("plan", "new", "monday", overwrite=True)["written"]
        assert sidecar.read("plan", "tuesday")["content"] == "new"
        assert sorted(sidecar.suspend("monday")["scope"]["keys"]) == ["plan"]
        assert sorted(sidecar.suspend("tuesday")["scope"]["keys"]) == ["plan"]
    assert {record["why"] for record in records(base, "monday") if record["type"] == "scope_change"} == {
        "read",
        "updated",
    }


# --- endings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["error", "budget", "max_iterations"])
def test_every_ending_but_completed_can_be_resumed(base: Path, guard: tuple[str, str], reason: str) -> None:
    with launched(base, *guard) as sidecar:
        sidecar.open("monday")
        sidecar.write("plan", "mine", "monday")
        scope = sidecar.finish("monday", reason, message="why")["scope"]
        assert sidecar.states()["monday"] == reason
        assert sidecar.open("monday")["scope"] == scope
        assert sidecar.write("plan", "new", "monday", overwrite=True)["written"]


def test_a_completed_run_is_over(base: Path) -> None:
    with launched(base) as sidecar:
        sidecar.open("monday")
        sidecar.finish("monday", "completed")
        before = records(base, "monday")
        for resume in ("auto", "require"):
            with pytest.raises(RefusedError, match="completed"):
                sidecar.open("monday", resume=resume)
        with pytest.raises(RefusedError, match="not open"):
            sidecar.call("memory_list", run="monday")
        assert records(base, "monday") == before
        assert sidecar.states()["monday"] == "completed"


@pytest.mark.parametrize("reason", ["suspended", "done", "", None, 7])
def test_an_unknown_ending_is_refused_and_the_run_goes_on(base: Path, reason: Any) -> None:
    with launched(base) as sidecar:
        sidecar.open("monday")
        with pytest.raises(RefusedError, match="completed, error, budget, max_iterations"):
            sidecar.finish("monday", reason)
        assert sidecar.call("memory_list", run="monday")["isError"] is False


def test_a_terminal_record_is_followed_by_a_snapshot(base: Path) -> None:
    with launched(base) as sidecar:
        sidecar.open("monday")
        sidecar.write("plan", "x", "monday")
        sidecar.finish("monday", "budget", message="m" * 5000)
    terminal, snapshot = records(base, "monday")[-2:]
    assert (terminal["type"], terminal["reason"], len(terminal["message"])) == ("terminal", "budget", 1000)
    assert (snapshot["type"], list(snapshot["keys"])) == ("scope", ["plan"])


def test_require_and_never_say_what_must_be_there(base: Path) -> None:
    with launched(base) as sidecar:
        with pytest.raises(RefusedError, match="no run monday"):
            sidecar.open("monday", resume="require")
        assert not (base / "runs" / "tester" / "monday.jsonl").exists()
        assert sidecar.open("monday", resume="never")["resumed"] is False
        sidecar.suspend("monday")
        with pytest.raises(RefusedError, match="exists already"):
            sidecar.open("monday", resume="never")
        assert sidecar.open("monday", resume="require")["resumed"] is True
        sidecar.suspend("monday")
        with pytest.raises(RefusedError, match="auto, require, never"):
            sidecar.open("monday", resume="maybe")
        assert sidecar.open("monday")["resumed"] is True


def test_a_run_can_be_open_once(base: Path) -> None:
    with launched(base) as sidecar:
        sidecar.open("monday")
        with pytest.raises(RefusedError, match="open already"):
            sidecar.open("monday")
        assert sidecar.call("memory_list", run="monday")["isError"] is False
        with launched(base) as other:
            with pytest.raises(RefusedError, match="another process"):
                other.open("monday")
            sidecar.suspend("monday")
            assert other.open("monday")["resumed"] is True


def test_a_killed_holder_leaves_no_lock(base: Path) -> None:
    with launched(base, *MONDAY) as sidecar, launched(base) as other:
        sidecar.call("memory_list")
        sidecar.kill()
        assert other.states()["monday"] == "interrupted"
        assert other.open("monday")["resumed"] is True


@pytest.mark.parametrize("run", ["", "-x", "_x", "a/b", "../x", "a b", "a" * 129, "a\n", "é", None, 7])
def test_an_id_that_cannot_name_a_file_is_refused(base: Path, run: Any) -> None:
    with launched(base) as sidecar:
        with pytest.raises(RefusedError, match="1 to 128"):
            sidecar.open(run)
        assert list((base / "runs" / "tester").iterdir()) == []


def test_the_longest_id_works(base: Path) -> None:
    with launched(base) as sidecar:
        sidecar.open("a" * 128)
        sidecar.suspend("a" * 128)
        assert sidecar.states() == {"a" * 128: "suspended"}


def test_a_store_error_while_opening_leaves_the_run_free(base: Path) -> None:
    with launched(base) as sidecar:
        assert sidecar.memory is not None
        sidecar.memory.rename(base / "elsewhere")
        with pytest.raises(RefusedError, match="missing"):
            sidecar.open("monday")
        (base / "elsewhere").rename(sidecar.memory)
        assert sidecar.open("monday")["run"] == "monday"
        assert sidecar.call("memory_list", run="monday")["isError"] is False


def test_run_list_tells_how_each_run_stands(base: Path) -> None:
    with launched(base, "--run", "killed") as sidecar:
        sidecar.call("memory_list")
        sidecar.kill()
    with launched(base) as sidecar:
        for run, ending in (("done", "completed"), ("failed", "error"), ("broken", "budget"), ("resting", None)):
            sidecar.open(run)
            sidecar.finish(run, ending) if ending else sidecar.suspend(run)
        sidecar.open("going")
        broken = base / "runs" / "tester" / "broken.jsonl"
        broken.write_bytes(broken.read_bytes().replace(b'"budget"', b'"bodget"'))
        (base / "runs" / "tester" / "empty.jsonl").touch()
        (base / "runs" / "tester" / "notes.txt").touch()
        (base / "runs" / "tester" / "-odd.jsonl").touch()
        (base / "runs" / "tester" / "directory.jsonl").mkdir()
        (base / "runs" / "tester" / "link.jsonl").symlink_to(broken)
        os.mkfifo(base / "runs" / "tester" / "fifo.jsonl")
        listed = sidecar.request(LIST)["runs"]
        assert {run["run"]: run["state"] for run in listed} == {
            "broken": "damaged",
            "done": "completed",
            "failed": "error",
            "going": "open",
            "killed": "interrupted",
            "resting": "suspended",
        }
        assert [run["run"] for run in listed] == sorted(run["run"] for run in listed)
        for run in listed:
            assert set(run) == {"run", "state", "created", "updated"}
            assert run["state"] == "damaged" or run["created"] <= run["updated"]


# --- whose scope counts ----------------------------------------------------------------------------------------------


def test_another_store_voids_the_scope(base: Path, tmp_path: Path, guard: tuple[str, str]) -> None:
    runs = ("--journal-dir", str(tmp_path / "runs"))
    with launched(base, *guard, *runs, *MONDAY) as sidecar:
        sidecar.write("plan", "here")
        sidecar.leave()
    with launched(tmp_path / "other", *guard, *runs, *MONDAY) as sidecar:
        # The same text under the same key, and yet not what the run has seen.
        with launched(tmp_path / "other", *guard) as planter:
            planter.write("plan", "here")
        assert sidecar.write("plan", "new", overwrite=True)["code"] == "not_read"
        sidecar.leave()
    with launched(base, *guard, *runs, *MONDAY) as sidecar:
        # Coming back does not bring back what was dropped.
        assert sidecar.write("plan", "new", overwrite=True)["code"] == "not_read"


def test_switching_read_only_keeps_the_scope(base: Path, tmp_path: Path, guard: tuple[str, str]) -> None:
    (tmp_path / "ro").mkdir()
    read_only = configured(tmp_path / "ro", "read_only: true, options: {require_read_before_update: true}")
    with launched(base, *guard, *MONDAY) as sidecar:
        sidecar.write("plan", "old")
        sidecar.leave()
    with launched(base, *read_only, *MONDAY) as sidecar:
        assert len(sidecar.request("tools/list")["tools"]) == 2
        sidecar.call("memory_list")
        sidecar.leave()
    with launched(base, *guard, *MONDAY) as sidecar:
        assert sidecar.write("plan", "new", overwrite=True)["written"]
    tools = [record["tools"] for record in records(base, "monday") if record["type"] in ("meta", "resumed")]
    assert [len(names) for names in tools] == [4, 2, 4]


def test_a_scope_that_the_harness_kept_wins_over_the_journal(base: Path, guard: tuple[str, str]) -> None:
    plant(base, guard, "plan", "other")
    with launched(base, *guard) as sidecar:
        sidecar.open("monday")
        sidecar.read("plan", "monday")
        scope = sidecar.suspend("monday")["scope"]
        # Without a journal, under another id: what is handed in is all there is.
        assert sidecar.open("tuesday", scope=scope, resume="require")["resumed"] is True
        assert sidecar.write("plan", "new", "tuesday", overwrite=True)["written"]
        sidecar.open("monday", scope={"store": scope["store"], "keys": {}})
        assert sidecar.write("plan", "newer", "monday", overwrite=True)["code"] == "not_read"
        sidecar.kill()
    with launched(base, *guard) as sidecar:
        # It is in the journal as well.
        assert sidecar.open("monday")["scope"]["keys"] == {}
        assert sorted(sidecar.open("tuesday")["scope"]["keys"]) == ["plan"]


def test_a_scope_of_another_store_is_not_taken(base: Path, guard: tuple[str, str]) -> None:
    plant(base, guard, "plan")
    with launched(base, *guard) as sidecar:
        sidecar.open("monday")
        sidecar.read("plan", "monday")
        scope = sidecar.suspend("monday")["scope"]
        foreign = {"store": "file:" + "0" * 32, "keys": {"plan": scope["keys"]["plan"]}}
        assert sidecar.open("tuesday", scope=foreign)["scope"] == {"store": scope["store"], "keys": {}}
        # The journal's own scope is then still the newest that means anything.
        assert sidecar.open("monday", scope=foreign)["scope"] == scope


@pytest.mark.parametrize("scope", [[], "x", {"keys": {}}, {"store": "s", "keys": {"k": 7}}, {"store": "s"}, {"x": 1}])
def test_a_malformed_scope_is_refused(base: Path, scope: Any) -> None:
    with launched(base) as sidecar:
        with pytest.raises(RefusedError, match="scope"):
            sidecar.open("monday", scope=scope)
        assert sidecar.open("monday")["resumed"] is False


def test_a_scope_reveals_no_path(base: Path) -> None:
    with launched(base) as sidecar:
        scope = sidecar.open("monday")["scope"]
        assert str(base) not in json.dumps(scope)
        assert str(base) not in (base / "runs" / "tester" / "monday.jsonl").read_text()


# --- damage ----------------------------------------------------------------------------------------------------------


def small_journal(base: Path, guard: tuple[str, str]) -> Path:
    """A run that read one note and was then killed."""
    plant(base, guard, "plan")
    with launched(base, *guard, *MONDAY) as sidecar:
        sidecar.read("plan")
        sidecar.kill()
    return base / "runs" / "tester" / "monday.jsonl"


def test_a_torn_last_line_is_cut_off_before_anything_is_added(base: Path, guard: tuple[str, str]) -> None:
    journal = small_journal(base, guard)
    whole = journal.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    with launched(base, *guard) as sidecar:
        for cut in range(last, len(whole)):
            journal.write_bytes(whole[:cut])
            opened = sidecar.open("monday")
            assert opened["resumed"] is True
            assert opened["scope"]["keys"] == {}  # the read's record was not whole, so its reply never went out
            sidecar.suspend("monday")
            assert journal.read_bytes()[:last] == whole[:last]
            assert journal.read_bytes()[last:].startswith(b'{"seq":3,"type":"resumed"')
            assert [record["seq"] for record in records(base, "monday")] == list(range(1, 8))
        journal.write_bytes(whole)
        assert list(sidecar.open("monday")["scope"]["keys"]) == ["plan"]


def test_a_torn_line_longer_than_what_follows_leaves_nothing_behind(base: Path, guard: tuple[str, str]) -> None:
    journal = small_journal(base, guard)
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"seq":3,"type":"scope","keys":{"' + b"x" * 5000)
    with launched(base, *guard) as sidecar:
        assert list(sidecar.open("monday")["scope"]["keys"]) == ["plan"]
        assert journal.read_bytes().startswith(whole)
        assert b"xxx" not in journal.read_bytes()
        sidecar.kill()
    with launched(base, *guard) as sidecar:
        assert sidecar.open("monday")["resumed"] is True


def test_a_journal_torn_in_its_first_line_starts_anew(base: Path, guard: tuple[str, str]) -> None:
    journal = small_journal(base, guard)
    first = journal.read_bytes().splitlines(keepends=True)[0]
    with launched(base, *guard) as sidecar:
        for cut in range(0, len(first), 7):
            journal.write_bytes(first[:cut])
            assert sidecar.open("monday")["scope"]["keys"] == {}
            assert sidecar.read("plan", "monday")["found"]
            sidecar.suspend("monday")
            assert [record["type"] for record in records(base, "monday")] == [
                "meta",
                "listed",
                "scope_change",
                "terminal",
                "scope",
            ]


def test_damage_anywhere_else_is_refused_with_its_line_and_nothing_is_touched(
    base: Path, guard: tuple[str, str]
) -> None:
    journal = small_journal(base, guard)
    whole = journal.read_bytes()
    with launched(base, *guard) as sidecar:
        for place in range(len(whole) - 1):  # without its last newline the last line is a torn one
            damaged = bytearray(whole)
            damaged[place] ^= 1 << place % 7
            journal.write_bytes(damaged)
            line = whole[:place].count(b"\n") + 1
            answer = sidecar.ask(OPEN, {"run": "monday"})
            assert "error" in answer, f"byte {place}"
            assert f"line {line}:" in answer["error"]["message"]
            assert "monday.jsonl" in answer["error"]["message"]
            assert journal.read_bytes() == damaged
        assert sidecar.states()["monday"] == "damaged"
        journal.write_bytes(whole)
        assert sidecar.open("monday")["resumed"] is True


@pytest.mark.parametrize("change", ["swap", "drop", "double", "first gone"])
def test_whole_lines_in_the_wrong_place_are_damage(base: Path, guard: tuple[str, str], change: str) -> None:
    journal = small_journal(base, guard)
    with launched(base, *guard, *MONDAY) as sidecar:
        sidecar.call("memory_list")
        sidecar.leave()
    lines = journal.read_bytes().splitlines(keepends=True)
    if change == "swap":
        lines[1], lines[2] = lines[2], lines[1]
    elif change == "drop":
        del lines[2]
    elif change == "double":
        lines.insert(2, lines[2])
    else:
        del lines[0]
    journal.write_bytes(b"".join(lines))
    with launched(base, *guard) as sidecar, pytest.raises(RefusedError, match="damaged, line "):
        sidecar.open("monday")
    assert journal.read_bytes() == b"".join(lines)


def test_a_journal_that_is_no_file_is_refused_and_left(base: Path, tmp_path: Path) -> None:
    with launched(base) as sidecar:
        (tmp_path / "elsewhere").touch()
        (base / "runs" / "tester" / "link.jsonl").symlink_to(tmp_path / "elsewhere")
        (base / "runs" / "tester" / "dangling.jsonl").symlink_to(tmp_path / "nothing")
        os.mkfifo(base / "runs" / "tester" / "fifo.jsonl")
        (base / "runs" / "tester" / "directory.jsonl").mkdir()
        for run in ("link", "dangling", "fifo", "directory"):
            with pytest.raises(RefusedError, match="not a regular file"):
                sidecar.open(run)
        assert (tmp_path / "elsewhere").read_bytes() == b""
        assert not (tmp_path / "nothing").exists()


# --- where journals lie, and who may read them -----------------------------------------------------------------------


def test_journals_are_private(base: Path) -> None:
    old = os.umask(0)
    try:
        with launched(base, *MONDAY) as sidecar:
            sidecar.call("memory_list")
            assert (base / "runs").stat().st_mode & 0o777 == 0o700
            assert (base / "runs" / "tester").stat().st_mode & 0o777 == 0o700
            assert (base / "runs" / "tester" / "monday.jsonl").stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(old)


def test_a_generated_run_leaves_no_file_until_it_is_used(base: Path) -> None:
    with launched(base) as sidecar:
        sidecar.request("tools/list")
        sidecar.leave()
    assert list((base / "runs" / "tester").iterdir()) == []
    with launched(base) as sidecar:
        sidecar.call("memory_list")
        sidecar.leave()
    assert len(list((base / "runs" / "tester").iterdir())) == 1


def test_the_default_run_can_be_suspended_and_opened_by_its_id(base: Path, guard: tuple[str, str]) -> None:
    with Sidecar(base, *guard) as sidecar:
        run = sidecar.initialize()["_meta"]["memory-sidecar/run"]
        sidecar.write("plan", "old")
        sidecar.suspend(run)
        with pytest.raises(RefusedError, match="not open"):
            sidecar.call("memory_list")
        assert sidecar.open(run)["resumed"] is True
        assert sidecar.write("plan", "new", overwrite=True)["written"]


def test_a_journal_directory_that_is_named_is_used(base: Path, tmp_path: Path) -> None:
    with launched(base, "--journal-dir", str(tmp_path / "deep" / "journals"), *MONDAY) as sidecar:
        sidecar.call("memory_list")
        assert [path.name for path in (tmp_path / "deep" / "journals" / "tester").iterdir()] == ["monday.jsonl"]
    assert not (base / "runs").exists()


@pytest.mark.parametrize("state_home", ["xdg", "relative", "home"])
def test_without_a_store_base_journals_go_to_the_users_state_and_never_the_working_directory(
    tmp_path: Path, state_home: str
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    env = environment(HOME=str(tmp_path / "home"))
    env.pop("XDG_STATE_HOME", None)
    expected = tmp_path / "home" / ".local" / "state"
    if state_home == "xdg":
        env["XDG_STATE_HOME"] = str(tmp_path / "xdg")
        expected = tmp_path / "xdg"
    elif state_home == "relative":
        env["XDG_STATE_HOME"] = "here"
    with launched(None, *MONDAY, env=env, cwd=work) as sidecar:  # type: ignore[arg-type]
        sidecar.write("plan", "x")
        sidecar.leave()
    assert (expected / "memory-sidecar" / "runs" / "tester" / "monday.jsonl").exists()
    assert sorted(str(path.relative_to(work)) for path in work.rglob("*") if path.is_file()) == [
        "memory/tester/.memory-sidecar-id",
        "memory/tester/plan.md",
    ]


# --- a journal that cannot be written --------------------------------------------------------------------------------


@contextlib.contextmanager
def full_when_told(directory: Path) -> Iterator[None]:
    """Make `directory` a file system of its own, so small that a test can fill it."""
    directory.mkdir(mode=0o700)
    words = ["mount", "-t", "tmpfs", "-o", "size=64k,mode=0700", "tmpfs", str(directory)]
    if os.geteuid() or subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True, timeout=DEADLINE)


def fill(directory: Path) -> Path:
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 512)
    return filler


def test_on_a_full_disk_memory_works_and_says_that_authority_is_not_saved_until_it_is(
    base: Path, tmp_path: Path, guard: tuple[str, str]
) -> None:
    plant(base, guard, "one", "two", "three")
    runs = tmp_path / "journals"
    arguments = (*guard, "--journal-dir", str(runs), *MONDAY)
    with full_when_told(runs):
        with launched(base, *arguments) as sidecar:
            assert UNSAVED not in sidecar.call("memory_read", {"key": "one"})["_meta"]
            filler = fill(runs)
            page = 4096 - (runs / "tester" / "monday.jsonl").stat().st_size % 4096
            told = None
            for number in range(page // 100 + 2):  # what is left of the journal's last page still takes records
                answer = sidecar.call("memory_write", {"key": f"key{number}", "description": "d", "content": "c"})
                assert answer["structuredContent"]["written"]
                told = answer["_meta"].get(UNSAVED)
                if told:
                    break
            assert told == "No space left on device"
            assert sidecar.call("memory_read", {"key": "two"})["_meta"][UNSAVED]
            assert sidecar.write("two", "new", overwrite=True)["written"]  # the authority holds in memory
            opened = sidecar.ask(OPEN, {"run": "tuesday"})
            assert opened["result"]["_meta"][UNSAVED]
            filler.unlink()
            # It recovers by itself, with everything that waited.
            assert UNSAVED not in sidecar.call("memory_read", {"key": "three"})["_meta"]
            assert UNSAVED not in sidecar.call("memory_list", run="tuesday")["_meta"]
            sidecar.kill()
        with launched(base, *arguments) as sidecar:
            assert {"one", "two", "three"} <= set(sidecar.suspend("monday")["scope"]["keys"])
            assert sidecar.states()["tuesday"] == "interrupted"


def test_a_run_that_ends_on_a_full_disk_hands_its_scope_to_the_harness(
    base: Path, tmp_path: Path, guard: tuple[str, str]
) -> None:
    plant(base, guard, "plan")
    runs = tmp_path / "journals"
    with full_when_told(runs), launched(base, *guard, "--journal-dir", str(runs)) as sidecar:
        fill(runs)
        assert sidecar.open("monday")["_meta"][UNSAVED]
        sidecar.read("plan", "monday")
        ended = sidecar.suspend("monday")
        assert ended["_meta"][UNSAVED]
        (runs / "filler").unlink()
        assert sidecar.open("monday", scope=ended["scope"])["resumed"] is True
        assert sidecar.write("plan", "new", "monday", overwrite=True)["written"]
        assert sidecar.leave() == 0


def test_a_limit_on_file_sizes_is_a_full_disk_too(base: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))

    with launched(base, *MONDAY, preexec_fn=limit) as sidecar:
        answers = [
            sidecar.call("memory_write", {"key": f"key{number}", "description": "d", "content": "c"})
            for number in range(20)
        ]
        assert all(answer["structuredContent"]["written"] for answer in answers)
        assert UNSAVED not in answers[0]["_meta"]
        assert answers[-1]["_meta"][UNSAVED] == "File too large"
        assert sidecar.leave() == 0
    with launched(base, *MONDAY) as sidecar:  # what could be saved replays, whole
        keys = sidecar.suspend("monday")["scope"]["keys"]
        assert keys
        assert set(keys) < {f"key{number}" for number in range(20)}


@pytest.mark.parametrize("named", [True, False])
def test_a_journal_deleted_under_its_run_is_made_again(base: Path, guard: tuple[str, str], *, named: bool) -> None:
    plant(base, guard, "one", "two")
    shutil.rmtree(base / "runs")
    with launched(base, *guard, *(MONDAY if named else ())) as sidecar:
        sidecar.read("one")
        (journal,) = (base / "runs" / "tester").iterdir()
        journal.unlink()
        assert UNSAVED not in sidecar.call("memory_read", {"key": "two"})["_meta"]
        assert journal.stat().st_mode & 0o777 == 0o600
        sidecar.kill()
    with launched(base, *guard) as sidecar:
        assert sorted(sidecar.open(journal.stem)["scope"]["keys"]) == ["one", "two"]


@pytest.mark.parametrize("lockdown", ["auto", "off"])
def test_a_journal_directory_deleted_under_a_run_costs_no_memory(base: Path, lockdown: str) -> None:
    with launched(base, "--lockdown", lockdown, *MONDAY, umask=0) as sidecar:
        sidecar.write("one", "x")
        shutil.rmtree(base / "runs")
        # A locked process may have lost the right to make it again; then it says so, and memory works all the same.
        answer = sidecar.call("memory_write", {"key": "two", "description": "d", "content": "c"})
        assert answer["structuredContent"]["written"]
        saved = UNSAVED not in answer["_meta"]
        assert saved or lockdown == "auto"
        assert not saved or (base / "runs").stat().st_mode & 0o777 == 0o700
        sidecar.kill()
    with launched(base) as sidecar:
        assert sorted(sidecar.open("monday")["scope"]["keys"]) == (["one", "two"] if saved else [])


def test_where_no_journal_can_be_made_a_generated_run_works_unsaved(base: Path) -> None:
    with launched(base) as sidecar:
        (base / "runs" / "tester").rmdir()
        (base / "runs" / "tester").touch()
        answer = sidecar.call("memory_write", {"key": "plan", "description": "d", "content": "c"})
        assert answer["structuredContent"] == {"written": True, "key": "plan"}
        assert answer["_meta"][UNSAVED]
        assert "/" not in answer["_meta"][UNSAVED]
        # A run that is named may have a journal to resume, so this is for its harness to know.
        with pytest.raises(RefusedError, match="journal"):
            sidecar.open("monday")
        assert sidecar.leave() == 0


def test_a_journal_that_grows_is_still_read_by_the_next_process(base: Path, guard: tuple[str, str]) -> None:
    with launched(base, *guard, *MONDAY) as sidecar:
        messages = [
            sidecar.tool("memory_write", {"key": f"key{number}", "description": "d", "content": "c"})
            for number in range(150)
        ]
        sidecar.send(*messages)
        for message in messages:
            sidecar.answer(message)
        sidecar.kill()
    with launched(base, *guard, *MONDAY) as sidecar:
        assert len(sidecar.suspend("monday")["scope"]["keys"]) == 150
        assert until(lambda: sidecar.states()["monday"] == "suspended")


def test_two_sidecars_that_race_for_a_run_never_both_get_it(base: Path) -> None:
    with contextlib.ExitStack() as stack:
        racers = [stack.enter_context(launched(base)) for _ in range(4)]
        for number in range(10):
            messages = [racer.message(OPEN, {"run": f"run{number}"}) for racer in racers]
            for racer, message in zip(racers, messages, strict=True):
                racer.send(message)
            answers = [racer.answer(message) for racer, message in zip(racers, messages, strict=True)]
            assert sorted("result" in answer for answer in answers) == [False, False, False, True]
            for answer in answers:
                assert "result" in answer or "another process" in answer["error"]["message"]


def test_records_are_those_of_the_published_schema(base: Path, guard: tuple[str, str]) -> None:
    from jsonschema import Draft202012Validator

    from memory_sidecar.run import records as module

    schema = json.loads((Path(module.__file__).parent / "journal.schema.json").read_text())
    with launched(base, *guard, *MONDAY) as sidecar:
        sidecar.write("plan", "x")
        sidecar.read("nothing")
        sidecar.write("nothing", "x", overwrite=True)
        sidecar.call("memory_delete", {"key": "plan"})
        sidecar.leave()
    with launched(base, *guard) as sidecar:
        sidecar.open("monday")
        sidecar.finish("monday", "error", message="why")
    found = records(base, "monday")
    assert {record["type"] for record in found} == {"meta", "scope_change", "terminal", "scope", "resumed"}
    for record in found:
        del record["sum"]
        Draft202012Validator(schema).validate(record)

"""Whose run it is: a run id is a name within its identity, and authority never passes from one to another."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.end_to_end.test_handshake import assert_cannot_start
from tests.support.sidecar import LIST, RefusedError, Sidecar, environment, guarded, launched

from memory_sidecar.assemble import Arguments, prepare
from memory_sidecar.exits import StartError

MAIN = ("--run", "main")


@pytest.fixture
def guard(tmp_path: Path) -> tuple[str, ...]:
    return guarded(tmp_path)


def test_two_identities_with_one_run_id_know_nothing_of_each_other(tmp_path: Path, guard: tuple[str, ...]) -> None:
    base = tmp_path / "state"
    with launched(base, *guard, *MAIN, identity="a") as first, launched(base, *guard, *MAIN, identity="b") as second:
        first.write("plan", "a's")
        second.write("plan", "b's")
        assert first.states() == {"main": "open"}
        second.suspend("main")
        assert first.states() == {"main": "open"}
        first.kill()
        second.leave()
    for identity, text in (("a", "a's"), ("b", "b's")):
        with launched(base, *guard, *MAIN, identity=identity) as sidecar:
            assert sidecar.call("memory_read", {"key": "plan"})["structuredContent"]["content"] == text
            assert sidecar.write("plan", "newer", overwrite=True)["written"], "its authority is lost"


def test_a_copied_journal_gives_nobody_authority(tmp_path: Path, guard: tuple[str, ...]) -> None:
    base = tmp_path / "state"
    with launched(base, *guard) as sidecar:
        sidecar.open("mon")
        sidecar.write("plan", "x", run="mon")
        sidecar.suspend("mon")
        journal = base / "runs" / "tester" / "mon.jsonl"
        shutil.copy(journal, journal.with_name("tue.jsonl"))
        before = journal.read_bytes()
        with pytest.raises(RefusedError, match=r"tue\.jsonl is not this run's.*run mon of identity tester"):
            sidecar.open("tue")
        assert sidecar.states() == {"mon": "suspended", "tue": "damaged"}
        assert journal.with_name("tue.jsonl").read_bytes() == before
        (base / "runs" / "other").mkdir()
        shutil.move(journal.with_name("tue.jsonl"), base / "runs" / "other" / "mon.jsonl")
    with launched(base, *guard, identity="other") as sidecar:
        with pytest.raises(RefusedError, match="of identity tester"):
            sidecar.open("mon")
        assert sidecar.request(LIST)["runs"] == []


@pytest.mark.parametrize("lockdown", ["auto", "off"])
def test_a_run_of_an_older_version_goes_on(tmp_path: Path, guard: tuple[str, ...], lockdown: str) -> None:
    base = tmp_path / "state"
    with launched(base, *guard, *MAIN) as sidecar:
        sidecar.write("plan", "x")
        sidecar.leave()
    shutil.move(base / "runs" / "tester" / "main.jsonl", base / "runs" / "main.jsonl")
    (base / "runs" / "tester").rmdir()
    (base / "runs" / "theirs.jsonl").write_text("no journal")
    with launched(base, *guard, "--lockdown", lockdown) as sidecar:
        assert sidecar.open("main")["resumed"] is True
        assert sidecar.write("plan", "newer", run="main", overwrite=True)["written"]
        assert [run["run"] for run in sidecar.request(LIST)["runs"]] == ["main"]
    assert sorted(path.name for path in (base / "runs").iterdir()) == ["tester", "theirs.jsonl"]


def test_a_file_of_another_program_under_a_runs_name_is_left(tmp_path: Path) -> None:
    base = tmp_path / "state"
    with launched(base) as sidecar:
        for text in ("somebody's text", "somebody's text\n"):
            (base / "runs" / "tester" / "main.jsonl").write_text(text)
            with pytest.raises(RefusedError, match=r"main\.jsonl is no journal of this program"):
                sidecar.open("main")
            assert (base / "runs" / "tester" / "main.jsonl").read_text() == text


# --- an identity that nobody named -------------------------------------------------------------------------------


HARNESS = """
import sys
import anyio
from memory_sidecar.harness import MemorySidecar, StartError

async def main():
    async with MemorySidecar.launch(store_dir=sys.argv[-1]) as memory, memory.run("main") as run:
        await run.call("memory_write", {"key": "plan", "description": "d", "content": "c"})

try:
    anyio.run(main)
except StartError as error:
    sys.exit(str(error))
"""


def launch(words: list[str], script: Path, base: Path) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, *words, str(base)]
    return subprocess.run(whole, cwd=script.parent, capture_output=True, text=True, check=False)


def test_the_base_name_of_a_script_is_taken_as_it_stands(tmp_path: Path) -> None:
    for name in ("agent-1.2", "agent-1.3"):
        script = tmp_path / f"{name}.py"
        script.write_text(HARNESS)
        done = launch([str(script)], script, tmp_path / "state")
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / "state" / "memory" / name / "plan.md").exists()
        assert (tmp_path / "state" / "runs" / name / "main.jsonl").exists()


ASKS = """
import sys
from memory_sidecar.harness import sync

with sync.MemorySidecar.launch() as memory, memory.run("main") as run:
    found = (run.call("memory_read", {"key": "plan"}).structured or {})["found"]
    run.call("memory_write", {"key": "plan", "description": "d", "content": sys.argv[0]})
    print(run.resumed, found, [one["run"] for one in memory.runs()])
"""


def test_applications_without_options_do_not_meet_in_the_state_directory(tmp_path: Path) -> None:
    """Neither run resumes the other's, and neither is listed to the other: not even where they share a folder."""
    env = environment(XDG_STATE_HOME=str(tmp_path / "state"))
    for name in ("one", "two", "one"):
        script = tmp_path / f"{name}.py"
        again = script.exists()
        script.write_text(ASKS)
        done = subprocess.run(
            [sys.executable, str(script)], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )
        assert (done.stdout, done.stderr) == (f"{again} {again} ['main']\n", "")
    journals = tmp_path / "state" / "memory-sidecar" / "runs"
    assert sorted(str(path.relative_to(journals)) for path in journals.rglob("*.jsonl")) == [
        "one/main.jsonl",
        "two/main.jsonl",
    ]


@pytest.mark.parametrize("how", ["-X dev", "-m", "-c", "uvicorn", "a name that no identity can have"])
def test_a_name_that_is_not_certain_is_refused_with_the_option(tmp_path: Path, how: str) -> None:
    script = tmp_path / {"uvicorn": "uvicorn.py", "-X dev": "agent.py", "-m": "agent.py"}.get(how, "my agent.py")
    script.write_text(HARNESS)
    words = {"-X dev": ["-X", "dev", str(script)], "-m": ["-m", "agent"], "-c": ["-c", HARNESS]}.get(how, [str(script)])
    done = launch(words, script, tmp_path / "state")
    assert done.returncode == 1
    assert "set --identity, or identity in --config" in done.stderr or "name another with --identity" in done.stderr
    assert not (tmp_path / "state").exists()


def test_what_the_harness_does_not_know_the_sidecar_does_not_guess(tmp_path: Path) -> None:
    with Sidecar(tmp_path, identity="") as sidecar:  # its parent runs tests
        assert_cannot_start(sidecar, "there is no identity", "set --identity, or identity in --config")
    assert not (tmp_path / "runs").exists()


def test_on_a_bucket_an_identity_or_a_prefix_must_be_named(tmp_path: Path) -> None:
    config = tmp_path / "memory.yaml"
    config.write_text("harness: {memory: {enabled: true, backend: jetstream, options: {bucket: b}}}\n")
    with pytest.raises(StartError, match=r"must be.*; set --identity or identity in --config, or .*prefix"):
        prepare(Arguments(config=str(config), default_identity="agent", store_dir=str(tmp_path)))
    config.write_text("harness: {memory: {enabled: true, backend: jetstream, options: {bucket: b, prefix: p}}}\n")
    assert prepare(Arguments(config=str(config), default_identity="agent", store_dir=str(tmp_path))).identity == "agent"

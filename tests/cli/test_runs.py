"""`runs`: what journals tell, which of them may go, and who saw a note."""

import errno
import json
import os
import re
import shutil
import socket
import stat
import time
from pathlib import Path

import anyio
import pytest
from tests.run.test_retention import made
from tests.support.sidecar import launched

from memory_sidecar.backend.file import FileOptions, open_file
from memory_sidecar.cli.runs import runs
from memory_sidecar.harness import Run as OpenRun
from memory_sidecar.harness import StartError
from memory_sidecar.run import records
from memory_sidecar.run import saw as ledger
from memory_sidecar.run.compact import compacted
from memory_sidecar.run.journal import Journal
from memory_sidecar.run.ledger import journals
from memory_sidecar.run.read import read_journal
from memory_sidecar.run.runs import RunState, remove_run
from memory_sidecar.run.saw import Answer, Sought, Where
from memory_sidecar.run.session import Run, Setting
from memory_sidecar.store.scope import Change
from memory_sidecar.system import files
from memory_sidecar.tools.catalog import Catalog

from .conftest import Cli, Done, Place

NOTE = {"key": "plan", "description": "The plan", "content": "x"}


def saw(cli: Cli, place: Place, what: str, *more: str) -> list[tuple[str, str]]:
    found = json.loads(cli("runs", "--saw", what, "--json", *place.options, *more).out)["seen"]
    return [(one["run"], one["what"]) for one in found]


def names(place: Place) -> set[str]:
    return {path.stem for path in place.runs.iterdir()}


def test_list(cli: Cli, place: Place) -> None:
    place.path.mkdir()
    assert cli("runs", *place.options)[:2] == (0, "")
    place.write("a", run="first")
    place.calls("second", ("memory_read", {"key": "a"}), finish=True)
    rows = [line.split() for line in cli("runs", *place.options).out.splitlines()]
    assert rows[0][:3] == ["RUN", "STATE", "IDENTITY"]
    assert [(row[0], row[1], row[2], row[-1]) for row in rows[1:]] == [
        ("first", "suspended", "bot", "1"),
        ("second", "completed", "bot", "1"),
    ]
    runs = json.loads(cli("runs", "--json", *place.options).out)["runs"]
    assert [run["state"] for run in runs] == ["suspended", "completed"]
    assert cli("runs", "--store-dir", place.path, "--identity", "somebody").out == ""


def test_that_a_configuration_leaves_out_runs_is_told(cli: Cli, place: Place, tmp_path: Path) -> None:
    place.write("a")
    config = tmp_path / "c.yaml"
    for identity, said in ((place.identity, ""), ("other", "note: only the runs of other, whom --config names")):
        config.write_text(f"identity: {identity}\nharness: {{memory: {{enabled: true}}}}\n")
        for words in (("runs",), ("runs", "export"), ("runs", "prune", "--older-than", "1d", "--dry-run")):
            done = cli(*words, "--config", config, "--store-dir", place.path)
            assert (done.status, done.err.partition(",")[0] in said, bool(done.err)) == (0, True, bool(said)), words
    assert cli("runs", *place.options).err == cli("runs", "--store-dir", place.path).err == ""


def test_show_tells_what_a_run_did(cli: Cli, place: Place) -> None:
    place.write("plan")
    place.calls(
        "second",
        ("memory_read", {"key": "plan"}),
        ("memory_write", {**NOTE, "overwrite": True}),
        ("memory_delete", {"key": "plan"}),
        finish=True,
    )
    out = cli("runs", "show", "second", *place.options).out
    what = [line.split()[2] for line in out.partition("TIME (UTC)")[2].splitlines()[1:]]
    assert what == ["started", "listed", "read", "updated", "deleted", "completed"]
    shown = json.loads(cli("runs", "show", "second", "--json", *place.options).out)
    assert [record["type"] for record in shown["records"]][:3] == ["meta", "listed", "scope_change"]
    assert cli("runs", "show", "nope", *place.options).err.startswith("memory-sidecar runs: there is no run nope")
    assert cli("runs", "show", "../x", *place.options).status == 64


def test_options_may_stand_before_or_after_the_action(cli: Cli, place: Place) -> None:
    place.write("a")
    assert cli("runs", *place.options, "show", "monday").out == cli("runs", "show", "monday", *place.options).out
    assert cli("runs", "--json", *place.options, "show", "monday").out.startswith("{")


def test_saw_answers_who_met_a_note_at_which_revision(cli: Cli, place: Place) -> None:
    place.write("plan", run="writer")
    first = json.loads(cli("show", "plan", "--json", *place.options).out)["revision"]
    place.calls("reader", ("memory_read", {"key": "plan"}))
    place.calls("lister", ("memory_list", {}))
    place.calls("editor", ("memory_write", {**NOTE, "overwrite": True}))
    second = json.loads(cli("show", "plan", "--json", *place.options).out)["revision"]
    place.calls("late", ("memory_read", {"key": "plan"}), ("memory_delete", {"key": "plan"}))
    everyone = [("writer", "created"), ("reader", "read"), ("editor", "updated"), ("late", "read"), ("late", "deleted")]
    assert saw(cli, place, "plan") == everyone
    assert saw(cli, place, f"plan@{first}") == everyone[:2]
    assert saw(cli, place, f"plan@{second[:12]}") == everyone[2:]
    assert saw(cli, place, "other") == []
    # Memories are shared: whose run it was decides nothing.
    (place.path / "runs" / "somebody").mkdir()
    told = cli("runs", "--saw", "plan", "--json", "--identity", "somebody", "--store-dir", place.path)
    assert [one["run"] for one in json.loads(told.out)["seen"]] == [run for run, _ in saw(cli, place, "plan")]
    missing = cli("runs", "--saw", "plan", "--store-dir", place.path / "misspelt")
    assert missing.status == 78
    assert "there is no journal directory" in missing.err
    assert "No run met this very note" in cli("runs", "--saw", "other", *place.options).out
    assert "it takes KEY or KEY@REV" in cli("runs", "--saw", "../x", *place.options).err


def test_a_refusal_and_a_scope_handed_in_are_seen(cli: Cli, place: Place, tmp_path: Path) -> None:
    import anyio

    from memory_sidecar.harness import MemorySidecar

    config = tmp_path / "guarded.yaml"
    config.write_text(
        "identity: bot\nharness:\n  memory:\n    enabled: true\n    options: {require_read_before_update: true}\n"
    )

    async def main() -> None:
        async with MemorySidecar.launch(config=config, store_dir=place.path) as memory:
            async with memory.run("writer") as run:
                await run.call("memory_write", NOTE)
                scope = await run.suspend()
            async with memory.run("refused") as run:
                await run.call("memory_write", {**NOTE, "overwrite": True})
            async with memory.run("handed", scope=scope):
                pass

    anyio.run(main)
    assert saw(cli, place, "plan") == [("writer", "created"), ("refused", "refused"), ("handed", "held")]


def test_a_journal_that_does_not_keep_all_is_told(cli: Cli, place: Place) -> None:
    place.write("plan", run="long")
    path = place.runs / "long.jsonl"
    found, _ = read_journal(str(path))
    assert found is not None
    change = records.scope_change(Change("plan", "1", "updated"))
    path.write_bytes(compacted(found._replace(keys={}, records=[*found.records, change]), most=1))
    assert json.loads(path.read_bytes().splitlines()[0])["forgotten"]
    # The run is known to have met the note, so no other is missing in the answer.
    assert cli("runs", "--saw", "plan", *place.options).status == 0
    done = cli("runs", "--saw", "plan@2", *place.options)
    assert done.status == 1
    assert "run long of bot: its journal does not keep all that was before" in done.err
    assert json.loads(cli("runs", "--saw", "plan@2", "--json", *place.options).out)["complete"] is False
    assert "not whole" in cli("runs", "show", "long", *place.options).out


def test_damage_is_told_beside_every_answer(cli: Cli, place: Place) -> None:
    place.write("plan", run="good")
    place.write("other", run="bad")
    journal = place.runs / "bad.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b'"other"', b'"plan" ', 1))
    for words in (("runs",), ("runs", "--saw", "plan"), ("runs", "--saw", "plan", "--json")):
        done = cli(*words, *place.options)
        assert done.status == 1
        assert "good" in done.out
        if "--json" not in words:
            assert "run bad of bot: its journal is damaged, line 3: its checksum does not match" in done.err
            assert f"rm {journal}" in done.err
    assert "; it mentions this key" in cli("runs", "--saw", "plan", *place.options).err
    assert json.loads(cli("runs", "--saw", "plan", "--json", *place.options).out)["complete"] is False
    done = cli("runs", "show", "bad", *place.options)
    assert (done.status, "line 3" in done.err) == (1, True)


def test_prune_by_state_and_age(cli: Cli, place: Place) -> None:
    place.calls("done", ("memory_list", {}), finish=True)
    place.write("a", run="paused")
    assert cli("runs", "prune", *place.options).status == 64
    assert cli("runs", "prune", "--older-than", "30d", *place.options).out == "nothing to remove\n"
    dry = cli("runs", "prune", "--state", "completed", "--dry-run", *place.options)
    assert dry.out.splitlines()[1].split()[:2] == ["done", "completed"]
    assert names(place) == {"done", "paused"}
    assert cli("runs", "prune", "--state", "completed", *place.options).status == 0
    assert names(place) == {"paused"}
    # What may still be resumed goes only when it is named, and the operator is told that it stays.
    kept = cli("runs", "prune", "--older-than", "0m", *place.options)
    assert (kept.status, kept.out) == (0, "nothing to remove\n")
    assert kept.err == "1 run as old may still be resumed and stay; to remove them too, --state suspended\n"
    named = cli("runs", "prune", "--older-than", "0m", "--state", "suspended", "--json", *place.options)
    assert json.loads(named.out)["removed"][0]["run"] == "paused"
    assert names(place) == set()
    assert "an age is a number and m, h, d or w" in cli("runs", "prune", "--older-than", "soon", *place.options).err


def test_a_start_removes_old_runs_where_the_operator_said_so(place: Place) -> None:
    place.calls("kept", ("memory_list", {}))
    old = made(place.runs, "old", 31, "completed", identity="bot")
    waiting = made(place.runs, "waiting", 31, "suspended", identity="bot")

    async def work(_run: OpenRun) -> None:
        while old.exists():  # the test's own time is the limit
            await anyio.sleep(0.01)

    place.within("kept", work, keep_runs="30d", lockdown="require")
    assert waiting.exists()
    assert names(place) == {"kept", "waiting"}


def test_an_age_that_is_none_is_a_start_error(place: Place, tmp_path: Path) -> None:
    config = tmp_path / "c.yaml"
    config.write_text("harness: {memory: {enabled: true, keep_runs: soon}}")
    for given in ({"keep_runs": "30"}, {"config": config}):
        with pytest.raises(StartError, match="is not an age; write a number and m, h, d or w, as in"):
            place.calls("r", ("memory_list", {}), **given)


def test_prune_never_takes_an_open_run(cli: Cli, place: Place) -> None:
    found: list[Done] = []

    async def work(run: OpenRun) -> None:
        await run.call("memory_write", NOTE)
        found.append(cli("runs", "prune", "--older-than", "0m", *place.options))

    place.within("living", work)
    assert found[0].out == "nothing to remove\n"
    assert names(place) == {"living"}


def test_a_run_that_is_resumed_while_it_is_judged_stays(place: Place) -> None:
    place.write("a", run="paused")

    def resumed_meanwhile(state: RunState) -> bool:
        # The lock is held while this is asked, so nobody can open the run between looking and removing.
        assert read_journal(str(place.runs / "paused.jsonl"))[1]
        return state.state == "suspended"

    assert remove_run(str(place.runs), "paused", "bot", resumed_meanwhile) is not None
    assert names(place) == set()


def test_prune_leaves_damage_unless_it_is_named(cli: Cli, place: Place) -> None:
    place.write("a", run="bad")
    journal = place.runs / "bad.jsonl"
    journal.write_bytes(b'{"seq":1,"type":"meta"}\n')
    year = time.time() - 365 * 86400
    os.utime(journal, (year, year))
    assert cli("runs", "prune", "--older-than", "30d", *place.options).out == "nothing to remove\n"
    assert cli("runs", "prune", "--older-than", "30d", "--state", "damaged", *place.options).status == 0
    assert names(place) == set()


def test_what_is_not_a_journal_is_left_alone(cli: Cli, place: Place) -> None:
    place.write("a")
    (place.runs / "notes.txt").write_text("mine")
    (place.runs / "link.jsonl").symlink_to(place.runs / "notes.txt")
    (place.runs / ".hidden.jsonl").write_text("mine")
    done = cli("runs", *place.options)
    assert (done.status, "run link of bot: its journal is a symbolic link, not a file" in done.err) == (1, True)
    cli("runs", "prune", "--older-than", "0m", "--state", "damaged", "--state", "suspended", *place.options)
    assert names(place) == {"notes", "link", ".hidden"}


def spoil(runs: Path, newer: bytes) -> dict[str, str]:
    """Journals that cannot be used, one of each kind: what is said of each, by its run."""
    (runs / "torn.jsonl").write_bytes(newer[:20])
    (runs / "none.jsonl").touch()
    (runs / "zeros.jsonl").write_bytes(bytes(4096))
    (runs / "rubbish.jsonl").write_bytes(b'{"seq":1,"type":"meta"}\n')
    (runs / "foreign.jsonl").write_bytes(b"{}\n")
    (runs / "unended.jsonl").write_bytes(b"somebody's text")
    (runs / "copy.jsonl").write_bytes((runs / "good.jsonl").read_bytes())
    (runs / "newer.jsonl").write_bytes(newer)
    (runs / "directory.jsonl").mkdir()
    (runs / "link.jsonl").symlink_to("good.jsonl")
    os.mkfifo(runs / "fifo.jsonl")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(runs / "socket.jsonl"))
    return {
        "torn": "holds no whole record",
        "none": "holds no whole record",
        "zeros": "holds no whole record",
        "rubbish": "is damaged, line 1",
        "foreign": "is no journal of this program",
        "unended": "is no journal of this program",
        "copy": "is not this run's, line 1: it is the journal of run good of identity bot",
        "newer": "was written by a newer version",
        "directory": "is a directory, not a file",
        "link": "is a symbolic link, not a file",
        "fifo": "is a FIFO, not a file",
        "socket": "is a socket, not a file",
    }


def test_every_journal_that_cannot_be_used_is_named_and_hides_no_other(cli: Cli, place: Place) -> None:
    place.write("plan", run="good")
    meta = records.meta(run="newer", identity="bot", tools=[], store="s")
    bad = spoil(place.runs, records.encode({**meta, "version": records.VERSION + 1}, 1))
    for words in (("runs",), ("runs", "--saw", "plan"), ("doctor",)):
        done = cli(*words, *place.options)
        assert done.status == 1, words
        told = done.err if words[0] == "runs" else done.out
        for run, problem in bad.items():
            assert re.search(rf"{run}( of bot: its journal)? {problem}", told), (words, run)
        mends = r"^ +(?:-> )?(.*(?:move .* away|remove this one: rm |with that version).*)$"
        remedies = re.findall(mends, told, re.MULTILINE)
        assert len(remedies) == len(bad), words
    assert "good" in cli("runs", "--saw", "plan", *place.options).out
    listed = json.loads(cli("runs", "--json", *place.options).out)["runs"]
    assert {run["run"] for run in listed} == {"good", *bad}
    answer = json.loads(cli("runs", "--saw", "plan", "--json", *place.options).out)
    assert (answer["complete"], {one["run"] for one in answer["left_out"]}) == (False, set(bad))
    assert cli("runs", "show", "good", *place.options).status == 0
    assert "holds no whole record" in cli("runs", "show", "torn", *place.options).err


def test_prune_takes_what_is_named_and_a_sound_newer_journal_is_not_called_damaged(cli: Cli, place: Place) -> None:
    place.write("plan", run="good")
    meta = records.meta(run="newer", identity="bot", tools=[], store="s")
    spoil(place.runs, records.encode({**meta, "version": records.VERSION + 1}, 1))
    removed = json.loads(cli("runs", "prune", "--state", "damaged", "--json", *prune_all(place)).out)["removed"]
    assert [one["run"] for one in removed] == ["rubbish"]
    removed = json.loads(cli("runs", "prune", "--state", "empty", "--json", *prune_all(place)).out)["removed"]
    assert [one["run"] for one in removed] == ["none", "torn", "zeros"]
    removed = json.loads(cli("runs", "prune", "--state", "misplaced", "--json", *prune_all(place)).out)["removed"]
    assert [one["run"] for one in removed] == ["copy"]
    kept = {"good", "newer", "directory", "link", "fifo", "socket", "foreign", "unended"}
    assert names(place) == kept
    every = [word for state in runs._STATES for word in ("--state", state)]
    cli("runs", "prune", "--older-than", "0m", *every, *prune_all(place))
    assert names(place) == kept - {"good", "newer"}
    assert (place.runs / "unended.jsonl").read_bytes() == b"somebody's text"


def prune_all(place: Place) -> tuple[str, ...]:
    return ("--store-dir", str(place.path))


def test_a_run_whose_journal_is_removed_as_it_begins_makes_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Journal(
        str(tmp_path),
        "r",
        meta=lambda: records.meta(run="r", identity="i", tools=[], store="s"),
        snapshot=lambda: records.snapshot({}),
    )
    real = files.create_exclusively
    pruned = []

    def pruned_at_once(name: str, directory: int | None) -> int:
        descriptor = real(name, directory)
        if not pruned:
            pruned.append(remove_run(str(tmp_path), "r", "i", lambda state: state.state == "empty"))
        return descriptor

    monkeypatch.setattr(files, "create_exclusively", pruned_at_once)
    made.start([])
    assert pruned != [None]
    assert made.unsaved is None
    made.close()
    assert read_journal(str(tmp_path / "r.jsonl"))[0] is not None


# --- who was shown a description ---------------------------------------------------------------------------------


def test_saw_tells_whom_a_refusal_showed_the_description(cli: Cli, place: Place) -> None:
    place.write("plan", run="writer")
    revision = json.loads(cli("show", "plan", "--json", *place.options).out)["revision"]
    place.calls("refused", ("memory_write", NOTE))
    for sought in ("plan", f"plan@{revision}"):
        assert saw(cli, place, sought) == [("writer", "created"), ("refused", "shown")]
    assert saw(cli, place, "plan@" + "0" * 32) == []
    assert "shown" in cli("runs", "show", "refused", *place.options).out


def test_saw_tells_who_was_shown_all_descriptions(cli: Cli, place: Place, other: Place, tmp_path: Path) -> None:
    runs = ("--journal-dir", str(place.journals))
    (tmp_path / "silent.yaml").write_text("identity: bot\nharness: {memory: {enabled: true, no_index: true}}\n")
    place.calls("before")  # there was nothing to show
    place.write("plan", run="writer")
    place.calls("indexed")
    place.calls("lister", ("memory_list", {}), ("memory_list", {}), config=tmp_path / "silent.yaml")
    place.calls("silent", ("memory_read", {"key": "other"}), config=tmp_path / "silent.yaml")
    other.calls("elsewhere", ("memory_write", NOTE), ("memory_list", {}), journal_dir=place.journals)
    told = json.loads(cli("runs", "--saw", "plan", "--json", "--store-dir", place.path).out)["listed"]
    assert {one["run"]: one["times"] for one in told} == {"indexed": 1, "lister": 2, "elsewhere": 1}
    told = json.loads(cli("runs", "--saw", "plan", "--json", *place.options).out)["listed"]
    assert [one["run"] for one in told] == ["indexed", "lister"]
    for table in cli("runs", "--saw", "plan", *other.options, *runs).out.split("Shown all descriptions"):
        assert "elsewhere" in table
        assert "indexed" not in table
        assert "writer" not in table
    told = json.loads(cli("quarantine", "plan", "--json", *place.options).out)["listed"]
    assert [one["run"] for one in told] == ["indexed", "lister"]


def test_no_journal_at_all_is_no_answer(cli: Cli, tmp_path: Path) -> None:
    found = cli("runs", "--saw", "plan", "--json", "--journal-dir", tmp_path)
    told = json.loads(found.out)
    assert (found.status, told["journals"], told["seen"]) == (1, 0, [])
    assert "there is no journal to answer from; check --store-dir, --journal-dir and --identity" in found.err
    assert "0 journals tell" in cli("runs", "--saw", "plan", "--journal-dir", tmp_path).out


def test_a_default_run_tells_of_its_index_once_it_is_used(cli: Cli, place: Place) -> None:
    place.write("plan", run="writer")
    with launched(place.path, "--identity", "bot") as sidecar:
        assert names(place) == {"writer"}
        sidecar.read("plan")
    (told,) = json.loads(cli("runs", "--saw", "plan", "--json", *place.options).out)["listed"]
    assert told["run"].startswith("run-")


def test_saw_tells_what_a_run_removed_unread(cli: Cli, place: Place) -> None:
    place.write("plan", run="writer")
    revision = json.loads(cli("show", "plan", "--json", *place.options).out)["revision"]
    place.calls("remover", ("memory_delete", {"key": "plan"}), ("memory_delete", {"key": "plan"}))
    assert saw(cli, place, f"plan@{revision}") == [("writer", "created"), ("remover", "deleted")]
    assert revision[:12] in cli("runs", "show", "remover", *place.options).out


def test_an_unknown_outcome_is_no_refusal(cli: Cli, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open_file(FileOptions(), "bot", str(place.path))
    setting = Setting(
        opened.store, opened.fingerprint, Catalog(enabled=True, read_only=False), True, "bot", str(place.runs)
    )
    run = Run("astray", setting)
    run.open()
    run.begin()
    fsync = os.fsync

    def no_directory(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", no_directory)
    answer = run.call("memory_write", NOTE)
    monkeypatch.undo()
    run.end("suspended")
    assert answer.outcome.code == "outcome_unknown"
    assert saw(cli, place, "plan") == [("astray", "unknown")]
    stored = json.loads(cli("show", "plan", "--json", *place.options).out)["revision"]
    assert json.loads(cli("runs", "--saw", "plan", "--json", *place.options).out)["seen"][0]["revision"] == stored
    # Which revision may be stored is not always known, so it is an answer to a question about any.
    assert saw(cli, place, "plan@" + "0" * 32) == [("astray", "unknown")]


@pytest.mark.parametrize("kind", ["file", "missing"])
def test_a_journal_directory_that_is_none(cli: Cli, tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("")
    done = cli("runs", "--journal-dir", tmp_path / kind)
    assert done.status == 78
    assert ("is not a directory" if kind == "file" else "there is no directory") in done.err


@pytest.mark.parametrize(
    "revision",
    [
        "",
        "a",
        "zz",
        "abcdef0",
        "0123456789ABCDEF",
        "0" * 33,
        "7@",
        "0@x",
        "7@a b",
        "7@a@b",
        "7@" + "x" * 41,
        "@7",
        " 7",
    ],
)
def test_a_revision_that_no_note_can_have_is_wrong_usage(cli: Cli, place: Place, revision: str) -> None:
    place.write("plan")
    done = cli("runs", "--saw", f"plan@{revision}", *place.options)
    assert (done.status, done.out) == (64, "")
    assert "of a file 8 to 32 of 0-9 a-f, of a bucket NUMBER or NUMBER@MARK" in done.err


def test_a_number_stands_for_itself_under_every_mark(cli: Cli, place: Place) -> None:
    place.write("other", run="template")
    template, _ = read_journal(str(place.runs / "template.jsonl"))
    assert template is not None
    met = {"plain": "7", "marked": "7@2026-11-30T10:00:00.5+00:00", "again": "7@x_Z", "more": "77", "digest": "7" * 32}
    met["long"] = "8@" + "x" * 30  # as long as a digest, and none
    for run, revision in met.items():
        change = records.scope_change(Change("plan", revision, "read"))
        whole = template._replace(keys={}, records=[template.records[0] | {"run": run}, change])
        (place.runs / f"{run}.jsonl").write_bytes(compacted(whole))
    for sought, found in {
        "7": {"plain", "marked", "again"},
        "7@x_Z": {"again"},
        "7@x_": set(),
        "7@2026-11-30T10:00:00.5+00:00": {"marked"},
        "77": {"more"},
        "7" * 8: {"digest"},
        "8": {"long"},
    }.items():
        assert {run for run, _ in saw(cli, place, f"plan@{sought}")} == found, sought
    table = cli("runs", "--saw", "plan@8", *place.options).out
    assert met["long"] in table


# --- what an answer leaves out, and where it looks ---------------------------------------------------------------


def test_a_memory_that_was_made_again_elsewhere_is_told_as_left_out(cli: Cli, place: Place, other: Place) -> None:
    place.write("plan", run="writer")
    place.write("apart", run="stranger")
    other.write("plan", run="elsewhere")
    options = ("--identity", "bot", "--store-dir", str(other.path), "--journal-dir", str(place.journals))
    done = cli("runs", "--saw", "plan", *options, "--journal-dir", other.journals)
    assert done.status == 1
    assert "run writer of bot: its journal is of another store, or of this one before it was moved" in done.err
    assert "run stranger of bot: its journal is of another store" in done.err
    assert "incomplete: 2 journals may tell of plan" in done.err
    assert "elsewhere" in done.out
    answer = json.loads(cli("runs", "--saw", "plan", "--json", *options, "--journal-dir", other.journals).out)
    told = [(one["run"], one["mentions"]) for one in answer["left_out"]]
    assert (told, answer["other_stores"]) == ([("stranger", False), ("writer", True)], 0)
    assert (answer["complete"], answer["journal_dirs"]) == (False, [str(place.journals), str(other.journals)])


def test_several_journal_directories_are_one_question(cli: Cli, place: Place, other: Place) -> None:
    place.write("plan", run="here")
    other.write("plan", run="there")
    both = ("--journal-dir", str(place.journals), "--journal-dir", str(other.journals))
    answer = json.loads(cli("runs", "--saw", "plan", "--json", *both).out)
    assert ({one["run"] for one in answer["seen"]}, answer["complete"]) == ({"here", "there"}, True)
    assert [line.split()[0] for line in cli("runs", *both).out.splitlines()[1:]] == ["here", "there"]
    assert "run" in cli("runs", "show", "there", *both).out


def moved_to(host: str, path: Path) -> None:
    """Rewrite a journal as if the run had begun on another machine, and gone on here if it was resumed."""
    first, rest = path.read_bytes().split(b"\n", 1)
    record = records.decode(first) | {"host": host}
    path.write_bytes(records.encode({name: value for name, value in record.items() if name != "seq"}, 1) + rest)


def test_journals_of_several_hosts_are_told_apart(cli: Cli, place: Place, other: Place) -> None:
    here = os.uname().nodename
    place.write("plan", run="writer")
    assert "HOST" not in cli("runs", "--saw", "plan", *place.options).out, "there is nothing to tell apart"
    other.write("plan", run="writer")
    moved_to("host-b", other.runs / "writer.jsonl")
    other.calls("writer", ("memory_read", {"key": "plan"}), ("memory_list", {}), ("memory_delete", {"key": "plan"}))
    both = ("--journal-dir", str(place.journals), "--journal-dir", str(other.journals))
    answer = json.loads(cli("runs", "--saw", "plan", "--json", *both).out)
    assert answer["complete"]
    assert [(one["what"], one["host"]) for one in answer["seen"]] == [
        ("created", here),
        ("created", "host-b"),
        ("deleted", here),
    ]
    assert sorted(one["hosts"] for one in answer["listed"]) == [["host-b", here]]
    assert {one["host"]: one["journals"] for one in answer["hosts"]} == {here: 2, "host-b": 1}
    done = cli("runs", "--saw", "plan", *both)
    assert "host-b" in done.out.splitlines()[2]
    assert "of another one than this: " in done.err
    assert f"2 of {here}" in done.err
    assert "1 of host-b" in done.err
    assert f"hosts      host-b, {here}" in cli("runs", "show", "writer", *other.options).out
    exported = map(json.loads, cli("runs", "export", *other.options).out.splitlines())
    assert [record["host"] for record in exported if "host" in record] == ["host-b", here]


def test_another_identitys_memory_beside_this_one_is_no_gap(cli: Cli, place: Place, tmp_path: Path) -> None:
    """Where it is known that it is another memory; whatever else could hide the note leaves the answer open."""
    second = Place(place.path, "second")
    place.write("plan", run="main")
    second.write("plan", run="main")
    done = cli("runs", "--saw", "plan", *place.options)
    assert done.status == 0, done.err
    assert "not asked: 1 journal of other memories, of the agents second" in done.err
    answer = json.loads(cli("runs", "--saw", "plan", "--json", *place.options).out)
    assert (answer["complete"], answer["others"]) == (True, [{"identity": "second", "journals": 1}])
    quarantined = cli("quarantine", "plan", "--json", *place.options)
    assert (quarantined.status, json.loads(quarantined.out)["complete"]) == (0, True)
    # Made again, the other memory is one of which nobody knows what it was when that run met the note.
    (second.notes / ".memory-sidecar-id").unlink()
    (second.notes / "plan.md").unlink()
    second.write("more", run="later")
    done = cli("runs", "--saw", "plan", *place.options)
    assert done.status == 1
    assert "run main of second: its journal is of another store" in done.err
    # And one that was this memory, before that lost its id, is no other one, whatever it is called now.
    (place.notes / ".memory-sidecar-id").rename(tmp_path / "kept")
    place.write("more", run="after")
    assert "run main of bot: its journal is of another store" in cli("runs", "--saw", "plan", *place.options).err


def test_two_identities_in_one_directory_met_one_note(cli: Cli, place: Place, tmp_path: Path) -> None:
    place.write("plan", run="main")
    config = tmp_path / "second.yaml"
    options = {"directory": str(place.notes)}
    config.write_text(json.dumps({"harness": {"memory": {"enabled": True, "options": options}}}))
    Place(place.path, "second").calls("main", ("memory_read", {"key": "plan"}), config=config)
    answer = json.loads(cli("runs", "--saw", "plan", "--json", *place.options).out)
    assert [one["identity"] for one in answer["seen"]] == ["bot", "second"]
    assert answer["others"] == []


def test_a_memory_that_was_moved_or_linked_or_restored_still_tells_who_met_a_note(
    cli: Cli, place: Place, tmp_path: Path
) -> None:
    place.write("plan", "other", run="writer")
    shutil.copytree(place.path, tmp_path / "backup")
    place.path.rename(tmp_path / "moved")
    moved = Place(tmp_path / "moved")
    assert saw(cli, moved, "plan") == [("writer", "created")]
    place.path.symlink_to(tmp_path / "moved", target_is_directory=True)  # the old place leads there
    place.calls("reader", ("memory_read", {"key": "plan"}))
    shutil.rmtree(moved.notes)
    shutil.copytree(tmp_path / "backup" / "memory" / "bot", moved.notes)
    done = cli("quarantine", "plan", "--json", *moved.options)
    answer = json.loads(done.out)
    assert (done.status, answer["complete"]) == (0, True)
    assert [(one["run"], one["what"]) for one in answer["seen"]] == [("writer", "created"), ("reader", "read")]


def test_a_store_in_which_a_run_met_the_very_document_is_the_same_as_it_was_before(cli: Cli, place: Place) -> None:
    """All that its journals keep counts then, and what they did not keep is told."""
    place.write("plan", run="writer")
    place.write("other", run="long")
    revision = json.loads(cli("show", "plan", "--json", *place.options).out)["revision"]
    made_again = Where({"another fingerprint": "plan"}, identity=place.identity, proof=revision)

    def answer() -> Answer:
        return ledger.saw(journals(str(place.journals), None), Sought("plan", None), made_again)

    assert [(one.run, one.what) for one in answer().seen] == [("writer", "created")]
    assert answer().complete
    journal = place.runs / "long.jsonl"
    found, _ = read_journal(str(journal))
    assert found is not None
    change = records.scope_change(Change("other", "1", "updated"))
    journal.write_bytes(compacted(found._replace(keys={}, records=[*found.records, change]), most=1))
    told = [(one.run, one.problem.partition(" that ")[0]) for one in answer().left_out]
    assert told == [("long", "does not keep all")]


def test_a_copied_journal_is_told_as_the_run_that_it_is_of(cli: Cli, place: Place) -> None:
    place.write("plan", run="mon")
    shutil.copy(place.runs / "mon.jsonl", place.runs / "tue.jsonl")
    answer = json.loads(cli("runs", "--saw", "plan", "--json", *place.options).out)
    assert [one["run"] for one in answer["seen"]] == ["mon"]
    (left,) = answer["left_out"]
    assert (left["run"], left["state"], answer["complete"]) == ("tue", "misplaced", False)
    assert "it is the journal of run mon of identity bot" in left["problem"]


def test_an_overwrite_that_creates_is_told_as_creating(cli: Cli, place: Place) -> None:
    place.calls("writer", ("memory_write", {**NOTE, "overwrite": True}), ("memory_write", {**NOTE, "overwrite": True}))
    assert saw(cli, place, "plan") == [("writer", "created"), ("writer", "updated")]


def test_a_run_id_that_two_identities_have_asks_for_one_of_them(cli: Cli, place: Place) -> None:
    second = Place(place.path, "second")
    place.write("a", run="main")
    second.write("b", run="main")
    done = cli("runs", "show", "main", "--store-dir", place.path)
    assert done.status == 1
    assert "several runs are called main: bot (" in done.err
    assert "name one with --identity" in done.err
    assert "identity   second" in cli("runs", "show", "main", *second.options).out
    rows = [line.split()[:3] for line in cli("runs", "--store-dir", place.path).out.splitlines()[1:]]
    assert rows == [["main", "suspended", "bot"], ["main", "suspended", "second"]]
    removed = json.loads(cli("runs", "prune", "--state", "suspended", "--json", *second.options).out)["removed"]
    assert [(one["run"], one["identity"]) for one in removed] == [("main", "second")]
    assert (names(place), names(second)) == ({"main"}, set())


def test_export_writes_every_record_as_a_line(cli: Cli, place: Place) -> None:
    place.write("plan", run="monday")
    done = cli("runs", "export", *place.options)
    lines = [json.loads(line) for line in done.out.splitlines()]
    found, _ = read_journal(str(place.runs / "monday.jsonl"))
    assert found is not None
    assert lines == [{"run": "monday", "identity": "bot"} | record for record in found.records]
    (place.runs / "other.jsonl").write_text("not ours")
    done = cli("runs", "export", *place.options)
    assert (done.status, len(done.out.splitlines())) == (1, len(lines))
    assert "left out: run other of bot: its journal is no journal of this program" in done.err
    assert "incomplete: 1 journal left out" in done.err


def test_what_an_older_version_left_is_listed_and_doctor_says_what_stands_in_its_way(cli: Cli, place: Place) -> None:
    place.write("a", run="old")
    place.write("b", run="older")
    for run in ("old", "older"):
        os.rename(place.runs / f"{run}.jsonl", place.journals / f"{run}.jsonl")
    listed = json.loads(cli("runs", "--json", *place.options).out)["runs"]
    assert [(run["run"], run["identity"]) for run in listed] == [("old", "bot"), ("older", "bot")]
    assert "identity   bot" in cli("runs", "show", "old", *place.options).out
    assert "an older version left journals of bot" in cli("doctor", *place.options).out
    (place.runs / "old.jsonl").write_bytes((place.journals / "old.jsonl").read_bytes())
    told = cli("doctor", *place.options)
    assert (told.status, "run old of bot has two journals" in told.out) == (1, True)
    (place.runs / "old.jsonl").unlink()
    place.calls("old", ("memory_list", {}))
    assert names(place) == {"old", "older"}
    assert "older version" not in cli("doctor", *place.options).out


def test_a_listing_of_many_is_as_wide_as_its_first_rows_and_whole(cli: Cli, place: Place) -> None:
    place.runs.mkdir(parents=True)
    for number in range(1200):
        record = records.meta(run=f"r{number:04}", identity="bot", tools=[], store="s")
        (place.runs / f"r{number:04}.jsonl").write_bytes(records.encode(record, 1))
    rows = cli("runs", *place.options).out.splitlines()
    assert [row.split()[0] for row in rows[1:]] == [f"r{number:04}" for number in range(1200)]
    assert len({row.index("bot") for row in rows[1:]}) == 1
    assert len(json.loads(cli("runs", "--json", *place.options).out)["runs"]) == 1200


def test_the_sound_records_of_a_damaged_journal_are_shown(cli: Cli, place: Place) -> None:
    place.write("a", "b", "c", run="bad")
    path = place.runs / "bad.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"', b"'", 1)
    path.write_bytes(b"".join(lines))
    done = cli("runs", "show", "bad", *place.options)
    assert done.status == 1
    assert "is damaged, line 2" in done.err
    assert "without what stood on line 2" in done.err
    keys = [line.split()[3] for line in done.out.splitlines() if "created" in line and "UTC" not in line]
    assert keys == ["b", "c"]
    shown = json.loads(cli("runs", "show", "bad", "--json", *place.options).out)
    assert shown["missing_lines"] == [2]
    assert [record["seq"] for record in shown["records"]] == [1, *range(3, len(lines) + 1)]

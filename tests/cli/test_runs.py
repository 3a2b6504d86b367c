"""`runs`: what journals tell, which of them may go, and who saw a note."""

import json
import os
import time
from pathlib import Path

import pytest

from memory_sidecar.harness import Run
from memory_sidecar.run import records
from memory_sidecar.run.compact import compacted
from memory_sidecar.run.journal import read_journal
from memory_sidecar.run.runs import RunState, remove_run
from memory_sidecar.store.scope import Change

from .conftest import Cli, Done, Place

NOTE = {"key": "plan", "description": "The plan", "content": "x"}


def saw(cli: Cli, place: Place, what: str, *more: str) -> list[tuple[str, str]]:
    found = json.loads(cli("runs", "--saw", what, "--json", *place.options, *more).out)["seen"]
    return [(one["run"], one["what"]) for one in found]


def names(place: Place) -> set[str]:
    return {path.stem for path in place.runs.iterdir()}


def test_list(cli: Cli, place: Place) -> None:
    assert cli("runs", *place.options) == (0, "", "")
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
    assert what == ["started", "read", "updated", "deleted", "completed"]
    shown = json.loads(cli("runs", "show", "second", "--json", *place.options).out)
    assert [record["type"] for record in shown["records"]][:2] == ["meta", "scope_change"]
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
    assert saw(cli, place, "plan", "--identity", "somebody") == saw(cli, place, "plan")
    missing = cli("runs", "--saw", "plan", "--store-dir", place.path / "misspelt")
    assert missing.status == 78
    assert "there is no journal directory" in missing.err
    assert "No run read it" in cli("runs", "--saw", "other", *place.options).out
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
    assert "run long may have met it before" in done.err
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
            assert "run bad: its journal is damaged, line 2: its checksum does not match" in done.err
    assert "; it mentions this key" in cli("runs", "--saw", "plan", *place.options).err
    assert json.loads(cli("runs", "--saw", "plan", "--json", *place.options).out)["complete"] is False
    done = cli("runs", "show", "bad", *place.options)
    assert (done.status, "line 2" in done.err) == (1, True)


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
    assert (
        json.loads(cli("runs", "prune", "--older-than", "0m", "--json", *place.options).out)["removed"][0]["run"]
        == "paused"
    )
    assert names(place) == set()
    assert "an age is a number and m, h, d or w" in cli("runs", "prune", "--older-than", "soon", *place.options).err


def test_prune_never_takes_an_open_run(cli: Cli, place: Place) -> None:
    found: list[Done] = []

    async def work(run: Run) -> None:
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

    assert remove_run(str(place.runs), "paused", resumed_meanwhile) is not None
    assert names(place) == set()


def test_prune_leaves_damage_unless_it_is_named(cli: Cli, place: Place) -> None:
    place.write("a", run="bad")
    journal = place.runs / "bad.jsonl"
    journal.write_bytes(b"{}\n")
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
    assert cli("runs", *place.options).status == 0
    cli("runs", "prune", "--older-than", "0m", "--state", "damaged", "--state", "suspended", *place.options)
    assert names(place) == {"notes", "link", ".hidden"}


@pytest.mark.parametrize("kind", ["file", "missing"])
def test_a_journal_directory_that_is_none(cli: Cli, tmp_path: Path, kind: str) -> None:
    (tmp_path / "file").write_text("")
    done = cli("runs", "--journal-dir", tmp_path / kind)
    assert done.status == (78 if kind == "file" else 0)
    assert ("is not a directory" in done.err) == (kind == "file")

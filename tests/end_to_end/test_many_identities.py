"""Many users in one process: each run has the memory of the identity that opened it, and can reach no other's."""

import asyncio
import json
import os
import re
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from tests.support.apart import IDENTITY, MANY, RUN, Many, assert_only_own, secret, wander
from tests.support.broker import add_bucket, connected, run_broker
from tests.support.sidecar import LIST, OPEN, Era, RefusedError, Sidecar, configured, environment, guarded, launched

from memory_sidecar.assemble import Arguments, prepare
from memory_sidecar.exits import StartError
from memory_sidecar.harness import sync
from memory_sidecar.run.records import encode, meta


@pytest.fixture
def many(tmp_path: Path, both_eras: Era) -> Iterator[Many]:
    options = (*guarded(tmp_path), MANY, "--lockdown", "auto", "--log-level", "debug")
    with launched(tmp_path / "state", *options, identity="") as sidecar:
        yield Many(sidecar)


def test_runs_of_one_name_are_two_runs(many: Many, tmp_path: Path) -> None:
    assert many.open("a")["_meta"] == {RUN: "main", IDENTITY: "a"}
    many.open("b")
    assert many.write("a", "plan", "of a")["written"]
    assert many.read("b", "plan")["found"] is False
    assert many.write("b", "plan", "of b")["written"]
    assert many.read("a", "plan")["content"] == "of a"
    ended = many.sidecar.request("memory-sidecar/run/suspend", {"run": "main", "identity": "a"})
    assert list(ended["scope"]["keys"]) == ["plan"]
    assert many.read("b", "plan")["content"] == "of b"
    with pytest.raises(RefusedError, match="not open"):
        many.read("a", "plan")
    for identity, state in (("a", "suspended"), ("b", "open"), ("c", None)):
        runs = many.sidecar.request(LIST, {"identity": identity})["runs"]
        assert [run["state"] for run in runs] == ([state] if state else [])
        assert (tmp_path / "state" / "runs" / identity / "main.jsonl").exists() == bool(state)
    # What one has is the same in a process of its own.
    many.sidecar.leave()
    with launched(tmp_path / "state", *guarded(tmp_path), "--run", "main", identity="a") as alone:
        assert alone.write("plan", "newer", overwrite=True)["written"]


def test_what_an_older_version_left_is_taken_over_by_whom_it_names(tmp_path: Path) -> None:
    """Flat journals of several identities: each resumes what its own had earned, and nobody what is another's."""
    state, runs = tmp_path / "state", tmp_path / "state" / "runs"
    for identity, run in (("a", "mon"), ("b", "tue")):
        with launched(state, *guarded(tmp_path), "--run", run, identity=identity) as alone:
            assert alone.write("plan", f"of {identity}")["written"]
        (runs / identity / f"{run}.jsonl").rename(runs / f"{run}.jsonl")
        (runs / identity).rmdir()
    (runs / "copy.jsonl").write_bytes((runs / "mon.jsonl").read_bytes())
    (runs / "other.jsonl").write_text("somebody's text\n")
    (runs / "c").symlink_to(tmp_path)
    flat = {path: path.read_bytes() for path in runs.glob("*.jsonl")}
    for identity in ("c", "a/b", ".."):  # a link, and what cannot be a directory's name
        (runs / "wed.jsonl").write_bytes(encode(meta(run="wed", identity=identity, tools=["t"], store="s"), 1))
        prepare(Arguments(store_dir=str(state), many_identities="yes", lockdown="off")).start()
        assert (runs / "wed.jsonl").exists()
    assert (runs / "a" / "mon.jsonl").read_bytes() == flat[runs / "mon.jsonl"]
    with launched(state, *guarded(tmp_path), MANY, "--lockdown", "auto", identity="") as sidecar:
        many = Many(sidecar)
        for identity, run, other in (("a", "mon", "tue"), ("b", "tue", "mon")):
            with pytest.raises(RefusedError):
                many.open(identity, other, resume="require")
            assert list(many.open(identity, run, resume="require")["scope"]["keys"]) == ["plan"]
            assert many.write(identity, "plan", "newer", run=run, overwrite=True)["written"]
    left = {str(path.relative_to(runs)) for path in runs.rglob("*.jsonl")}
    assert left == {"a/mon.jsonl", "b/tue.jsonl", "copy.jsonl", "other.jsonl", "wed.jsonl"}


def test_the_index_is_the_identitys_own(many: Many) -> None:
    many.open("a")
    many.write("a", "plan", "known to a alone")
    assert "known to a alone" in many.open("a", "second")["instructions"]
    assert "known to a alone" not in many.open("b")["instructions"]


def test_a_scope_that_another_identity_hands_in_is_of_another_store(many: Many) -> None:
    many.open("a")
    many.write("a", "plan", "same text")
    scope = many.sidecar.request("memory-sidecar/run/suspend", {"run": "main", "identity": "a"})["scope"]
    many.open("b", "first")
    many.write("b", "plan", "same text", run="first")
    assert many.open("b", scope=scope)["scope"]["keys"] == {}
    assert many.write("b", "plan", "mine", overwrite=True)["code"] == "not_read"


@pytest.mark.parametrize("identity", [None, "", 7, {}, "../a", "a/b", ".", "a.", "a\n", "x" * 201, "ümlaut"])
def test_a_request_for_a_run_names_a_legal_identity(many: Many, identity: Any) -> None:
    many.open("a")
    named = {} if identity is None else {"identity": identity}
    for method in (OPEN, "memory-sidecar/run/suspend", "memory-sidecar/run/finish", LIST):
        with pytest.raises(RefusedError, match="whose memory is meant") as refused:
            many.sidecar.request(method, {"run": "main", "reason": "completed", **named})
        assert refused.value.code == -32602
    meta = {RUN: "main"} if identity is None else {RUN: "main", IDENTITY: identity}
    with pytest.raises(RefusedError, match="whose memory is meant"):
        many.sidecar.request("tools/call", {"name": "memory_list", "arguments": {}, "_meta": meta})
    assert many.call("a", "memory_list")


def test_there_is_no_default_run(tmp_path: Path, both_eras: Era) -> None:
    with Sidecar(tmp_path, MANY, identity="") as sidecar:
        assert not {"instructions", "_meta"} & sidecar.greet().keys()
        with pytest.raises(RefusedError, match="whose memory is meant"):
            sidecar.call("memory_list")
        meta = {IDENTITY: "a"}
        with pytest.raises(RefusedError, match="not open"):
            sidecar.request("tools/call", {"name": "memory_list", "arguments": {}, "_meta": meta})
        assert sidecar.request("tools/list")["tools"]
        assert not (tmp_path / "memory" / "a").exists()


def test_without_the_option_a_named_identity_is_refused_with_the_remedy(tmp_path: Path, both_eras: Era) -> None:
    with launched(tmp_path) as sidecar:
        for identity in ("tester", "other"):
            for method in (OPEN, LIST):
                with pytest.raises(RefusedError, match="launch the sidecar with --many-identities") as refused:
                    sidecar.request(method, {"run": "main", "identity": identity})
                assert refused.value.code == 1000
            params = {"name": "memory_list", "arguments": {}, "_meta": {IDENTITY: identity}}
            with pytest.raises(RefusedError, match="--many-identities"):
                sidecar.request("tools/call", params)
        assert sidecar.call("memory_list")


def test_the_log_says_whose_run_it_is(many: Many) -> None:
    many.open("a")
    many.call("a", "memory_list")
    many.sidecar.leave()
    told = many.sidecar.stderr
    for event in ("run opened", "call served", "run suspended"):
        assert re.search(rf"{event} identity=a pid=\d+ run=main", told), told


def test_read_only_holds_for_each_and_makes_nothing(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with launched(state, MANY, identity="") as sidecar:
        Many(sidecar).open("a")
        Many(sidecar).write("a", "plan", "of a")
    options = (*configured(tmp_path, "read_only: true"), "--journal-dir", str(tmp_path / "journals"))
    with launched(state, *options, MANY, identity="") as sidecar:
        many = Many(sidecar)
        assert [tool["name"] for tool in many.open("a")["tools"]] == ["memory_list", "memory_read"]
        assert many.read("a", "plan")["content"] == "of a"
        many.open("new")
        assert many.call("new", "memory_list")["structuredContent"] == {"memories": []}
        with pytest.raises(RefusedError, match="unknown tool"):
            many.write("new", "plan", "text")
    assert sorted(path.name for path in (state / "memory").iterdir()) == ["a"]


def test_each_identity_may_have_as_many_runs_as_a_process_of_its_own(many: Many) -> None:
    from memory_sidecar.wire.lanes import MAX_OPEN_RUNS

    for number in range(MAX_OPEN_RUNS):
        many.open("a", f"r{number}")
    with pytest.raises(RefusedError, match="256 runs are open"):
        many.open("a", "one-more")
    many.open("b", "r0")
    assert many.call("b", "memory_list", "r0")


def test_a_link_or_a_name_that_the_disk_takes_for_anothers_is_refused(many: Many, tmp_path: Path) -> None:
    many.open("a")
    many.write("a", "plan", "of a")
    for place in ("memory", "runs"):
        (tmp_path / "state" / place / f"thief-{place}").symlink_to("a")
        with pytest.raises(RefusedError, match="is a link"):
            many.open(f"thief-{place}")
    # One that was a directory when the run was opened.
    many.open("b")
    (tmp_path / "state" / "memory" / "b").rename(tmp_path / "away")
    (tmp_path / "state" / "memory" / "b").symlink_to("a")
    answer = many.call("b", "memory_read", key="plan")
    assert answer["isError"]
    assert "of a" not in json.dumps(answer)
    assert "identity=thief-memory" in many.sidecar.stderr


@pytest.mark.parametrize(
    ("arguments", "memory", "told"),
    [
        ({"identity": "a"}, "", "--identity names one identity"),
        ({"run": "r"}, "", "--run opens a run"),
        ({}, "options: {directory: notes}", "one directory, which many identities would share"),
        ({}, "backend: jetstream, options: {bucket: b, prefix: fleet}", "one prefix, which many"),
    ],
)
def test_what_contradicts_the_option_is_refused_at_start(
    tmp_path: Path, arguments: dict[str, str], memory: str, told: str
) -> None:
    config = configured(tmp_path, memory)[1] if memory else None
    with pytest.raises(StartError, match=told):
        prepare(Arguments(config=config, store_dir=str(tmp_path), many_identities="yes", **arguments)).start()


def test_an_identity_in_the_configuration_contradicts_the_option(tmp_path: Path) -> None:
    (tmp_path / "memory.yaml").write_text("identity: a\nharness: {memory: {enabled: true}}\n")
    with pytest.raises(StartError, match="identity in --config names one"):
        prepare(Arguments(config=str(tmp_path / "memory.yaml"), store_dir=str(tmp_path), many_identities="yes"))


def test_a_refused_open_makes_no_identity(many: Many, tmp_path: Path) -> None:
    many.open("a")
    before = sorted(path for path in (tmp_path / "state").rglob("*"))
    with pytest.raises(RefusedError, match="there is no run main to resume"):
        many.open("nobody", resume="require")
    with pytest.raises(RefusedError, match="whose memory is meant"):
        many.open("../b")
    with pytest.raises(RefusedError, match="run"):
        many.open("nobody", "../main")
    assert sorted(path for path in (tmp_path / "state").rglob("*")) == before


# The Python library


def test_the_library_opens_runs_for_an_identity_each(tmp_path: Path) -> None:
    with sync.MemorySidecar.launch(store_dir=tmp_path, many_identities=True, restarts=1) as memory:
        with memory.run("r", identity="tenant-7") as one, memory.run("r", identity="tenant-8") as two:
            assert (one.id, one.identity, two.identity) == ("r", "tenant-7", "tenant-8")
            for run in (one, two):
                arguments = {"key": "plan", "description": "d", "content": f"of {run.identity}"}
                assert (run.call("memory_write", arguments).structured or {})["written"]
            os.kill(memory.pid, signal.SIGKILL)  # both are opened again, each for its own identity
            for run in (one, two):
                found = run.call("memory_read", {"key": "plan"}).structured or {}
                assert found["content"] == f"of {run.identity}"
            with pytest.raises(sync.RequestRefusedError, match="open already"), memory.run("r", identity="tenant-7"):
                pass
        assert [run["state"] for run in memory.runs(identity="tenant-7")] == ["suspended"]
        with pytest.raises(sync.RequestRefusedError, match="whose memory is meant"), memory.run("r"):
            pass
    with pytest.raises(TypeError, match="many_identities"):
        sync.MemorySidecar.launch(many_identities="yes").__enter__()  # type: ignore[arg-type]
    with (
        sync.MemorySidecar.launch(store_dir=tmp_path, identity="one") as memory,
        pytest.raises(sync.RequestRefusedError, match="leave out identity, or launch with many_identities=True"),
        memory.run("r", identity="tenant-7"),
    ):
        pass


# None reaches another's


@pytest.fixture
def quick() -> Iterator[Path]:
    """A place in memory where there is one: 200 directories are flushed to a disk in ten seconds, and here at once."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with TemporaryDirectory(dir=memory) as place:
        yield Path(place)


def test_of_200_identities_none_reaches_anothers_notes(quick: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`python -m bench.many` goes on with other seeds, for as many moves as it is told."""
    identities = [f"tenant-{number}" for number in range(200)]
    with launched(quick, *guarded(quick), MANY, identity="") as sidecar:
        tally = wander(Many(sidecar), identities, 1200, 7)
        sidecar.leave()
    assert min(tally["answers"], tally["refused"]) > 300, tally
    with capsys.disabled():
        print(f" 200 identities: {tally}")
    for identity in identities:
        for path in (*(quick / "memory" / identity).glob("*.md"), *(quick / "runs" / identity).glob("*.jsonl")):
            assert_only_own(path.read_text(), identity, identities)


async def make_bucket(url: str) -> str:
    async with connected(url) as nc:
        return await add_bucket(nc)


def test_identities_on_jetstream_share_a_connection_and_no_key(tmp_path: Path) -> None:
    with run_broker(tmp_path / "broker") as broker:
        bucket = asyncio.run(make_bucket(broker.url))
        contexts = tmp_path / "config" / "nats" / "context"
        contexts.mkdir(parents=True)
        (contexts / "local.json").write_text(json.dumps({"url": broker.url}))
        (tmp_path / "memory.yaml").write_text(
            "nats_context: local\nharness: {memory: {enabled: true, backend: jetstream, options: {bucket: "
            + bucket
            + "}}}\n"
        )
        options = ("--config", str(tmp_path / "memory.yaml"), MANY, "--lockdown", "auto")
        env = environment(XDG_CONFIG_HOME=str(tmp_path / "config"))
        identities = [f"tenant-{number}" for number in range(20)]
        with launched(tmp_path / "state", *options, identity="", env=env) as sidecar:
            many = Many(sidecar)
            tally = wander(many, identities, 300, 7)
            with pytest.raises(RefusedError, match="without dots"):
                many.open("tenant-1.own")
            assert many.open("flat")["backend"] == {"name": "jetstream", "location": bucket}
        assert tally["answers"] > 50


def test_openings_of_many_identities_at_once_don_t_wait_for_each_other(tmp_path: Path) -> None:
    lock = threading.Lock()
    with sync.MemorySidecar.launch(store_dir=tmp_path, many_identities=True) as memory:
        seen = []

        def converse(number: int) -> None:
            with memory.run("main", identity=f"tenant-{number}") as run:
                arguments = {"key": "own", "description": "d", "content": secret(f"tenant-{number}")}
                assert (run.call("memory_write", arguments).structured or {})["written"]
                with lock:
                    seen.append((run.call("memory_read", {"key": "own"}).structured or {})["content"])

        with ThreadPoolExecutor(20) as pool:
            list(pool.map(converse, range(40)))
    assert sorted(seen) == sorted(secret(f"tenant-{number}") for number in range(40))

"""Whole sidecars over one broker: two agents share a bucket, and a run outlives its process, an outage and a bucket."""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.broker import Broker, add_bucket, connected, delete_bucket, put, run_broker, until
from tests.support.collector import collector, patient
from tests.support.sidecar import RefusedError, Sidecar, environment, launched

from memory_sidecar.harness import MemorySidecar, RequestRefusedError, Run, bounds

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    directory = tmp_path / "config" / "nats" / "context"
    directory.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    with run_broker(tmp_path / "b") as running:
        (directory / "production.json").write_text(json.dumps({"url": running.url}))
        yield running


@pytest.fixture
async def launch(broker: Broker, tmp_path: Path) -> dict[str, Any]:
    async with connected(broker.url) as nc:
        await add_bucket(nc, "b")
    block = {"enabled": True, "backend": "jetstream", "options": {"bucket": "b", "prefix": "fleet"}}
    path = tmp_path / "memory.yaml"
    path.write_text(json.dumps({"identity": "agent", "nats_context": "production", "harness": {"memory": block}}))
    return {"config": path, "store_dir": tmp_path / "state"}


async def write(run: Run, content: str, *, overwrite: bool = False) -> dict[str, Any]:
    arguments = {"key": "plan", "description": "The plan", "content": content}
    answer = await run.call("memory_write", arguments | ({"overwrite": True} if overwrite else {}))
    return dict(answer.structured or {"error": answer.text})


async def test_second_agents_stale_overwrite_is_refused_and_passes_after_a_read(launch: dict[str, Any]) -> None:
    async with (
        MemorySidecar.launch(**launch) as first,
        MemorySidecar.launch(**launch) as second,
        first.run("one") as one,
        second.run("two") as two,
    ):
        assert (await write(one, "1"))["written"]
        assert (await write(two, "2"))["code"] == "exists"
        assert (await write(two, "2", overwrite=True))["code"] == "not_read"
        assert (await two.call("memory_read", {"key": "plan"})).structured["content"] == "1"  # type: ignore[index]
        assert (await write(one, "3", overwrite=True))["written"]
        assert (await write(two, "2", overwrite=True))["code"] == "changed"
        await two.call("memory_read", {"key": "plan"})
        assert (await write(two, "2", overwrite=True))["written"]


@pytest.mark.usefixtures("both_eras")
async def test_a_run_in_both_eras(launch: dict[str, Any], broker: Broker, tmp_path: Path) -> None:
    def serve() -> Sidecar:
        return launched(tmp_path, "--config", str(launch["config"]), identity="agent", env=environment())

    with serve() as sidecar:
        opened = sidecar.open("r")
        assert opened["backend"] == {"name": "jetstream", "location": "b"}
        assert sidecar.write("k", "1", "r")["written"]
        with broker.frozen():
            with pytest.raises(RefusedError):
                sidecar.open("late")
            assert sidecar.call("memory_read", {"key": "k"}, "r")["isError"] is True
        assert sidecar.read("k", "r")["content"] == "1"
        assert sidecar.leave() == 0
    with serve() as sidecar:
        assert sidecar.states() == {"r": "suspended"}
        assert sidecar.open("r")["resumed"] is True
        assert sidecar.write("k", "2", overwrite=True)["code"] == "not_read"
        assert sidecar.write("k", "2", "r", overwrite=True)["written"]


async def test_suspended_run_keeps_its_authority_unless_the_bucket_was_made_again(
    launch: dict[str, Any], broker: Broker
) -> None:
    async with MemorySidecar.launch(**launch) as memory, memory.run("weekly") as run:
        await write(run, "Monday")
    async with MemorySidecar.launch(**launch) as memory, memory.run("weekly", resume="require") as run:
        assert (await write(run, "Friday", overwrite=True))["written"]
    async with connected(broker.url) as nc:
        await delete_bucket(nc, "b")
        await add_bucket(nc, "b")
        for content in (b"theirs", b"theirs"):
            await put(nc, "b", "fleet.plan", content)
    async with MemorySidecar.launch(**launch) as memory, memory.run("weekly", resume="require") as run:
        assert run.scope["keys"] == {}
        assert (await write(run, "x", overwrite=True))["code"] == "not_read"


async def test_open_run_outlives_an_outage(launch: dict[str, Any], broker: Broker) -> None:
    async with MemorySidecar.launch(**launch) as memory, memory.run("weekly") as run:
        await write(run, "before")
        broker.stop()
        with anyio.fail_after(60):
            failed = await write(run, "during", overwrite=True)
        assert "cannot be reached" in failed["error"] or "unknown" in failed["error"]
        broker.start()

        async def back() -> bool:
            return not (await run.call("memory_read", {"key": "plan"})).is_error

        await until(back, "the run works again")
        assert (await write(run, "after", overwrite=True))["written"]


@pytest.mark.parametrize("how", ["stopped", "frozen"])
async def test_ending_never_hangs_on_a_dead_broker(
    launch: dict[str, Any], broker: Broker, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "IDLE_STOP_SECONDS", 60.0)
    with ExitStack() as until_the_end:
        async with MemorySidecar.launch(**launch) as memory, memory.run("weekly") as run:
            await write(run, "before")
            if how == "stopped":
                broker.stop()
            else:
                until_the_end.enter_context(broker.frozen())
            # Whoever asked the broker would be given up after the harness's own patience, with an error.
            assert list((await run.suspend())["keys"]) == ["plan"]
        assert memory.exit_status == 0


async def test_an_open_that_a_frozen_broker_refuses_leaves_no_run(launch: dict[str, Any], broker: Broker) -> None:
    async with MemorySidecar.launch(**launch) as memory:
        with broker.frozen(), pytest.raises(RequestRefusedError):
            async with memory.run("weekly", resume="never"):
                pass
        assert await memory.runs() == []

        # `never` is refused if anything of the run is there.
        async with memory.run("weekly", resume="never") as run:
            assert run.resumed is False


async def test_a_brokers_and_a_collectors_port_stay_open_together(
    launch: dict[str, Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with collector() as receiver:
        monkeypatch.setattr(bounds, "IDLE_STOP_SECONDS", 60.0)
        env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **patient(tmp_path / "patient")}
        async with MemorySidecar.launch(**{**launch, "env": env}) as memory, memory.run("monday") as run:
            assert (await write(run, "1"))["written"]
    call, operation = receiver.named("tools/call memory_write"), receiver.named("create_memory")
    assert operation["parent"] == call["id"]
    assert operation["kind"] == 3  # a client of a server elsewhere
    assert operation["attributes"]["db.system.name"] == "jetstream"
    assert operation["attributes"]["db.namespace"] == call["attributes"]["memory_sidecar.location"] == "b"


async def test_start_without_a_permission_names_the_subject_to_allow(
    launch: dict[str, Any], broker: Broker, tmp_path: Path
) -> None:
    """The harness gets the operator's remedy, not the sentence that a model would get in a run."""
    users = [{"user": "a", "password": "a", "permissions": {"publish": ["$JS.API.STREAM.INFO.>"]}}]
    broker.stop()
    with run_broker(tmp_path / "b2", config=f"authorization: {json.dumps({'users': users})}") as lesser:
        shutil.rmtree(lesser.directory / "store", ignore_errors=True)
        lesser.stop()
        shutil.copytree(broker.directory / "store", lesser.directory / "store")
        lesser.start()
        context = tmp_path / "config" / "nats" / "context" / "production.json"
        context.write_text(json.dumps({"url": lesser.url, "user": "a", "password": "a"}))
        async with MemorySidecar.launch(**launch) as memory:
            with pytest.raises(RequestRefusedError, match=r"publish to \$JS\.API\.STREAM\.MSG\.GET\.KV_b; allow that"):
                async with memory.run("one"):
                    pass

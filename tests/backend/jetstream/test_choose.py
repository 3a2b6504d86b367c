"""A JetStream backend as a configuration means it, opened and used the way the sidecar does: from threads."""

import asyncio
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.broker import Broker, add_bucket, connected, eventually, run_broker

from memory_sidecar import assemble
from memory_sidecar.backend.choose import describe, open_backend, warnings
from memory_sidecar.backend.description import json_of
from memory_sidecar.backend.opened import BackendError, Running
from memory_sidecar.config import Config, parse
from memory_sidecar.exits import StartError
from memory_sidecar.observe import log
from memory_sidecar.store.errors import OutcomeUnknownError, StoreError, UnavailableError
from memory_sidecar.store.scope import Scope


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    directory = tmp_path / "config" / "nats" / "context"
    directory.mkdir(parents=True)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("NATS_CONTEXT", raising=False)
    with run_broker(tmp_path / "b") as running:
        (directory / "production.json").write_text(json.dumps({"url": running.url}))

        async def prepare() -> None:
            async with connected(running.url) as nc:
                await add_bucket(nc, "agent-memory")

        asyncio.run(prepare())
        yield running


def config(**options: object) -> Config:
    block = {"enabled": True, "backend": "jetstream", "options": {"bucket": "agent-memory", **options}}
    return parse(json.dumps({"nats_context": "production", "harness": {"memory": block}}).encode())


@pytest.fixture
def others() -> set[threading.Thread]:
    """The threads of earlier tests that idle for a while before they end, as those of an event loop's pool do."""
    return set(threading.enumerate())


@pytest.fixture
def running(others: set[threading.Thread], broker: Broker) -> Iterator[Running]:
    opened = open_backend(config(), "agent", None)
    assert set(threading.enumerate()) <= others
    assert opened.ports == (broker.port,)
    opened.begin()
    yield opened
    opened.close()


def test_it_is_opened_without_a_thread_and_used_from_many(running: Running) -> None:
    store = running.opened.store
    store.create("n", "a number", "0")

    def count(_: int) -> int:
        scope, done = Scope(), 0
        while done < 10:
            number = int(store.read("n", scope=scope).content)
            try:
                store.update("n", "a number", str(number + 1), scope=scope)
                done += 1
            except StoreError:
                pass
        return done

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(count, range(8))) == 80
    assert store.read("n").content == "80"


def test_closing_ends_everything_even_a_call_under_way(
    others: set[threading.Thread], running: Running, broker: Broker
) -> None:
    store = running.opened.store
    store.create("k", "d", "c")
    with broker.frozen(), ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(lambda: store.update("k", "d", "x", scope=Scope({"k": f"1@{'x' * 22}"})))
        eventually(waiting.running, "the call is made")
        running.close()
        with pytest.raises((UnavailableError, OutcomeUnknownError)):
            waiting.result(60)
    running.close()
    with pytest.raises(UnavailableError):
        store.read("k")
    eventually(lambda: set(threading.enumerate()) <= others, "its threads have ended")


def test_closing_without_any_use(others: set[threading.Thread], broker: Broker) -> None:
    open_backend(config(), "agent", None).close()
    assert set(threading.enumerate()) <= others


def test_what_cannot_be_opened_leaves_nothing_behind(others: set[threading.Thread], broker: Broker) -> None:
    with pytest.raises(BackendError, match="kv add nowhere"):
        open_backend(config(bucket="nowhere"), "agent", None)
    with pytest.raises(BackendError, match="did you mean prefix"):
        open_backend(config(prefx="a"), "agent", None)
    assert set(threading.enumerate()) <= others


def test_it_is_described_offline(broker: Broker) -> None:
    broker.stop()
    assert json_of(describe(config(), "team.agent", None).facts) == {
        "bucket": "agent-memory",
        "context": "production",
        "prefix": "team.agent",
        "shared": ["agents with the prefix team see, and may change, these keys too"],
        "require_read_before_update": True,
    }
    unknown = describe(config(), None, None)
    assert (unknown.named, json_of(unknown.facts)["prefix"]) == (False, None)
    flat = json_of(describe(config(prefix="", no_require_read_before_update=True), None, None).facts)
    assert (flat["prefix"], flat["require_read_before_update"]) == ("", False)
    assert flat["shared"]


@pytest.mark.parametrize(("mode", "locked"), [(None, True), ("auto", True), ("require", True), ("off", False)])
def test_only_a_process_that_will_be_locked_opens_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str | None, locked: bool
) -> None:
    asked = []

    def opening(*_: object, locked: bool) -> Running:
        asked.append(locked)
        raise BackendError("not now")

    monkeypatch.setattr(assemble, "open_backend", opening)
    plan = assemble.prepare(assemble.Arguments(identity="a", journal_dir=str(tmp_path), lockdown=mode))
    with pytest.raises(StartError, match="not now"):
        plan.start()
    assert asked == [locked]


def told(whose: str | None, where: Config, *identities: str) -> str:
    return "\n".join(warnings(where, whose, lambda: identities))


def test_prefixes_that_nest_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert told("a", config(), "b", "ab") == ""
    assert "agents with the prefix a see, and may change, these keys too" in told("a.b", config())
    assert "the keys of the prefix a.b" in told("a", config(), "a.b", "c")
    assert "the flat prefix sees" in told("a", config(prefix=""), "c")
    # And an operator meets them at the start and in `info`.
    (tmp_path / "runs" / "a.b").mkdir(parents=True)
    plan = assemble.prepare(assemble.Arguments(identity="a", store_dir=str(tmp_path)))._replace(config=config())
    said: list[object] = []
    monkeypatch.setattr(log, "warning", lambda _event, **fields: said.append(fields["what"]))
    plan._warn()
    assert said == ["this prefix sees, and may change, the keys of the prefix a.b"]


def test_a_context_that_nobody_configured_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "nats").mkdir()
    (tmp_path / "nats" / "context.txt").write_text("selected")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("NATS_CONTEXT", raising=False)
    unnamed = config()._replace(nats_context=None)
    assert "nobody configured a NATS context" in told("a", unnamed)
    assert "(selected)" in told("a", unnamed)
    monkeypatch.setenv("NATS_CONTEXT", "named")
    assert told("a", unnamed) == ""

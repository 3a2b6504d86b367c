"""The JetStream backend while its broker is away, silent or loses confirmations."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from tests.support.async_store import AsyncStore, open_store
from tests.support.broker import Broker, add_bucket, connected, put, until

from memory_sidecar.backend.jetstream import connect as nats_connect
from memory_sidecar.backend.jetstream import context as nats_context
from memory_sidecar.backend.jetstream.bucket import open_jetstream
from memory_sidecar.backend.jetstream.options import JetStreamOptions
from memory_sidecar.backend.jetstream.waiting import CALL_SECONDS
from memory_sidecar.backend.opened import BackendError
from memory_sidecar.store.errors import (
    KeyExistsError,
    OutcomeUnknownError,
    StaleError,
    StoreError,
    UnavailableError,
)
from memory_sidecar.store.scope import Scope

pytestmark = pytest.mark.anyio

PATIENCE = CALL_SECONDS * 4
"""Seconds until a call that nothing answers has surely ended, on a busy machine too: its own limit is a quarter."""


@pytest.fixture
def broker(mortal_broker: Broker) -> Broker:
    return mortal_broker


@pytest.fixture
async def store(nc: Client) -> AsyncStore:
    await add_bucket(nc, "b")
    return await open_store(nc, "b")


class Lossy:
    """A connection on which confirmations get lost: `lose` says of which publishes. Everything else is real."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self.lose = 0
        """How many of the next publishes to the bucket are applied without their sender hearing of it."""
        self.swallow = 0
        """How many of the next ones never arrive, which their sender cannot tell from the former."""
        self.then: Any = None
        """Called after a publish was applied and its confirmation lost."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._nc, name)

    async def request(self, subject: str, data: bytes = b"", **options: Any) -> Any:
        if subject.startswith("$KV.") and self.swallow:
            self.swallow -= 1
            raise nats_errors().TimeoutError
        answer = await self._nc.request(subject, data, **options)
        if subject.startswith("$KV.") and self.lose and "error" not in json.loads(answer.data):
            self.lose -= 1
            if self.then is not None:
                await self.then()
            raise nats_errors().TimeoutError
        return answer


def nats_errors() -> Any:
    import nats.errors

    return nats.errors


@pytest.fixture
async def lossy(nc: Client) -> tuple[Lossy, AsyncStore]:
    await add_bucket(nc, "b")
    connection = Lossy(nc)
    return connection, await open_store(connection, "b")


@pytest.mark.parametrize("how", ["lose", "swallow"])
async def test_lost_confirmation_is_resolved_by_looking(lossy: tuple[Lossy, AsyncStore], how: str) -> None:
    connection, store = lossy
    scope = Scope()

    def again() -> None:
        setattr(connection, how, 2)

    again()
    await store.create("k", "d", "1", scope=scope)
    again()
    await store.update("k", "d", "2", scope=scope)
    await store.update("k", "d", "3", scope=scope)
    assert (await store.read("k")).content == "3"
    again()
    assert await store.delete("k", scope=scope)
    assert not await store.delete("k", scope=scope)
    connection.lose = connection.swallow = 0
    await store.create("k", "d", "4")


async def test_lost_confirmation_of_what_was_replaced_is_unknown_not_changed(
    lossy: tuple[Lossy, AsyncStore], nc: Client
) -> None:
    connection, store = lossy
    scope = Scope()
    await store.create("k", "d", "1", scope=scope)

    async def other_program_writes() -> None:
        await put(nc, "b", "agent.k", b"theirs")

    connection.lose, connection.then = 1, other_program_writes
    with pytest.raises(OutcomeUnknownError):
        await store.update("k", "d", "2", scope=scope)
    assert scope.snapshot() == {}
    assert scope.drain()[-1].why == "unknown"


async def test_what_never_arrived_and_was_overtaken_is_changed(lossy: tuple[Lossy, AsyncStore], nc: Client) -> None:
    connection, store = lossy
    other = await open_store(nc, "b")
    mine, theirs = Scope(), Scope()
    await store.create("k", "d", "1", scope=mine)
    await other.read("k", scope=theirs)
    await other.update("k", "d", "theirs", scope=theirs)
    connection.swallow = 1
    # The successor of what this run saw says itself that it is one, so ours was surely not applied.
    with pytest.raises(StaleError):
        await store.update("k", "d", "2", scope=mine)
    connection.swallow = 1
    with pytest.raises(KeyExistsError):
        await store.create("k", "d", "2", scope=mine)


async def test_cancelled_write_leaves_no_authority_behind(lossy: tuple[Lossy, AsyncStore]) -> None:
    connection, store = lossy
    scope = Scope()
    await store.create("k", "d", "1", scope=scope)
    connection.swallow = 1000
    task = asyncio.create_task(store.update("k", "d", "2", scope=scope))
    await until(lambda: _is_true(connection.swallow < 1000), "the write is under way")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert scope.revision("k") is None
    assert (await store.read("k")).content in ("1", "2")


async def _is_true(value: bool) -> bool:
    return value


async def answers(store: AsyncStore) -> bool:
    try:
        await store.list()
    except StoreError:
        return False
    return True


async def calls_fail(store: AsyncStore, scope: Scope) -> None:
    """Every operation fails in time, as unavailable, in words for a model."""

    async def one(call: Any) -> None:
        start = asyncio.get_running_loop().time()
        with pytest.raises((UnavailableError, OutcomeUnknownError)) as failed:
            await call
        assert asyncio.get_running_loop().time() - start < PATIENCE
        for word in ("nats", "127.0.0.1", "/", "Traceback", "$"):
            assert word not in str(failed.value)

    await asyncio.gather(
        one(store.list()),
        one(store.read("k")),
        one(store.create("new", "d", "c")),
        one(store.update("k", "d", "c", scope=scope)),
        one(store.delete("k")),
    )


@pytest.mark.parametrize("foreign", [False, True])
async def test_a_broker_that_lost_its_last_writes_lends_no_revision_to_what_came_instead(
    store: AsyncStore, nc: Client, broker: Broker, tmp_path: Path, foreign: bool
) -> None:
    """As a power cut may leave it: sequences that were given are given again."""
    scope = Scope()
    await store.create("k", "d", "first")
    broker.stop()
    shutil.copytree(tmp_path / "store", tmp_path / "saved")
    broker.start()
    await until(lambda: answers(store), "the store answers again")
    if foreign:
        await put(nc, "b", "agent.k", b"lost")
        await store.read("k", scope=scope)
    else:
        await store.read("k", scope=scope)
        await store.update("k", "d", "lost", scope=scope)
    broker.stop()
    shutil.rmtree(tmp_path / "store")
    shutil.copytree(tmp_path / "saved", tmp_path / "store")
    broker.start()
    await until(lambda: answers(store), "the store answers again")
    sequence = await put(nc, "b", "agent.k", b"theirs")
    assert (scope.revision("k") or "").startswith(f"{sequence}@")
    with pytest.raises(StaleError) as refused:
        await store.update("k", "d", "mine", scope=scope)
    assert refused.value.reason == "changed"
    assert (await store.read("k", scope=scope)).content == "theirs"
    await store.update("k", "d", "mine", scope=scope)


async def test_calls_fail_in_time_while_the_broker_is_down_and_work_again_after(
    store: AsyncStore, nc: Client, broker: Broker
) -> None:
    scope = Scope()
    await store.create("k", "d", "1", scope=scope)
    broker.stop()
    await calls_fail(store, Scope(scope.snapshot()))
    broker.start()

    async def back() -> bool:
        try:
            return (await store.read("k")).content == "1"
        except StoreError:
            return False

    await until(back, "the store answers again")
    await store.update("k", "d", "2", scope=scope)
    assert [item.key for item in await store.list()] == ["k"]


async def test_calls_fail_in_time_while_the_broker_is_frozen_and_work_again_after(
    store: AsyncStore, nc: Client, broker: Broker
) -> None:
    scope = Scope()
    await store.create("k", "d", "1", scope=scope)
    with broker.frozen():
        await calls_fail(store, Scope(scope.snapshot()))
    await until(lambda: answers(store), "the store answers again")


async def test_waits_for_a_silent_broker_do_not_add_up_and_end_when_it_speaks(
    store: AsyncStore, nc: Client, broker: Broker
) -> None:
    await store.create("k", "d", "1")
    start = asyncio.get_running_loop().time()
    with broker.frozen():
        # One after the other, as the calls of a run are served.
        for call in (store.read, store.read, store.delete, store.read, store.read, store.delete):
            with pytest.raises((UnavailableError, OutcomeUnknownError)):
                await call("k")
        with pytest.raises(UnavailableError):
            await store.create("new", "d", "c")
        with pytest.raises(UnavailableError):
            await store.list()
        assert asyncio.get_running_loop().time() - start < PATIENCE  # eight limits would be twice as long

    async def back() -> bool:
        try:
            return (await store.read("k")).content == "1"
        except StoreError:
            return False

    await until(back, "the store answers again")
    # From then on calls have their whole patience again.
    broker.stop()
    reading = asyncio.create_task(store.read("k"))
    broker.start()
    assert (await reading).content == "1"


async def test_short_outage_is_not_even_noticed(store: AsyncStore, nc: Client, broker: Broker) -> None:
    await store.create("k", "d", "1")
    broker.stop()
    reading = asyncio.create_task(store.read("k"))
    broker.start()
    assert (await reading).content == "1"


@pytest.mark.parametrize("how", ["stopped", "frozen", "alive"])
async def test_closing_never_hangs(broker: Broker, how: str) -> None:
    nc = await nats_connect.connect(nats_context.NatsContext("test", (broker.url,)))
    if how == "stopped":
        broker.stop()
    start = asyncio.get_running_loop().time()
    if how == "frozen":
        with broker.frozen():
            await nats_connect.close(nc)
    else:
        await nats_connect.close(nc)
    assert asyncio.get_running_loop().time() - start < PATIENCE


async def test_opening_tells_that_the_broker_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], broker: Broker
) -> None:
    directory = tmp_path / "nats" / "context"
    directory.mkdir(parents=True)
    (directory / "c.json").write_text(json.dumps({"url": f"nats://u:hunter2@127.0.0.1:{broker.port}"}))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    async with connected(broker.url) as nc:
        await add_bucket(nc, "b")
    bound, close, _ = await open_jetstream(JetStreamOptions("b"), identity="agent", context="c")
    await AsyncStore(bound).create("k", "d", "c")
    await close()
    broker.stop()
    start = asyncio.get_running_loop().time()
    with pytest.raises(BackendError, match="cannot be reached") as refused:
        await open_jetstream(JetStreamOptions("b"), identity="agent", context="c")
    assert asyncio.get_running_loop().time() - start < PATIENCE
    output = capfd.readouterr()
    assert "hunter2" not in str(refused.value) + output.out + output.err
    assert output.err == ""

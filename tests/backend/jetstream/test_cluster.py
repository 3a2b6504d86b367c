"""The JetStream backend on three servers with replicated buckets, while they are healthy and while they are not."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

import pytest
from nats.aio.client import Client
from tests.support.async_store import open_store
from tests.support.broker import Cluster, add_bucket, api, connected, consumers, leader, until

from memory_sidecar.backend.jetstream.bucket import bind
from memory_sidecar.backend.jetstream.options import JetStreamOptions
from memory_sidecar.store.contract import Item
from memory_sidecar.store.errors import (
    KeyExistsError,
    KeyNotFoundError,
    OutcomeUnknownError,
    StaleError,
    StoreFullError,
    UnavailableError,
)
from memory_sidecar.store.rules import MAX_ENTRIES
from memory_sidecar.store.scope import Scope

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield running.start()
    finally:
        running.kill()


@pytest.fixture
async def nc(cluster: Cluster) -> AsyncIterator[Client]:
    async with connected(*cluster.urls) as client:
        yield client


@pytest.fixture
async def bucket(nc: Client) -> str:
    return await add_bucket(nc, num_replicas=3)


async def test_conflicts_are_recognised_on_a_replicated_bucket(cluster: Cluster, nc: Client, bucket: str) -> None:
    async with connected(cluster.urls[1]) as second, connected(cluster.urls[2]) as third:
        stores = [await open_store(client, bucket) for client in (nc, second, third)]
        for _ in range(30):
            created = await asyncio.gather(*(store.create("k", "d", "c") for store in stores), return_exceptions=True)
            assert created.count(None) == 1
            assert all(isinstance(result, KeyExistsError) for result in created if result is not None), created
            scopes = [Scope() for _ in stores]
            for store, scope in zip(stores, scopes, strict=True):
                await store.read("k", scope=scope)
            updated = await asyncio.gather(
                *(store.update("k", "d", "x", scope=scope) for store, scope in zip(stores, scopes, strict=True)),
                return_exceptions=True,
            )
            assert updated.count(None) == 1
            assert all(isinstance(result, StaleError) for result in updated if result is not None), updated
            assert sorted(await asyncio.gather(*(store.delete("k") for store in stores))) == [False, False, True]


async def test_every_member_answers_with_what_was_just_written(cluster: Cluster, nc: Client, bucket: str) -> None:
    async with connected(cluster.urls[1]) as second, connected(cluster.urls[2]) as third:
        stores = [await open_store(client, bucket) for client in (nc, second, third)]
        scope = Scope()
        for number in range(60):
            writer, reader, lister = (stores[(number + offset) % 3] for offset in range(3))
            if number % 10 == 0:
                await writer.create(f"k{number}", "d", "0", scope=scope)
            key = f"k{number // 10 * 10}"
            await writer.update(key, f"d{number}", str(number), scope=scope)
            assert (await reader.read(key)).content == str(number)
            assert Item(key, f"d{number}") in await lister.list()

        async def none_left() -> bool:  # another member than the one that removed it may answer
            return await consumers(nc, bucket) == []

        await until(none_left, "no listing has left a consumer")


async def test_follower_that_lags_misleads_nobody(cluster: Cluster, nc: Client, bucket: str) -> None:
    """A frozen member that thaws is behind, and consumers live on it too."""
    first = await leader(nc, bucket)
    followers = [name for name in cluster.nodes if name != first]
    frozen, other = cluster.nodes[followers[0]], cluster.nodes[followers[1]]
    async with connected(other.url) as own:
        store = await open_store(own, bucket)
        for turn in range(3):
            with frozen.frozen():
                for number in range(40):
                    await store.create(f"t{turn}-{number}", "d", "c")
            for _ in range(10):
                # Placed on any member, so some of these consumers are on the one that was away.
                assert len(await store.list()) == (turn + 1) * 40
    assert first is not None


async def test_fingerprint_survives_an_election(cluster: Cluster, nc: Client, bucket: str) -> None:
    async def created() -> str:
        return (await bind(nc, JetStreamOptions(bucket), identity="agent")).fingerprint

    before, first = await created(), await leader(nc, bucket)
    await api(nc, f"STREAM.LEADER.STEPDOWN.KV_{bucket}", {})

    async def elected() -> bool:
        return await leader(nc, bucket) not in (None, first)

    await until(elected, "another leader")
    assert await created() == before


async def test_capacity_is_exact_among_racing_writers_on_a_cluster(cluster: Cluster, nc: Client, bucket: str) -> None:
    for number in range(MAX_ENTRIES - 4):
        await nc.publish(f"$KV.{bucket}.agent.f{number}", b"x")
        if number % 100 == 99:
            await nc.flush()

    async def filled() -> bool:
        return (await api(nc, f"STREAM.INFO.KV_{bucket}"))["state"]["messages"] == MAX_ENTRIES - 4

    await until(filled, "all are stored")

    async def race(url: str) -> int:
        async with connected(url) as own:
            store = await open_store(own, bucket)
            stored = 0
            for number in range(3):
                with suppress(StoreFullError):
                    while True:
                        with suppress(UnavailableError):
                            await store.create(f"{own.client_id}-{url[-5:]}-{number}", "d", "c")
                            stored += 1
                            break
            return stored

    assert sum(await asyncio.gather(*(race(url) for url in cluster.urls * 2))) == 4
    assert len(await (await open_store(nc, bucket)).list()) == MAX_ENTRIES


async def write_while_leaders_die(
    cluster: Cluster, bucket: str, seconds: float, kills: int
) -> tuple[Counter[str], dict[str, list[int]]]:
    """Four writers increment numbers, each one of its own and all one in common, while leaders are killed.

    Returns how writes ended, and for each key the numbers whose write was acknowledged.
    """
    ended: Counter[str] = Counter()
    acknowledged: dict[str, list[int]] = {"common": []}
    until_time = time.monotonic() + seconds

    async def writer(name: str) -> None:
        acknowledged[name] = []
        async with connected(*cluster.urls) as nc:
            store = await open_store(nc, bucket)
            scope = Scope()
            turn = 0
            while time.monotonic() < until_time:
                turn += 1
                key = name if turn % 2 else "common"
                try:
                    number = int((await store.read(key, scope=scope)).content)
                except UnavailableError:
                    ended["read unavailable"] += 1
                    continue
                try:
                    await store.update(key, "a number", str(number + 1), scope=scope)
                except OutcomeUnknownError:
                    ended["unknown"] += 1
                except UnavailableError:
                    ended["unavailable"] += 1
                except StaleError as refused:
                    ended[f"{'own' if key == name else 'common'} {refused.reason}"] += 1
                else:
                    ended["acknowledged"] += 1
                    acknowledged[key].append(number + 1)

    async def killer() -> None:
        async with connected(*cluster.urls) as nc:
            for _ in range(kills):
                await asyncio.sleep(seconds / (kills + 1) / 2)
                name = None

                async def known() -> bool:
                    nonlocal name
                    name = await leader(nc, bucket)
                    return name is not None

                await until(known, "a leader", 30)
                assert name is not None
                cluster.nodes[name].kill()
                await asyncio.sleep(seconds / (kills + 1) / 2)
                await asyncio.to_thread(cluster.nodes[name].start)
                ended["leaders killed"] += 1

    names = [f"w{number}" for number in range(4)]
    async with connected(*cluster.urls) as nc:
        store = await open_store(nc, bucket)
        for key in [*names, "common"]:
            await store.create(key, "a number", "0")
    await asyncio.gather(killer(), *(writer(name) for name in names))
    return ended, acknowledged


@pytest.mark.long
@pytest.mark.timeout(300)
async def test_no_acknowledged_write_is_lost_while_leaders_die(cluster: Cluster, nc: Client, bucket: str) -> None:
    seconds = float(os.environ.get("MEMORY_SIDECAR_TEST_SECONDS", "45"))
    ended, acknowledged = await write_while_leaders_die(cluster, bucket, seconds, kills=max(2, int(seconds / 11)))
    print("\nwhile leaders died:", dict(sorted(ended.items())))
    store = await open_store(nc, bucket)

    async def final(key: str) -> int:
        number = -1

        async def answered() -> bool:
            nonlocal number
            try:
                number = int((await store.read(key)).content)
            except UnavailableError:
                return False
            return True

        await until(answered, "the cluster answers", 60)
        return number

    total = 0
    for key, numbers in acknowledged.items():
        value = await final(key)
        total += value
        # Each number was acknowledged to one writer only, and none beyond what is stored.
        assert len(set(numbers)) == len(numbers), key
        assert max(numbers, default=0) <= value, key
        # Every number that is missing among the acknowledged was reported as unknown.
        assert value - len(numbers) <= ended["unknown"], (key, value, len(numbers), ended)
    assert ended["acknowledged"] <= total <= ended["acknowledged"] + ended["unknown"]
    assert ended["acknowledged"] > 50
    assert ended["leaders killed"] >= 2
    # Nobody else writes to a writer's own key: such a refusal would be for its own write.
    assert ended["own changed"] == 0
    with pytest.raises(KeyNotFoundError):
        await store.read("never")

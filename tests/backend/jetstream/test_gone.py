"""A broker that is there while its JetStream is not, and a bucket that takes no further consumer."""

import asyncio
import json

import pytest
from nats.aio.client import Client
from tests.support.async_store import open_store
from tests.support.broker import Broker, add_bucket, api, consumers, put, until

from memory_sidecar.backend.jetstream.waiting import CALL_SECONDS
from memory_sidecar.store.errors import StoreError, UnavailableError

pytestmark = pytest.mark.anyio


@pytest.fixture
def broker(mortal_broker: Broker) -> Broker:
    return mortal_broker


async def test_calls_after_the_first_do_not_wait_while_jetstream_is_gone(broker: Broker, nc: Client) -> None:
    await add_bucket(nc, "b")
    store = await open_store(nc, "b")
    await store.create("a", "d", "1")
    broker.stop()
    without = Broker(broker.directory / "bare", port=broker.port, jetstream=False).start()
    try:
        await until(lambda: _is_connected(nc), "the client is connected to the bare broker")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with pytest.raises(UnavailableError):
            await store.read("a")
        first = loop.time() - begun
        begun = loop.time()
        for call in (store.read("a"), store.list(), store.create("b", "d", "2"), store.delete("a")):
            with pytest.raises(UnavailableError):
                await call
        # Four calls that waited as the first one did would take four times as long.
        assert first <= CALL_SECONDS * 4
        assert loop.time() - begun < first
    finally:
        without.kill()
    broker.start()

    async def answers() -> bool:
        try:
            return (await store.read("a")).content == "1"
        except StoreError:
            return False

    await until(answers, "the store answers again")


async def _is_connected(nc: Client) -> bool:
    return nc.is_connected


async def test_a_listing_needs_no_consumer_where_no_more_are_taken(nc: Client) -> None:
    bucket = await add_bucket(nc, max_consumers=1, max_msgs_per_subject=2)
    store = await open_store(nc, bucket)
    for number in range(20):
        await store.create(f"k{number:02}", f"d{number}", "c")
    await store.delete("k03")
    await put(nc, bucket, "agent.foreign", b"---\ndescription: theirs\n---\n\nx")
    await put(nc, bucket, "other.k", b"x")
    config = {"deliver_policy": "all", "ack_policy": "none", "name": "hog", "durable_name": "hog"}
    body = {"stream_name": f"KV_{bucket}", "config": config}
    await nc.request(f"$JS.API.CONSUMER.CREATE.KV_{bucket}.hog", json.dumps(body).encode(), timeout=5)
    assert await consumers(nc, bucket) == ["hog"]

    fresh = await open_store(nc, bucket)
    alone = [(item.key, item.description) for item in await fresh.list()]
    assert ("foreign", "theirs") in alone
    assert len(alone) == 20
    await api(nc, f"CONSUMER.DELETE.KV_{bucket}.hog")
    again = await open_store(nc, bucket)
    assert [(item.key, item.description) for item in await again.list()] == alone


async def test_six_agents_list_at_once_a_bucket_for_one_consumer(nc: Client, broker: Broker) -> None:
    bucket = await add_bucket(nc, max_consumers=1)
    await put(nc, bucket, "agent.k", b"x")
    stores = [await open_store(nc, bucket) for _ in range(6)]
    listings = await asyncio.gather(*(store.list() for store in stores))
    assert [len(items) for items in listings] == [1] * 6

"""The JetStream backend keeps the contract: on one server, and on three with a replicated bucket.

What a cluster changes, its conflicts and its lagging members, is in test_jetstream_cluster.py and in every run.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack

import pytest
from nats.aio.client import Client
from tests.contract.suite import BlindContract, GuardedContract, Subject
from tests.support.broker import Cluster, add_bucket, api, connected, delete_bucket, put, run_broker

from memory_sidecar.backend.jetstream.bucket import JetStreamOptions, bind
from memory_sidecar.store.contract import Store
from memory_sidecar.store.document import serialize


class _Bucket(Subject):
    backend = "jetstream"

    def __init__(self, urls: list[str], replicas: int, *, blind: bool) -> None:
        self._urls = urls
        self._replicas = replicas
        self._blind = blind
        self._connections = AsyncExitStack()
        self._opened = 0
        self._nc: Client
        self._bucket = ""

    async def __aenter__(self) -> "_Bucket":
        self._nc = await self._connections.enter_async_context(connected(*self._urls))
        self._bucket = await add_bucket(self._nc, num_replicas=self._replicas, max_msg_size=-1)
        return self

    async def __aexit__(self, *_: object) -> None:
        await delete_bucket(self._nc, self._bucket)
        await self._connections.aclose()

    async def open(self) -> Store:
        # Each with a connection of its own, on a cluster to another member.
        self._opened += 1
        nc = await self._connections.enter_async_context(connected(self._urls[self._opened % len(self._urls)]))
        return await self._bind(nc, self._bucket)

    async def unreachable(self) -> Store:
        nc = await self._connections.enter_async_context(connected(*self._urls))
        gone = await add_bucket(self._nc, num_replicas=self._replicas)
        store = await self._bind(nc, gone)
        await delete_bucket(self._nc, gone)
        return store

    async def plant(self, key: str, document: bytes) -> None:
        await put(self._nc, self._bucket, f"agent.{key}", document)

    async def stored(self) -> Mapping[str, bytes]:
        root = f"$KV.{self._bucket}.agent."
        info = await api(self._nc, f"STREAM.INFO.KV_{self._bucket}", {"subjects_filter": root + ">"})
        found = {}
        for subject in info["state"].get("subjects") or {}:
            message = await self._nc.jetstream().get_last_msg(f"KV_{self._bucket}", subject)
            if "KV-Operation" not in (message.headers or {}):
                found[subject.removeprefix(root)] = message.data or b""
        return found

    async def fill(self, count: int) -> None:
        document = serialize("one of many", "small")
        for number in range(count - 1):
            await self._nc.publish(f"$KV.{self._bucket}.agent.fill-{number:04}", document)
        await self._nc.flush()
        # On one connection in order: once the last is acknowledged, so are all.
        await self.plant(f"fill-{count - 1:04}", document)

    async def _bind(self, nc: Client, bucket: str) -> Store:
        options = JetStreamOptions(bucket, no_require_read_before_update=self._blind)
        return (await bind(nc, options, identity="agent")).store


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    with run_broker(tmp_path_factory.mktemp("broker")) as broker:
        yield [broker.url]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        yield running.start().urls
    finally:
        running.kill()


class _OnOneServer:
    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"

    @pytest.fixture
    async def subject(self, server: list[str], blind: bool) -> AsyncIterator[Subject]:
        async with _Bucket(server, 1, blind=blind) as bucket:
            yield bucket


class _OnACluster(_OnOneServer):
    @pytest.fixture
    async def subject(self, cluster: list[str], blind: bool) -> AsyncIterator[Subject]:
        async with _Bucket(cluster, 3, blind=blind) as bucket:
            yield bucket


class _Guarded:
    @pytest.fixture
    def blind(self) -> bool:
        return False


class _Blind:
    @pytest.fixture
    def blind(self) -> bool:
        return True


class TestGuarded(_Guarded, _OnOneServer, GuardedContract): ...


class TestBlind(_Blind, _OnOneServer, BlindContract): ...


@pytest.mark.long
class TestGuardedOnACluster(_Guarded, _OnACluster, GuardedContract): ...


@pytest.mark.long
class TestBlindOnACluster(_Blind, _OnACluster, BlindContract): ...

"""The JetStream backend keeps the contract: on one server, and on three with a replicated bucket.

What a cluster changes, its conflicts and its lagging members, is in test_jetstream_cluster.py and in every run.
"""

from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack

import pytest
from nats.aio.client import Client
from tests.support.broker import Cluster, Loop, add_bucket, api, connected, delete_bucket, put, run_broker

from memory_sidecar.backend.jetstream.bucket import bind
from memory_sidecar.backend.jetstream.options import JetStreamOptions
from memory_sidecar.backend.jetstream.thread import JetStreamBackend
from memory_sidecar.store.document import serialize
from memory_sidecar.testing import BackendContract, BlindContract, GuardedContract, Subject

pytestmark = pytest.mark.usefixtures("patient")


class _Bucket(Subject):
    name = "jetstream"

    def __init__(self, urls: list[str], replicas: int, loop: Loop) -> None:
        self._urls = urls
        self._replicas = replicas
        self._loop = loop
        self._connections = AsyncExitStack()
        self._opened = 0
        self._nc = self._connect()
        self._bucket = loop.run(add_bucket(self._nc, num_replicas=self._replicas, max_msg_size=-1))

    def close(self) -> None:
        self._loop.run(delete_bucket(self._nc, self._bucket))
        self._loop.run(self._connections.aclose())

    def open(self) -> JetStreamBackend:
        # Each with a connection of its own, on a cluster to another member.
        self._opened += 1
        return self._bind(self._connect(self._urls[self._opened % len(self._urls)]), self._bucket)

    def unreachable(self) -> JetStreamBackend:
        gone = self._loop.run(add_bucket(self._nc, num_replicas=self._replicas))
        store = self._bind(self._connect(), gone)
        self._loop.run(delete_bucket(self._nc, gone))
        return store

    def plant(self, key: str, document: bytes) -> None:
        self._loop.run(put(self._nc, self._bucket, f"agent.{key}", document))

    def stored(self) -> Mapping[str, bytes]:
        return self._loop.run(self._stored())

    async def _stored(self) -> Mapping[str, bytes]:
        root = f"$KV.{self._bucket}.agent."
        info = await api(self._nc, f"STREAM.INFO.KV_{self._bucket}", {"subjects_filter": root + ">"})
        found = {}
        for subject in info["state"].get("subjects") or {}:
            message = await self._nc.jetstream().get_last_msg(f"KV_{self._bucket}", subject)
            if "KV-Operation" not in (message.headers or {}):
                found[subject.removeprefix(root)] = message.data or b""
        return found

    def fill(self, count: int) -> None:
        self._loop.run(self._fill(count - 1))
        # On one connection in order: once the last is acknowledged, so are all.
        self.plant(f"fill-{count - 1:04}", serialize("one of many", "small"))

    async def _fill(self, count: int) -> None:
        document = serialize("one of many", "small")
        for number in range(count):
            await self._nc.publish(f"$KV.{self._bucket}.agent.fill-{number:04}", document)
        await self._nc.flush()

    def _connect(self, *urls: str) -> Client:
        return self._loop.run(self._connections.enter_async_context(connected(*(urls or self._urls))))

    def _bind(self, nc: Client, bucket: str) -> JetStreamBackend:
        bound = self._loop.run(bind(nc, JetStreamOptions(bucket), identity="agent"))
        return JetStreamBackend(bound.notes, self._loop.run)


@pytest.fixture(scope="module")
def loop() -> Iterator[Loop]:
    with Loop() as running:
        yield running


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
    def subject(self, server: list[str], loop: Loop) -> Iterator[Subject]:
        bucket = _Bucket(server, 1, loop)
        yield bucket
        bucket.close()


class _OnACluster:
    @pytest.fixture
    def subject(self, cluster: list[str], loop: Loop) -> Iterator[Subject]:
        bucket = _Bucket(cluster, 3, loop)
        yield bucket
        bucket.close()


class TestBackend(_OnOneServer, BackendContract): ...


class TestGuarded(_OnOneServer, GuardedContract): ...


class TestBlind(_OnOneServer, BlindContract): ...


@pytest.mark.long
class TestBackendOnACluster(_OnACluster, BackendContract): ...


@pytest.mark.long
class TestGuardedOnACluster(_OnACluster, GuardedContract): ...


@pytest.mark.long
class TestBlindOnACluster(_OnACluster, BlindContract): ...

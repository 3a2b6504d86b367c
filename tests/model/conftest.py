"""A broker with a bucket, for the models that run on JetStream."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.broker import Broker, add_bucket, connected, put, run_broker

from memory_sidecar.backend.jetstream.bucket import open_jetstream
from memory_sidecar.backend.jetstream.options import JetStreamOptions
from memory_sidecar.backend.jetstream.thread import BrokerThread
from memory_sidecar.store.authority import Store

__all__ = ["Bucket", "bucket"]


class Bucket:
    """A broker with a bucket, and connections to it that tests write through."""

    def __init__(self, tmp_path: Path, broker: Broker) -> None:
        self.broker = broker
        contexts = tmp_path / "config" / "nats" / "context"
        contexts.mkdir(parents=True)
        (contexts / "local.json").write_text(json.dumps({"url": broker.url}))
        self.config_home = str(tmp_path / "config")
        self._opened: list[BrokerThread] = []
        self.name = asyncio.run(self._make())

    async def _make(self) -> str:
        async with connected(self.broker.url) as nc:
            return await add_bucket(nc)

    def open(self, *, blind: bool = False) -> Store:
        options = JetStreamOptions(self.name, None, blind)
        thread = BrokerThread(lambda: open_jetstream(options, identity="model", context="local"))
        thread.begin()
        self._opened.append(thread)
        return thread.opened.store

    def put(self, key: str, document: bytes) -> None:
        """What `nats kv put` does."""

        async def publish() -> None:
            async with connected(self.broker.url) as nc:
                await put(nc, self.name, f"model.{key}", document)

        asyncio.run(publish())

    def close(self) -> None:
        for thread in self._opened:
            thread.close()


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    # So that SIGKILL loses nothing: what is under test is not the broker's own durability.
    config = f'jetstream {{ store_dir: "{tmp_path}/broker/store", sync_interval: always }}'
    with run_broker(tmp_path / "broker", config=config) as broker:
        made = Bucket(tmp_path, broker)
        monkeypatch.setenv("XDG_CONFIG_HOME", made.config_home)
        yield made
        made.close()

"""One real server for all tests of a file, and one for each test that stops, kills or freezes it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from nats.aio.client import Client
from tests.support.async_store import AsyncStore, open_store
from tests.support.broker import Broker, add_bucket, connected, run_broker

from memory_sidecar.backend.jetstream import waiting


@pytest.fixture
def anyio_backend() -> str:
    """The client library has its own connection, which needs asyncio."""
    return "asyncio"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with run_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def mortal_broker(tmp_path: Path) -> Iterator[Broker]:
    """A file whose tests end their server makes this its `broker`."""
    with run_broker(tmp_path) as running:
        yield running


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of what a healthy broker answers to many at once: on a busy machine no call of them gives up."""
    monkeypatch.setattr(waiting, "CALL_SECONDS", 60.0)


@pytest.fixture
async def nc(broker: Broker) -> AsyncIterator[Client]:
    async with connected(broker.url) as client:
        yield client


@pytest.fixture
async def bucket(nc: Client) -> str:
    return await add_bucket(nc)


@pytest.fixture
async def store(nc: Client, bucket: str) -> AsyncStore:
    return await open_store(nc, bucket)

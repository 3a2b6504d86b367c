"""`info --check` looks at the store without changing it, and tells all that a run would be refused for."""

import json
from pathlib import Path
from typing import Any

import pytest
from nats.js.api import KeyValueConfig
from tests.support.broker import Broker, connected, run_broker

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def jetstream(place: Any, broker: Broker, bucket: str) -> dict[str, str]:
    contexts = Path(place.path) / "nats" / "context"
    contexts.mkdir(parents=True, exist_ok=True)
    (contexts / "check.json").write_text(json.dumps({"url": broker.url}))
    (Path(place.path) / "memory.yaml").write_text(
        f"identity: a\nnats_context: check\nharness: {{memory: {{enabled: true, backend: jetstream, "
        f"options: {{bucket: {bucket}}}}}}}\n"
    )
    return {"XDG_CONFIG_HOME": str(place.path)}


async def test_bucket_state_and_all_refusals(cli: Any, place: Any, tmp_path: Path) -> None:
    with run_broker(tmp_path / "broker") as broker:
        env = jetstream(place, broker, "good")
        async with connected(broker.url) as nc:
            js = nc.jetstream()
            good = await js.create_key_value(KeyValueConfig("good", history=1, max_value_size=69600))
            await good.put("a.note", b"x")
            await good.put("a.b.note", b"x")
            await good.put("other.note", b"x")
            await js.create_key_value(KeyValueConfig("bad", ttl=60, max_value_size=100))
        config = str(Path(place.path) / "memory.yaml")

        told = cli("info", "--check", "--config", config, "--json", env=env)
        check = json.loads(told.out)["memory"]["check"]
        assert told.status == 0
        assert (check["state"]["keys_here"], check["state"]["keys_elsewhere"]) == (2, 1)
        assert check["state"]["prefixes_that_may_nest"] == ["b"]
        assert check["refused"] == []

        jetstream(place, broker, "bad")
        told = cli("info", "--check", "--config", config, env=env)
        assert told.status == 1
        assert "TTL" in told.out
        assert "caps values at 100 bytes" in told.out

        jetstream(place, broker, "missing")
        told = cli("info", "--check", "--config", config, env=env)
        assert told.status == 1
        assert "nats --context ADMIN kv add missing" in told.out


def test_files_are_counted_and_nothing_is_made(cli: Any, place: Any) -> None:
    told = cli("info", "--check", "--store-dir", str(place.path / "fresh"), "--identity", "x")
    assert told.status == 0
    assert "will be made at the first start" in told.out
    assert not (place.path / "fresh").exists()

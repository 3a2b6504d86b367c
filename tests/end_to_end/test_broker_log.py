"""What the log of a running sidecar tells of its broker: events, causes with subject and code, never a note's key."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Broker, Loop, add_bucket, connected, eventually, run_broker
from tests.support.speaker import Speaker

AGENT = {
    "publish": ["$JS.API.STREAM.INFO.KV_b", "$JS.API.STREAM.MSG.GET.KV_b", "$JS.API.CONSUMER.>"],
    "subscribe": ["_INBOX.>"],
}
USERS = [{"user": "op", "password": "p"}, {"user": "agent", "password": "p", "permissions": AGENT}]


def bucket(broker: Broker, **changes: Any) -> None:
    async def make() -> None:
        async with connected(broker.url, user="op", password="p") as nc:
            await add_bucket(nc, "b", **changes)

    with Loop() as loop:
        loop.run(make())


@pytest.fixture
def options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    config = tmp_path / "agent.yaml"
    config.write_text(
        "identity: tester\nnats_context: local\n"
        "harness: {memory: {enabled: true, backend: jetstream, options: {bucket: b}}}\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return ("--config", str(config), "--log-format", "json")


def point(tmp_path: Path, url: str, user: str) -> None:
    contexts = tmp_path / "config" / "nats" / "context"
    contexts.mkdir(parents=True)
    (contexts / "local.json").write_text(json.dumps({"url": url, "user": user, "password": "p"}))


def told(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


SECRET = {"key": "SENTINEL-key", "description": "SENTINEL d", "content": "SENTINEL c"}


def test_a_broker_that_goes_and_comes_back(tmp_path: Path, options: tuple[str, ...]) -> None:
    with run_broker(tmp_path / "broker", config=f"authorization: {json.dumps({'users': USERS})}") as broker:
        bucket(broker)
        point(tmp_path, broker.url, "op")
        with Speaker(tmp_path, *options) as speaker:
            speaker.initialize()
            assert speaker.call("memory_write", **SECRET)["structuredContent"]["written"]
            broker.stop()
            assert speaker.call("memory_read", key="SENTINEL-key")["isError"]
            broker.start()

            def answers() -> bool:
                return not speaker.call("memory_read", key="SENTINEL-key").get("isError")

            eventually(answers, "the sidecar is connected again")
            assert speaker.end() == 0
    lines = told(speaker.log)
    assert {(line["identity"], line["level"]) for line in lines} == {("tester", "warning")}
    events = [line["event"] for line in lines]
    assert events[0] == "the broker is lost"
    assert "the broker is back" in events
    failed = next(line for line in lines if line["event"] == "the store failed")
    assert "$JS.API.STREAM.MSG.GET.KV_b" in failed["cause"]
    back = next(line for line in lines if line["event"] == "the broker is back")
    assert back["server"] == f"127.0.0.1:{broker.port}"
    assert back["reconnects"] == 1
    assert "SENTINEL" not in speaker.log


def test_a_missing_permission_is_told_by_its_subject_and_no_key(tmp_path: Path, options: tuple[str, ...]) -> None:
    with run_broker(tmp_path / "broker", config=f"authorization: {json.dumps({'users': USERS})}") as broker:
        bucket(broker)
        point(tmp_path, broker.url, "agent")
        with Speaker(tmp_path, *options) as speaker:
            speaker.initialize()
            assert speaker.call("memory_write", **SECRET)["isError"]
            assert speaker.end() == 0
    lines = told(speaker.log)
    failed = next(line for line in lines if line["event"] == "the store failed")
    assert "publish to $KV.b.tester.>; allow that" in failed["remedy"]
    assert "code 403" in failed["cause"]
    refused = next(line for line in lines if line["event"] == "the broker refuses")
    assert "$kv.b.>" in refused["cause"].lower()
    assert "sentinel" not in speaker.log.lower()


def test_a_full_bucket_is_told_with_the_brokers_code(tmp_path: Path, options: tuple[str, ...]) -> None:
    with run_broker(tmp_path / "broker", config=f"authorization: {json.dumps({'users': USERS})}") as broker:
        bucket(broker, max_msgs=1)
        point(tmp_path, broker.url, "op")
        with Speaker(tmp_path, *options) as speaker:
            speaker.initialize()
            speaker.call("memory_write", key="a", description="d", content="c")
            assert speaker.call("memory_write", **SECRET)["isError"]
            assert speaker.end() == 0
    (failed,) = told(speaker.log)
    assert "error 10077, maximum messages exceeded" in failed["cause"]
    assert "nats --context ADMIN stream edit KV_b" in failed["remedy"]

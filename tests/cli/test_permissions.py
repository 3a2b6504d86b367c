"""`permissions`: every command works under exactly what it prints, and something fails with each subject less."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Broker, add_bucket, connected, consumers, put, run_broker

from .conftest import Cli, Done

NOTE = json.dumps({"key": "new", "description": "d", "content": "c"})


class Fleet:
    """A broker whose one agent may do what it was given; a domain and an inbox of its own where asked for."""

    def __init__(self, path: Path, cli: Cli, *, domain: str = "", inbox: str = "", read_only: bool = False) -> None:
        self.path = path
        self.cli = cli
        self._domain = f', domain: "{domain}"' if domain else ""
        contexts = path / "config" / "nats" / "context"
        contexts.mkdir(parents=True)
        self._context = contexts / "local.json"
        self._fields = {"jetstream_domain": domain, "inbox_prefix": inbox, "user": "agent", "password": "p"}
        self._context.write_text(json.dumps(self._fields))
        self.config = path / "agent.yaml"
        self.config.write_text(
            "identity: bot\nnats_context: local\nharness: {memory: {enabled: true, backend: jetstream, "
            f"read_only: {str(read_only).lower()}, options: {{bucket: b}}}}}}\n"
        )
        self.options = ("--config", str(self.config), "--store-dir", str(path / "base"))

    def granted(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(
            self.cli("permissions", "--json", "--inside-domain", "--config", self.config).out
        )
        return found

    def broker(self, permissions: str) -> Any:
        users = f"{{user: op, password: p}}, {{user: agent, password: p, {permissions}}}"
        config = f'jetstream {{ store_dir: "{self.path}/store"{self._domain} }}\nauthorization {{ users: [{users}] }}'
        return run_broker(self.path / "broker", config=config, jetstream=False)

    def use(self, broker: Broker) -> None:
        self._context.write_text(json.dumps({**self._fields, "url": broker.url}))

    def prepare(self, broker: Broker) -> None:
        self.use(broker)

        async def make() -> None:
            async with connected(broker.url, user="op", password="p") as nc:
                await add_bucket(nc, "b", prefix="$JS.API")
                for key in ("plain", "poison"):
                    await put(nc, "b", f"bot.{key}", b"x")

        asyncio.run(make())

    def left_over(self, broker: Broker) -> int:
        async def count() -> int:
            async with connected(broker.url, user="op", password="p") as nc:
                return len(await consumers(nc, "b"))

        return asyncio.run(count())

    def run(self, *words: str, stdin: str = "") -> Done:
        return self.cli(*words, *self.options, stdin=stdin)


@pytest.fixture(
    params=[{}, {"domain": "hub", "inbox": "_INBOX_bot"}, {"read_only": True}],
    ids=["plain", "inside a domain", "read_only"],
)
def fleet(request: pytest.FixtureRequest, tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Fleet(tmp_path, cli, **request.param)


def server(publish: list[str], subscribe: list[str]) -> str:
    return f"permissions: {json.dumps({'publish': {'allow': publish}, 'subscribe': {'allow': subscribe}})}"


def test_every_command_works_under_exactly_what_is_printed(fleet: Fleet) -> None:
    granted = fleet.granted()
    assert granted["claims"]["nats"]["pub"]["allow"] == granted["publish"]
    writes = any("$KV." in subject for subject in granted["publish"])
    with fleet.broker(granted["server"]) as broker:
        fleet.prepare(broker)
        for words in (("list",), ("show", "plain"), ("doctor",), ("info", "--check")):
            done = fleet.run(*words)
            assert done.status == 0, done
        assert fleet.run("export", "--to", str(fleet.path / "notes.jsonl")).status == 0
        if writes:
            assert fleet.run("import", "-", stdin=NOTE).status == 0
            assert fleet.run("quarantine", "poison").status == 0
            assert fleet.run("quarantine", "--restore", "poison").status == 0
        else:
            assert "does not permit" in fleet.run("import", "-", stdin=NOTE).err
        assert fleet.left_over(broker) == 0


def test_with_each_subject_less_something_fails(fleet: Fleet) -> None:
    granted = fleet.granted()
    for lacking in (*granted["publish"], *granted["subscribe"]):
        publish = [subject for subject in granted["publish"] if subject != lacking]
        subscribe = [subject for subject in granted["subscribe"] if subject != lacking]
        with fleet.broker(server(publish, subscribe or ["nowhere"])) as broker:
            fleet.use(broker)
            if not (fleet.path / "made").exists():
                fleet.prepare(broker)
                (fleet.path / "made").touch()
            done = fleet.run("import", "-", stdin=NOTE) if "$KV." in lacking else fleet.run("list")
            # Without that one nothing fails: the server itself removes a listing's consumer after ten seconds.
            assert (done.status == 0) is (".CONSUMER.DELETE." in lacking), lacking


def test_from_outside_a_domain_every_subject_begins_with_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    fleet = Fleet(tmp_path, cli, domain="hub")
    found = json.loads(cli("permissions", "--json", "--config", fleet.config).out)
    assert {subject.partition(".API.")[0] for subject in found["publish"]} == {"$JS.hub"}
    assert "$JS.hub.API.$KV.b.bot.>" in found["publish"]
    assert "set inbox_prefix" in cli("permissions", "--config", fleet.config).out


def test_files_need_none(cli: Cli, tmp_path: Path) -> None:
    done = cli("permissions", "--identity", "bot")
    assert done.status == 1
    assert "is in files" in done.err

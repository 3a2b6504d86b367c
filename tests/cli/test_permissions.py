"""`permissions`: every command works under exactly what it prints, and something fails with each subject less."""

import asyncio
import json
from pathlib import Path
from typing import Any

import nats
import pytest
from tests.support.broker import Broker, add_bucket, api, connected, consumers, put, run_broker, until
from tests.support.nkeys import KeyPair, credentials, encode_jwt, operator_config
from tests.support.ports import free_port

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

    def broker(self, *permissions: str) -> Any:
        """A broker with a user for each of these permissions: agent, agent1, agent2 ..."""
        agents = (f"{{user: agent{number or ''}, password: p, {one}}}" for number, one in enumerate(permissions))
        users = ", ".join(("{user: op, password: p}", *agents))
        config = f'jetstream {{ store_dir: "{self.path}/store"{self._domain} }}\nauthorization {{ users: [{users}] }}'
        return run_broker(self.path / "broker", config=config, jetstream=False)

    def accounts(self, mine: str, other: str) -> Any:
        """A broker on which each of the two agents has an account of its own."""
        config = (
            f'jetstream {{ store_dir: "{self.path}/store" }}\naccounts {{\n'
            f"A {{ jetstream: enabled, users: [{{user: op, password: p}}, {{user: agent, password: p, {mine}}}] }}\n"
            f"B {{ jetstream: enabled, users: [{{user: agent1, password: p, {other}}}] }} }}"
        )
        return run_broker(self.path / "broker", config=config, jetstream=False)

    def use(self, broker: Broker, number: int = 0) -> None:
        self._context.write_text(json.dumps({**self._fields, "url": broker.url, "user": f"agent{number or ''}"}))

    def authenticate(self, broker: Broker, creds: Path) -> None:
        self._context.write_text(json.dumps({"url": broker.url, "creds": str(creds)}))
        self._context.chmod(0o600)

    def prepare(self, broker: Broker) -> None:
        self.use(broker)

        async def make() -> None:
            async with connected(broker.url, user="op", password="p") as nc:
                await add_bucket(nc, "b", prefix="$JS.API")
                for key in ("plain", "poison"):
                    await put(nc, "b", f"bot.{key}", b"x")

        asyncio.run(make())

    def keys(self, broker: Broker) -> set[str]:
        """All names that the bucket has a message of."""

        async def look() -> set[str]:
            async with connected(broker.url, user="op", password="p") as nc:
                info = await api(nc, "STREAM.INFO.KV_b", {"subjects_filter": ">"})
                return {subject.removeprefix("$KV.b.") for subject in info["state"]["subjects"]}

        return asyncio.run(look())

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
            assert "poison at revision" in fleet.run("quarantine", "poison").out
            assert fleet.run("quarantine", "--restore", "poison").status == 0
        else:
            assert "does not permit" in fleet.run("import", "-", stdin=NOTE).err
        assert fleet.left_over(broker) == 0


@pytest.mark.long
def test_with_each_subject_less_something_fails(fleet: Fleet) -> None:
    granted = fleet.granted()
    lacking_fails(fleet, *granted["publish"], *granted["subscribe"])


def test_without_its_notes_subject_a_write_fails(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of the cases above, which take long, as a command waits for what it is refused."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    fleet = Fleet(tmp_path, cli)
    lacking_fails(fleet, fleet.granted()["publish"][-1])


@pytest.mark.parametrize("domain", ["", "hub"], ids=["plain", "inside a domain"])
def test_what_is_lacking_for_the_first_question_is_named(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, domain: str
) -> None:
    """A server of the domain names the subject without it, as it is asked for and granted there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    fleet = Fleet(tmp_path, cli, domain=domain)
    granted = fleet.granted()
    lacking = "$JS.API.STREAM.INFO.KV_b"
    publish = [subject for subject in granted["publish"] if subject != lacking]
    with fleet.broker(server(publish, granted["subscribe"])) as broker:
        fleet.prepare(broker)
        fleet.use(broker)
        looked = fleet.run("info", "--check")
        assert looked.status == 1
        assert f"does not permit this user to publish to {lacking}" in looked.out


def lacking_fails(fleet: Fleet, *every: str) -> None:
    """Under the set that is printed, less each of these subjects, a command fails."""
    granted = fleet.granted()
    less = []
    for lacking in every:
        publish = [subject for subject in granted["publish"] if subject != lacking]
        subscribe = [subject for subject in granted["subscribe"] if subject != lacking]
        less.append(server(publish, subscribe or ["nowhere"]))
    with fleet.broker(*less) as broker:
        fleet.prepare(broker)
        for number, lacking in enumerate(every):
            fleet.use(broker, number)
            done = fleet.run("import", "-", stdin=NOTE) if "$KV." in lacking else fleet.run("list")
            # Without that one nothing fails: the server itself removes a listing's consumer after ten seconds.
            assert (done.status == 0) is (".CONSUMER.DELETE." in lacking), lacking
            # Both commands that look say so beforehand, and change nothing by asking.
            for words in (("info", "--check", "--json"), ("doctor", "--json")):
                looked = fleet.run(*words)
                assert (looked.status == 0) is (done.status == 0), (words, lacking)
                assert (done.status == 0) or "does not permit" in looked.out, lacking
            if "$KV." in lacking:
                assert '"not-permitted"' in looked.out
        assert fleet.keys(broker) == {"bot.plain", "bot.poison"}


@pytest.mark.parametrize("boundary", ["an inbox each", "an account each"])
def test_no_agent_reads_anothers_replies_and_with_an_account_each_none_writes_by_them(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, boundary: str
) -> None:
    """Each has the set that is printed for its own inbox. A request may name any subject of its account as the place
    for its reply, and the broker itself writes there: an inbox each does not close that, as the documents say."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    fleet = Fleet(tmp_path, cli, inbox="_INBOX_bot")
    mine = fleet.granted()
    other = json.loads(json.dumps(mine).replace("_INBOX_bot", "_INBOX_spy").replace("$KV.b.bot", "$KV.spied.spy"))
    sets = [server(one["publish"], one["subscribe"]) for one in (mine, other)]
    with fleet.accounts(*sets) if boundary == "an account each" else fleet.broker(*sets) as broker:
        fleet.prepare(broker)

        async def spy() -> tuple[list[bytes], list[str], Done]:
            seen: list[bytes] = []
            refused: list[str] = []

            async def keep(message: Any) -> None:
                seen.append(message.data)

            async def refuse(error: Exception) -> None:
                refused.append(str(error).lower())

            nc = await nats.connect(
                broker.url, user="agent1", password="p", inbox_prefix=b"_INBOX_spy", error_cb=refuse
            )
            for subject in ("_INBOX_bot.>", "_INBOX.>", "$KV.b.>", ">"):
                await nc.subscribe(subject, cb=keep)
            # What the server sends as an answer must not become a note of another's either.
            request = json.dumps({"last_by_subj": "$KV.b.bot.plain"}).encode()
            await nc.publish("$JS.API.STREAM.MSG.GET.KV_b", request, reply="$KV.b.bot.planted")
            await nc.publish("$KV.b.bot.planted", b"planted")
            await nc.flush()
            done = await asyncio.to_thread(fleet.run, "list", "--json")
            await nc.flush()
            await nc.close()
            return seen, refused, done

        seen, refused, done = asyncio.run(spy())
        assert done.status == 0
        assert seen == []
        assert sum("permissions violation for subscription" in text for text in refused) == 4
        assert sum("permissions violation for publish" in text for text in refused) >= 1
        keys = [one["key"] for one in json.loads(done.out)["memories"]]
        assert keys == (["plain", "planted", "poison"] if boundary == "an inbox each" else ["plain", "poison"])


def test_as_claims_of_a_jwt_they_hold_in_operator_mode(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    fleet = Fleet(tmp_path, cli)
    claims = json.loads(cli("permissions", "--jwt", "--config", fleet.config).out)["nats"]
    operator, account, system, user = KeyPair("operator"), KeyPair("account"), KeyPair("account"), KeyPair("user")
    unlimited = {"subs": -1, "data": -1, "payload": -1}
    creds = tmp_path / "agent.creds"

    def issue(nats_claims: dict[str, Any]) -> None:
        creds.write_text(credentials(encode_jwt(account, user.public, "user", {**unlimited, **nats_claims}), user))
        creds.chmod(0o600)

    with run_broker(tmp_path / "b", config=operator_config(operator, account, system)) as broker:
        fleet.authenticate(broker, creds)
        issue({})

        async def make() -> None:
            async with connected(broker.url, creds=str(creds)) as nc:
                await add_bucket(nc, "b")
                await put(nc, "b", "bot.plain", b"x")

        asyncio.run(make())
        issue(claims)
        for words in (("list",), ("show", "plain"), ("doctor",), ("info", "--check")):
            done = fleet.run(*words)
            assert done.status == 0, done
        assert fleet.run("import", "-", stdin=NOTE).status == 0
        issue({**claims, "pub": {"allow": [one for one in claims["pub"]["allow"] if "$KV." not in one]}})
        assert "does not permit" in fleet.run("import", "-", stdin=NOTE.replace("new", "newer")).err


def test_through_a_leaf_node_of_another_domain(tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent connects to the leaf, its memory is in the hub's domain, and the leaf lets it do what is printed."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    fleet = Fleet(tmp_path, cli, domain="hub")
    granted = json.loads(cli("permissions", "--json", "--config", fleet.config).out)
    port = free_port()
    hub = (
        f'jetstream {{ store_dir: "{tmp_path}/hub", domain: hub }}\nleafnodes {{ listen: "127.0.0.1:{port}" }}\n'
        "authorization { users: [{user: op, password: p}] }"
    )
    agent = f"{{user: agent, password: p, {granted['server']}}}"
    leaf = (
        f'jetstream {{ store_dir: "{tmp_path}/leaf", domain: leaf }}\n'
        f'leafnodes {{ remotes: [{{ url: "nats-leaf://op:p@127.0.0.1:{port}" }}] }}\n'
        f"authorization {{ users: [{{user: op, password: p}}, {agent}] }}"
    )
    with (
        run_broker(tmp_path / "h", config=hub, jetstream=False) as center,
        run_broker(tmp_path / "l", config=leaf, jetstream=False) as edge,
    ):
        fleet.prepare(center)

        async def joined() -> None:
            async with connected(edge.url, user="op", password="p") as nc:

                async def reached() -> bool:
                    return bool(await api(nc, "STREAM.INFO.KV_b", prefix="$JS.hub.API"))

                await until(reached, "the leaf reaches the hub")

        asyncio.run(joined())
        fleet.use(edge)
        for words in (("list",), ("show", "plain"), ("doctor",)):
            done = fleet.run(*words)
            assert done.status == 0, done
        assert fleet.run("import", "-", stdin=NOTE).status == 0
        assert fleet.left_over(center) == 0


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

"""The operator's commands on a bucket: copied there and back, quarantined, and told what is wrong with the broker."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.broker import Broker, add_bucket, connected, delete_bucket, put, restore, run_broker, snapshot

from memory_sidecar.assemble import Arguments
from memory_sidecar.backend.jetstream.settings import WHO
from memory_sidecar.cli.shared.memory import opened
from memory_sidecar.store.scope import Scope

from .conftest import Cli, Place


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with run_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


@pytest.fixture
def bucket(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Options of a memory in a fresh bucket."""

    async def make() -> str:
        async with connected(broker.url) as nc:
            return await add_bucket(nc)

    name = asyncio.run(make())
    contexts = tmp_path / "config" / "nats" / "context"
    contexts.mkdir(parents=True)
    (contexts / "local.json").write_text(json.dumps({"url": broker.url}))
    (contexts / "gone.json").write_text(json.dumps({"url": "nats://127.0.0.1:1"}))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return configured(tmp_path, "local", name)


def configured(directory: Path, context: str, bucket: str) -> tuple[str, ...]:
    path = directory / f"{context}-{bucket}.yaml"
    path.write_text(
        f"identity: bot\nnats_context: {context}\n"
        f"harness: {{memory: {{enabled: true, backend: jetstream, options: {{bucket: {bucket}}}}}}}\n"
    )
    return ("--config", str(path), "--store-dir", str(directory / "base"))


def files(place: Place) -> tuple[str, ...]:
    path = place.path.parent / f"{place.path.name}.yaml"
    path.write_text(f"identity: bot\nharness: {{memory: {{enabled: true, options: {{directory: {place.notes}}}}}}}\n")
    return ("--config", str(path))


def test_copy_to_a_bucket_and_back(cli: Cli, bucket: tuple[str, ...], place: Place, other: Place) -> None:
    place.write("a", "b", description="yes: 'no' \U0001f404")
    place.write("c", content="\ufeff---\r\n\x00\x1b[2J\u2028 no newline")
    there = ("copy", "--from", files(place)[1], "--to", bucket[1])
    assert cli(*there, "--dry-run").out == "would be: 3 created\n"
    assert cli("list", *bucket).out == ""
    assert cli(*there) == (0, "3 created\n", "")
    assert cli(*there) == (0, "3 unchanged\n", "")
    assert cli("copy", "--from", bucket[1], "--to", files(other)[1]) == (0, "3 created\n", "")
    for name in ("a.md", "b.md", "c.md"):
        assert (other.notes / name).read_bytes() == (place.notes / name).read_bytes()
    (place.notes / "a.md").write_bytes((place.notes / "a.md").read_bytes() + b"more")
    done = cli(*there)
    assert (done.status, done.out.splitlines()[0]) == (1, "2 unchanged, 1 collided")
    assert cli(*there, "--overwrite").out == "1 overwritten, 2 unchanged\n"


def test_quarantine_from_a_bucket(cli: Cli, bucket: tuple[str, ...]) -> None:
    note = json.dumps({"key": "a", "description": "About a", "content": "x"})
    assert cli("import", "-", *bucket, stdin=note).out == "1 created\n"
    shown = json.loads(cli("show", "a", "--json", *bucket).out)
    done = cli("quarantine", "a", *bucket)
    assert (done.status, done.err.splitlines()[0].split(";")[0]) == (1, "there is no journal to answer from")
    assert cli("list", *bucket).out == ""
    assert cli("quarantine", "--restore", "a", *bucket).out == "a is back in the memory\n"
    again = json.loads(cli("show", "a", "--json", *bucket).out)
    assert again["content"] == shown["content"]
    assert again["revision"] != shown["revision"]


@pytest.mark.parametrize("raw", [b"\xff\xfe not text", b"x" * 200_000], ids=["no text", "larger than a note may be"])
def test_a_value_that_is_no_readable_note_is_quarantined_from_a_bucket_and_listed_by_age(
    cli: Cli, bucket: tuple[str, ...], broker: Broker, tmp_path: Path, raw: bytes
) -> None:
    async def make() -> str:
        async with connected(broker.url) as nc:
            name = await add_bucket(nc, max_msg_size=-1)
            await put(nc, name, "bot.bad", raw)
            await put(nc, name, "bot.after", b"x")
            return name

    options = configured(tmp_path, "local", asyncio.run(make()))
    found = json.loads(cli("list", "--sort", "age", "--json", *options).out)["memories"]
    assert [note["key"] for note in found] == ["bad", "after"]
    found = json.loads(cli("list", "--sort", "size", "--json", *options).out)["memories"]
    assert [note["bytes"] for note in found] == [len(raw), 1]
    assert "bad is quarantined" in cli("quarantine", "bad", *options).err
    assert "bad" not in cli("list", *options).out
    assert cli("quarantine", "--restore", "bad", *options).status == 0
    with opened(Arguments(config=options[1])) as memory:
        assert memory.store.backend.get("bad").document == raw


def test_only_the_revision_that_was_copied_is_removed(bucket: tuple[str, ...]) -> None:
    with opened(Arguments(config=bucket[1])) as memory:

        def remove(key: str, revision: str | None) -> bool:
            return memory.store.delete(key, expected=revision)

        old, new = Scope(), Scope()
        memory.store.create("a", "About a", "x", scope=old)
        memory.store.update("a", "About a", "y", scope=Scope(old.snapshot()))
        assert remove("a", old.revision("a")) is False
        assert memory.read("a", new).content == "y"
        assert remove("a", new.revision("a")) is True
        assert memory.list() == []
        assert remove("a", new.revision("a")) is False
        assert remove("never", "1") is False


def test_doctor_and_the_broker(cli: Cli, bucket: tuple[str, ...], tmp_path: Path) -> None:
    assert "0 of 1024 notes" in cli("doctor", *bucket).out
    for context, name, says in (
        ("local", "missing", 'KV bucket "missing" does not exist'),
        ("gone", "any", "cannot be reached"),
        ("nowhere", "any", 'the NATS context "nowhere" does not exist'),
    ):
        options = configured(tmp_path, context, name)
        done = cli("doctor", *options)
        assert done.status == 1
        assert says in done.out
        done = cli("list", *options)
        assert (done.status, done.out) == (78, "")
        assert says in done.err


@pytest.mark.parametrize(
    ("changes", "says", "command"),
    [
        (
            {"storage": "memory"},
            "is kept in memory",
            "kv add {bucket}-2 --history=1 --max-value-size=69600 --storage=file",
        ),
        ({}, "has one replica", "nats --context ADMIN stream edit KV_{bucket} --replicas=3"),
    ],
)
def test_doctor_tells_what_a_bucket_can_lose(
    cli: Cli,
    bucket: tuple[str, ...],
    broker: Broker,
    tmp_path: Path,
    changes: dict[str, str],
    says: str,
    command: str,
) -> None:
    async def make() -> str:
        async with connected(broker.url) as nc:
            return await add_bucket(nc, **changes)

    name = asyncio.run(make())
    done = cli("doctor", "--json", *configured(tmp_path, "local", name))
    assert done.status == 0  # it works: this is worth knowing, not wrong
    notes = [
        check for check in json.loads(done.out)["checks"] if check["check"] == "broker" and check["state"] == "note"
    ]
    assert len(notes) == 1
    assert says in notes[0]["found"]
    assert command.format(bucket=name) in notes[0]["mend"]


@pytest.mark.parametrize(
    ("used", "state", "says"),
    [(9, "note", "soon new notes will be refused"), (10, "wrong", "so new notes are refused")],
)
def test_doctor_tells_that_a_bucket_is_full_or_soon_will_be(
    cli: Cli, bucket: tuple[str, ...], broker: Broker, tmp_path: Path, used: int, state: str, says: str
) -> None:
    async def make() -> str:
        async with connected(broker.url) as nc:
            name = await add_bucket(nc, max_msgs=10)
            for number in range(used):
                await put(nc, name, f"bot.k{number}", b"x")
            return name

    name = asyncio.run(make())
    done = cli("doctor", "--json", *configured(tmp_path, "local", name))
    assert done.status == (1 if state == "wrong" else 0)
    told = [check for check in json.loads(done.out)["checks"] if says in check["found"]]
    assert [check["state"] for check in told] == [state]
    assert f"stream edit KV_{name} --max-msgs=20" in told[0]["mend"]


def test_doctor_names_the_command_that_removes_marks_of_deletions(
    cli: Cli, bucket: tuple[str, ...], broker: Broker, tmp_path: Path
) -> None:
    async def make() -> str:
        async with connected(broker.url) as nc:
            name = await add_bucket(nc)
            for number in range(1024):
                await nc.publish(f"$KV.{name}.bot.k{number}", b"", headers={"KV-Operation": "DEL"})
            await put(nc, name, "bot.last", b"x")
            return name

    name = asyncio.run(make())
    told = json.loads(cli("doctor", "--json", *configured(tmp_path, "local", name)).out)["checks"]
    marks = [check for check in told if "1024 marks of deletions" in check["found"]]
    assert [check["mend"] for check in marks] == [f"remove them: nats --context ADMIN kv compact {name}{WHO}"]


def test_quarantine_works_on_a_full_bucket(cli: Cli, bucket: tuple[str, ...], broker: Broker, tmp_path: Path) -> None:
    async def make() -> str:
        async with connected(broker.url) as nc:
            name = await add_bucket(nc, max_msgs=2, max_msgs_per_subject=3)
            await put(nc, name, "bot.poison", b"x")
            await put(nc, name, "bot.other", b"x")
            return name

    options = configured(tmp_path, "local", asyncio.run(make()))
    done = cli("quarantine", "poison", *options)
    assert "poison at revision 1" in done.out
    assert [line.split()[0] for line in cli("list", *options).out.splitlines()[1:]] == ["other"]


def test_missing_permission_is_named_to_the_operator(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish = ["$JS.API.STREAM.INFO.KV_b", "$JS.API.STREAM.MSG.GET.KV_b"]
    users = [
        {"user": "admin", "password": "a"},
        {"user": "agent", "password": "a", "permissions": {"publish": publish, "subscribe": "_INBOX.>"}},
    ]
    with run_broker(tmp_path / "b", config=f"authorization: {json.dumps({'users': users})}") as broker:

        async def make() -> None:
            async with connected(broker.url, user="admin", password="a") as nc:
                await add_bucket(nc, "b")
                await put(nc, "b", "bot.k", b"x")

        asyncio.run(make())
        contexts = tmp_path / "config" / "nats" / "context"
        contexts.mkdir(parents=True)
        (contexts / "local.json").write_text(json.dumps({"url": broker.url, "user": "agent", "password": "a"}))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        options = configured(tmp_path, "local", "b")
        for command in ("doctor", "list"):
            done = cli(command, *options)
            assert done.status == 1
            assert "publish to $JS.API.CONSUMER.CREATE.KV_b.>" in done.out + done.err
            assert "memory-sidecar permissions --config FILE" in done.out + done.err


def test_a_note_that_nested_prefixes_share_is_looked_for_under_each_of_its_names(
    cli: Cli, bucket: tuple[str, ...], tmp_path: Path
) -> None:
    """And what another agent has under the same key, in a prefix of its own, is no gap in the answer."""
    base = tmp_path / "base"

    def place(identity: str) -> tuple[str, ...]:
        path = tmp_path / f"{identity}.yaml"
        path.write_text(Path(bucket[1]).read_text().replace("identity: bot", f"identity: {identity}"))
        return ("--config", str(path), "--store-dir", str(base))

    def run(identity: str, tool: str, key: str) -> None:
        note = {"description": "d", "content": "x"} if tool == "memory_write" else {}
        launch = {"config": tmp_path / f"{identity}.yaml"}
        Place(base, identity).calls("main", (tool, {"key": key, **note}), **launch)

    places = {identity: place(identity) for identity in ("team", "team.b", "solo", "other")}
    run("team", "memory_write", "b.plan")
    run("team.b", "memory_read", "plan")
    run("solo", "memory_write", "b.plan")
    run("other", "memory_write", "plan")
    told = json.loads(cli("runs", "--saw", "b.plan", "--json", *places["team"]).out)
    met = [(one["identity"], one["what"]) for one in told["seen"]]
    assert met[:2] == [("team", "created"), ("team.b", "read")]
    done = cli("quarantine", "b.plan", "--json", *places["team"])
    answer = json.loads(done.out)
    assert (done.status, answer["complete"]) == (0, True), done.err
    assert [(one["identity"], one["what"]) for one in answer["seen"]] == met[:2]
    assert [one["identity"] for one in answer["others"]] == ["other", "solo"]


@pytest.mark.parametrize("how", ["restored", "restored, and written there since", "made again"])
def test_quarantine_over_a_restored_bucket(
    cli: Cli, bucket: tuple[str, ...], broker: Broker, tmp_path: Path, how: str
) -> None:
    """Whoever met the very document that is there now met it in this bucket as it was: its runs are all asked."""
    name, launch = bucket[1].rpartition("-")[2].removesuffix(".yaml"), {"config": Path(bucket[1])}
    place = Place(tmp_path / "base")
    note = {"description": "d", "content": "x"}
    place.calls("wrote", ("memory_write", {"key": "a", **note}), **launch)
    place.calls("listed", ("memory_list", {}), **launch)

    async def again() -> None:
        async with connected(broker.url) as nc:
            saved = await snapshot(nc, name)
            await delete_bucket(nc, name)
            if how == "made again":
                await add_bucket(nc, bucket=name)
            else:
                await restore(nc, name, saved)

    asyncio.run(again())
    if how == "made again":
        place.calls("after", ("memory_write", {"key": "a", **note}), **launch)
    elif how != "restored":
        read = ("memory_read", {"key": "a"})
        place.calls("after", read, ("memory_write", {"key": "a", **note, "overwrite": True}), **launch)
    done = cli("quarantine", "a", "--json", *bucket)
    assert done.out, done.err
    answer = json.loads(done.out)
    met = {(one["run"], one["what"]) for one in answer["seen"]}
    listed = {one["run"] for one in answer["listed"]}
    if how == "restored":
        assert (done.status, answer["complete"], answer["left_out"]) == (0, True, []), done.err
        assert met == {("wrote", "created")}
        assert listed == {"listed"}
        assert "incomplete" not in done.err
    else:  # another document, of which nothing proves that the earlier runs were where it is
        assert (done.status, answer["complete"]) == (1, False)
        assert {run for run, _ in met} == {"after"}
        assert {one["run"] for one in answer["left_out"]} == {"wrote", "listed"}


WRONG = [
    ({"max_age": 3_600_000_000_000}, "has a TTL"),
    ({"max_msg_size": 1000}, "caps values"),
    ({"discard": "old", "max_msgs": 50}, "discards its oldest"),
    ({"persist_mode": "async"}, "persist_mode"),
    ({"max_msgs_per_subject": -1}, "any number of old values"),
]


@pytest.mark.parametrize(("changes", "says"), WRONG, ids=lambda one: one if isinstance(one, str) else "")
def test_what_is_in_a_bucket_with_a_wrong_setting_is_saved_before_it_is_mended(
    cli: Cli, bucket: tuple[str, ...], broker: Broker, tmp_path: Path, other: Place, changes: dict[str, int], says: str
) -> None:
    async def make() -> str:
        async with connected(broker.url) as nc:
            name = await add_bucket(nc, **changes)
            await put(nc, name, "bot.a", b"text")
            return name

    options = configured(tmp_path, "local", asyncio.run(make()))
    done = cli("export", *options)
    assert done.status == 0
    assert '"content": "text"' in done.out
    assert done.err.startswith("note: runs are refused here, and this only reads: KV bucket")
    assert says in done.err
    assert len(done.err.splitlines()) == 1
    assert cli("list", *options).status == cli("show", "a", *options).status == 0
    assert cli("copy", "--from", options[1], "--to", files(other)[1]).out == "1 created\n"
    # What changes, or foretells a change, is refused as a run is.
    for words in (("copy", "--from", files(other)[1], "--to", options[1], "--dry-run"), ("quarantine", "a", *options)):
        assert cli(*words).status == 78
    assert cli("doctor", *options).status == 1


@pytest.mark.parametrize("changes", [{"retention": "workqueue"}, {"retention": "interest"}, {"subjects": ["else.>"]}])
def test_what_reading_could_harm_is_not_read(
    cli: Cli, bucket: tuple[str, ...], broker: Broker, tmp_path: Path, changes: dict[str, str]
) -> None:
    async def make() -> str:
        async with connected(broker.url) as nc:
            return await add_bucket(nc, **changes)

    assert cli("export", *configured(tmp_path, "local", asyncio.run(make()))).status == 78


def test_a_monitor_of_one_server_accepts_what_is_known_of_it(cli: Cli, bucket: tuple[str, ...]) -> None:
    found = json.loads(cli("doctor", "--json", *bucket).out)["checks"]
    others = {one["code"] for one in found if one["state"] == "note"} - {"bucket-may-lose", "ticket-none"}
    accepted = [word for code in others for word in ("--accept", code)]
    assert cli("doctor", "--strict", *accepted, *bucket).status == 1
    assert cli("doctor", "--strict", *accepted, "--accept", "bucket-may-lose", *bucket).status == 0

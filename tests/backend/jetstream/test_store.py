"""The JetStream backend against one real server."""

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nats.aio.client import Client
from nats.js.api import KeyValueConfig
from tests.support.async_store import AsyncStore, open_store
from tests.support.broker import (
    Broker,
    add_bucket,
    api,
    connected,
    consumers,
    delete_bucket,
    put,
    run_broker,
    until,
)

from memory_sidecar.backend.jetstream import notes as jetstream_notes
from memory_sidecar.backend.jetstream import scans as jetstream_scans
from memory_sidecar.backend.jetstream.bucket import bind
from memory_sidecar.backend.jetstream.message import Attempt, Document
from memory_sidecar.backend.jetstream.options import JetStreamOptions, nesting
from memory_sidecar.backend.jetstream.settings import WHO
from memory_sidecar.backend.opened import BackendError
from memory_sidecar.store.contract import Entry, Item
from memory_sidecar.store.document import UNREADABLE, serialize
from memory_sidecar.store.errors import (
    InvalidError,
    KeyExistsError,
    KeyNotFoundError,
    StaleError,
    StoreFullError,
    UnavailableError,
    UnreadableError,
)
from memory_sidecar.store.rules import MAX_CONTENT_BYTES, MAX_ENTRIES, MAX_ENTRY_BYTES
from memory_sidecar.store.scope import Scope

pytestmark = pytest.mark.anyio


# Binding


async def test_missing_bucket_is_refused_with_the_command_that_makes_it(nc: Client) -> None:
    with pytest.raises(BackendError) as refused:
        await bind(nc, JetStreamOptions("nowhere"), identity="agent")
    assert str(refused.value) == (
        'KV bucket "nowhere" does not exist; create it with: '
        f"nats --context ADMIN kv add nowhere --history=1 --max-value-size=69600{WHO}"
    )


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_age": 3_600_000_000_000}, "TTL"),
        ({"max_msg_size": 65536}, "caps values at 65536 bytes, below the 69600"),
        ({"discard": "old", "max_msgs": 10}, "discards its oldest values beyond 10 messages"),
        ({"discard": "old", "max_bytes": 100_000_000}, "discards its oldest values beyond 100000000 bytes"),
        ({"discard_new_per_subject": True}, "refuses overwrites"),
        ({"max_msgs_per_subject": -1}, "which other clients refuse to open"),
        ({"retention": "workqueue"}, "removes values"),
        ({"subjects": ["elsewhere.>"]}, "only has the name"),
        ({"no_ack": True}, "confirms no writes"),
        ({"persist_mode": "async"}, "persist_mode: async"),
        ({"allow_msg_counter": True, "discard": "old"}, "holds counters"),
    ],
)
async def test_bucket_that_would_lose_memories_is_refused(nc: Client, changes: dict[str, Any], words: str) -> None:
    bucket = await add_bucket(nc, **changes)
    with pytest.raises(BackendError, match=words):
        await open_store(nc, bucket)


async def test_mirror_is_refused(nc: Client, bucket: str) -> None:
    mirror = await add_bucket(nc, subjects=[], mirror={"name": f"KV_{bucket}"}, allow_rollup_hdrs=False)
    with pytest.raises(BackendError, match="mirror"):
        await open_store(nc, mirror)


@pytest.mark.parametrize("changes", [{"max_msg_size": -1}, {"discard": "old"}, {"max_msgs_per_subject": 5}])
async def test_harmless_settings_bind(nc: Client, changes: dict[str, Any]) -> None:
    bucket = await add_bucket(nc, **changes)
    assert (await open_store(nc, bucket)).info() == ("jetstream", bucket)


@pytest.mark.parametrize("name", ["a.b", "", "a b", "b\n", "é", "../x"])
async def test_bucket_name_is_checked(nc: Client, name: str) -> None:
    with pytest.raises(BackendError, match=r"options\.bucket"):
        await open_store(nc, name)


@pytest.mark.parametrize("prefix", [".a", "a.", "a..b", "a/b", "a*", ">", "a\n"])
async def test_prefix_is_checked(nc: Client, bucket: str, prefix: str) -> None:
    with pytest.raises(BackendError, match=r"options\.prefix"):
        await open_store(nc, bucket, prefix)


async def test_identity_is_checked_only_where_it_becomes_the_prefix(nc: Client, bucket: str) -> None:
    with pytest.raises(BackendError, match=r"set identity .* or set harness.memory.options.prefix"):
        await bind(nc, JetStreamOptions(bucket), identity="my agent")
    await bind(nc, JetStreamOptions(bucket, "shared"), identity="my agent")


async def test_jetstream_off_is_told(tmp_path: Path) -> None:
    with run_broker(tmp_path, jetstream=False) as broker:
        async with connected(broker.url) as nc:
            with pytest.raises(BackendError, match="enable it on the server"):
                await open_store(nc, "b")


async def test_jetstream_off_for_the_account_is_told(tmp_path: Path) -> None:
    accounts = (
        "accounts { on { jetstream: enabled, users: [{user: a, password: a}] }, "
        "off { users: [{user: b, password: b}] } }"
    )
    with run_broker(tmp_path, config=accounts) as broker:
        async with connected(broker.url, user="b", password="b") as nc:
            with pytest.raises(BackendError, match="account"):
                await open_store(nc, "b")


NEEDED = {
    "info": "$JS.API.STREAM.INFO.KV_b",
    "get": "$JS.API.STREAM.MSG.GET.KV_b",
    "create": "$JS.API.CONSUMER.CREATE.KV_b.>",
    "next": "$JS.API.CONSUMER.MSG.NEXT.KV_b.>",
    "delete": "$JS.API.CONSUMER.DELETE.KV_b.>",
}


async def test_missing_permission_is_told_by_the_subject_to_allow(tmp_path: Path) -> None:
    def user(name: str, publish: list[str], subscribe: str = "_INBOX.>") -> dict[str, Any]:
        return {"user": name, "password": "a", "permissions": {"publish": publish, "subscribe": subscribe}}

    lacking = {name: f"publish to {subject}" for name, subject in NEEDED.items() if name != "delete"}
    users = [
        {"user": "admin", "password": "a"},
        *(user(name, [subject for subject in NEEDED.values() if subject != NEEDED[name]]) for name in lacking),
        user("deaf", list(NEEDED.values()), "elsewhere.>"),
    ]
    with run_broker(tmp_path, config=f"authorization: {json.dumps({'users': users})}") as broker:
        async with connected(broker.url, user="admin", password="a") as nc:
            await add_bucket(nc, "b")
            await put(nc, "b", "agent.k", b"x")
        for name, subject in (lacking | {"deaf": "subscribe to _INBOX.>"}).items():
            async with connected(broker.url, user=name, password="a") as nc:
                with pytest.raises((BackendError, UnavailableError)) as refused:
                    await (await open_store(nc, "b")).list()
            # What a model may see names no subject; what an operator is told does.
            told = refused.value.remedy if isinstance(refused.value, UnavailableError) else str(refused.value)
            assert f"does not permit this user to {subject}; allow that" in told, name
            assert "memory-sidecar permissions --config FILE" in told
            assert "$" not in str(refused.value) or isinstance(refused.value, BackendError)
    table = Path("docs/jetstream.md").read_text()
    for subject in NEEDED.values():
        assert f"`{subject.replace('KV_b', 'KV_<bucket>')}`" in table


async def test_documented_permissions_suffice_and_lesser_ones_are_told(tmp_path: Path) -> None:
    reading = list(NEEDED.values())
    writing = [*reading, "$KV.b.agent.>"]
    users = [
        {"user": "admin", "password": "a"},
        {"user": "reader", "password": "a", "permissions": {"publish": reading, "subscribe": "_INBOX.>"}},
        {"user": "writer", "password": "a", "permissions": {"publish": writing, "subscribe": "_INBOX.>"}},
        {"user": "blind", "password": "a", "permissions": {"publish": reading[:2], "subscribe": "_INBOX.>"}},
    ]
    with run_broker(tmp_path, config=f"authorization: {json.dumps({'users': users})}") as broker:
        async with connected(broker.url, user="admin", password="a") as nc:
            await add_bucket(nc, "b")
            await put(nc, "b", "agent.plain", b"x")
        async with connected(broker.url, user="writer", password="a") as nc:
            store = await open_store(nc, "b")
            await store.create("k", "d", "c", scope=(scope := Scope()))
            await store.update("k", "d", "c2", scope=scope)
            assert len(await store.list()) == 2
            await store.delete("plain")
        async with connected(broker.url, user="reader", password="a") as nc:
            store = await open_store(nc, "b")
            assert (await store.read("k", scope=scope)).content == "c2"
            assert len(await store.list()) == 1
            for call in (store.create("n", "d", "c"), store.update("k", "d", "c", scope=scope), store.delete("k")):
                with pytest.raises(UnavailableError, match="does not permit"):
                    await call
        async with connected(broker.url, user="blind", password="a") as nc:
            store = await open_store(nc, "b")
            with pytest.raises(UnavailableError, match="does not permit"):
                await store.list()


async def test_silent_broker_is_told_within_ten_seconds(tmp_path: Path) -> None:
    with run_broker(tmp_path) as broker:
        async with connected(broker.url) as nc:
            with broker.frozen():
                start = asyncio.get_running_loop().time()
                with pytest.raises(BackendError, match="did not answer"):
                    await open_store(nc, "b")
                assert asyncio.get_running_loop().time() - start < 10.5


async def test_fingerprint_tells_stores_apart(nc: Client, bucket: str) -> None:
    first = (await open_store(nc, bucket)).fingerprint
    assert first == (await open_store(nc, bucket)).fingerprint
    others = {(await open_store(nc, bucket, prefix)).fingerprint for prefix in ("", "other")}
    others.add((await open_store(nc, await add_bucket(nc))).fingerprint)
    await delete_bucket(nc, bucket)
    await add_bucket(nc, bucket)
    others.add((await open_store(nc, bucket)).fingerprint)
    assert len(others) == 4
    assert first not in others
    assert bucket not in first


# Keys and prefixes


@pytest.mark.parametrize(("prefix", "stored"), [(None, "agent.k"), ("p.q", "p.q.k"), ("", "k")])
async def test_stored_name(nc: Client, bucket: str, prefix: str | None, stored: str) -> None:
    store = await open_store(nc, bucket, prefix)
    await store.create("k", "d", "c")
    message = await api(nc, f"STREAM.MSG.GET.KV_{bucket}", {"last_by_subj": f"$KV.{bucket}.{stored}"})
    assert message["message"]["seq"] == 1


async def test_prefixes_that_resemble_each_other_see_nothing_of_each_other(nc: Client, bucket: str) -> None:
    names = ["a", "a-b", "aa", "a=", "A"]
    stores = {name: await open_store(nc, bucket, name) for name in names}
    for name, store in stores.items():
        await store.create("k", name, name)
    for name, store in stores.items():
        assert await store.list() == [Item("k", name)]
        assert await store.read("k") == Entry(name, name)


def test_nesting_is_told() -> None:
    assert nesting("a", ["b", "ab"]) == []
    assert any("prefix a.b" in note for note in nesting("a", ["a.b"]))
    assert any("prefix a see" in note for note in nesting("a.b"))
    assert nesting("")
    assert any("flat" in note for note in nesting("a", [""]))


async def test_illegal_key_is_refused_before_the_bucket_is_touched(store: AsyncStore, nc: Client, bucket: str) -> None:
    for key in ("", "a/b", "a b", ".a", "a.", "a..b", "a\n", "*", ">", "a.>", "k" * 201, "é"):
        for call in (
            store.read(key),
            store.delete(key),
            store.create(key, "d", "c"),
            store.update(key, "d", "c", scope=Scope({key: "1"})),
        ):
            with pytest.raises(InvalidError):
                await call
    assert (await api(nc, f"STREAM.INFO.KV_{bucket}"))["state"]["last_seq"] == 0


async def test_planted_illegal_keys_are_invisible(store: AsyncStore, nc: Client, bucket: str) -> None:
    await put(nc, bucket, "agent.a/b", b"x")
    await put(nc, bucket, "agent." + "k" * 201, b"x")
    await put(nc, bucket, "agent.é", b"x")
    await store.create("k", "d", "c")
    assert await store.list() == [Item("k", "d")]


# Values


async def test_values_of_the_other_implementation_read_the_same(store: AsyncStore, nc: Client, bucket: str) -> None:
    await put(nc, bucket, "agent.go", b"---\ndescription: 'Build: use make, not go build'\n---\n\nRun `make all`.\n")
    await put(nc, bucket, "agent.long", b'---\ndescription: "caf\xc3\xa9 \\U0001F600"\n---\n\nbody')
    await put(nc, bucket, "agent.bare", b"no header at all\n")
    assert await store.read("go") == Entry("Build: use make, not go build", "Run `make all`.\n")
    assert await store.list() == [
        Item("bare", ""),
        Item("go", "Build: use make, not go build"),
        Item("long", "café \U0001f600"),
    ]


async def test_stored_bytes_are_the_shared_document(store: AsyncStore, nc: Client, bucket: str) -> None:
    await store.create("k", "On: fire", "body\r\n\x00 end")
    answer = await nc.request(f"$JS.API.DIRECT.GET.KV_{bucket}.$KV.{bucket}.agent.k", timeout=5)
    assert answer.data == serialize("On: fire", "body\r\n\x00 end")


@pytest.mark.parametrize("worst", ["\\", "'", "\U0001f600", "\u0378", "\ue000", '"'])
async def test_full_entry_with_the_worst_description_fits(nc: Client, bucket: str, worst: str) -> None:
    # The longest names too: they ride in a header, which the bucket's cap counts.
    store = await open_store(nc, bucket, "p" * 180)
    description, content, scope = "d" + worst * 499, "\u20ac" * (MAX_CONTENT_BYTES // 3) + "e", Scope()
    await store.create("k" * 200, description, content, scope=scope)
    await store.update("k" * 200, description, content, scope=scope)
    assert await store.read("k" * 200) == Entry(description, content)
    assert await store.list() == [Item("k" * 200, description)]


@given(st.text(max_size=600), st.booleans())
def test_no_legal_entry_outgrows_the_documented_cap(description: str, full: bool) -> None:
    content = "x" * (MAX_CONTENT_BYTES if full else 0)
    try:
        document = Document(serialize(description, content))
    except InvalidError:
        return
    newest = 2**63
    attempt = Attempt("s" * 700, newest, created="", newest=newest, begun=0.0)
    for guard in (None, newest):
        headers = document.headers | attempt.headers("$KV." + "b" * 200 + "." + "p" * 200 + ".", guard)
        lines = sum(len(f"{name}: {value}\r\n".encode()) for name, value in headers.items())
        assert len("NATS/1.0\r\n\r\n") + lines + len(document.data) <= MAX_ENTRY_BYTES


async def test_a_bucket_that_the_python_client_made_will_do(nc: Client) -> None:
    await nc.jetstream().create_key_value(KeyValueConfig("made-in-python", history=1, max_value_size=MAX_ENTRY_BYTES))
    store = await open_store(nc, "made-in-python", "p")
    await store.create("k", "d", "c")
    assert await store.read("k") == Entry("d", "c")


async def test_unreadable_values_hide_nothing_and_are_left_alone(store: AsyncStore, nc: Client, bucket: str) -> None:
    big = await add_bucket(nc, max_msg_size=-1)
    for where in (bucket, big):
        store = await open_store(nc, where)
        await store.create("fine", "d", "c")
        await put(nc, where, "agent.latin", b"caf\xe9")
        if where == big:
            await put(nc, where, "agent.large", b"x" * 70_000)
        bad = [Item("large", UNREADABLE)] * (where == big) + [Item("latin", UNREADABLE)]
        assert await store.list() == [Item("fine", "d"), *bad]
        for key, _ in bad:
            scope = Scope()
            with pytest.raises(UnreadableError):
                await store.read(key, scope=scope)
            with pytest.raises(UnreadableError):
                await store.delete(key, scope=scope)
            with pytest.raises(KeyExistsError):
                await store.create(key, "d", "c", scope=scope)
            with pytest.raises(StaleError):
                await store.update(key, "d", "c", scope=scope)
            blind = await open_store(nc, where, no_require_read_before_update=True)
            with pytest.raises(UnreadableError):
                await blind.update(key, "d", "c", scope=scope)
            assert scope.snapshot() == {}


# Authority


async def test_authority(store: AsyncStore, nc: Client, bucket: str) -> None:
    mine, other = Scope(), Scope()
    with pytest.raises(KeyNotFoundError):
        await store.read("k", scope=mine)
    with pytest.raises(StaleError, match="not read"):
        await store.update("k", "d", "c", scope=mine)
    await store.create("k", "d", "1", scope=mine)
    await store.update("k", "d", "2", scope=mine)
    await store.list()
    for scope in (other, None):
        with pytest.raises(StaleError) as refused:
            await store.update("k", "d", "x", scope=scope)
        assert refused.value.reason == "not_read"
    with pytest.raises(KeyExistsError):
        await store.create("k", "d", "x", scope=other)
    assert other.snapshot() == {}
    await store.read("k", scope=other)
    await store.update("k", "d", "3", scope=other)
    with pytest.raises(StaleError) as refused:
        await store.update("k", "d", "x", scope=mine)
    assert refused.value.reason == "changed"
    assert mine.revision("k") is None
    assert (await store.read("k", scope=mine)).content == "3"
    assert await store.delete("k", scope=mine)
    assert mine.revision("k") is None
    assert not await store.delete("k", scope=mine)
    await store.create("k", "d", "again")
    with pytest.raises(StaleError):
        await store.update("k", "d", "x", scope=other)
    assert (await store.read("k")).content == "again"


@pytest.mark.parametrize("revision", ["", "x", "0", "-1", "1x", "1\n", "1@", "1@2020-01-01T00:00:00Z", "9" * 30, "2"])
async def test_made_up_revisions_authorise_nothing(store: AsyncStore, revision: str) -> None:
    await store.create("k", "d", "c")
    with pytest.raises(StaleError) as refused:
        await store.update("k", "d", "x", scope=Scope({"k": revision}))
    assert refused.value.reason == "changed"


async def test_blind_overwrite(nc: Client, bucket: str) -> None:
    store = await open_store(nc, bucket, no_require_read_before_update=True)
    await store.update("k", "d", "1")
    await store.update("k", "d", "2", scope=(scope := Scope()))
    assert (await store.read("k")).content == "2"
    assert (scope.revision("k") or "").startswith("2@")
    await store.delete("k")
    await store.update("k", "d", "3", scope=scope)
    assert (await store.read("k")).content == "3"


async def test_delete_markers_of_others_are_understood(store: AsyncStore, nc: Client, bucket: str) -> None:
    for key, headers in (
        ("del", {"KV-Operation": "DEL"}),
        ("purge", {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}),
    ):
        await store.create(key, "d", "c", scope=(scope := Scope()))
        await put(nc, bucket, f"agent.{key}", b"", headers)
        assert await store.list() == []
        assert not await store.delete(key)
        with pytest.raises(KeyNotFoundError):
            await store.read(key)
        with pytest.raises(StaleError):
            await store.update(key, "d", "x", scope=scope)
        await store.create(key, "d", "again")
        assert await store.delete(key)


@pytest.mark.parametrize(
    "headers", [{"KV-Operation": "PUT"}, {"KV-Operation": "put"}, {"KV-Operation": ""}, {"Nats-Marker-Reason": "mine"}]
)
async def test_whatever_is_no_deletion_is_a_value(
    store: AsyncStore, nc: Client, bucket: str, headers: dict[str, str]
) -> None:
    await put(nc, bucket, "agent.k", b"---\ndescription: d\n---\n\ntheirs", headers)
    assert await store.list() == [Item("k", "d")]
    with pytest.raises(KeyExistsError):
        await store.create("k", "d", "ours")
    scope = Scope()
    assert (await store.read("k", scope=scope)).content == "theirs"
    await store.update("k", "d", "ours", scope=scope)
    await put(nc, bucket, "agent.k", b"theirs", headers)
    with pytest.raises(StaleError):
        await store.update("k", "d", "ours again", scope=scope)
    assert await store.delete("k")
    assert await store.list() == []


async def test_only_the_revision_that_was_copied_is_removed(nc: Client, bucket: str) -> None:
    store = await open_store(nc, bucket)
    await store.create("k", "d", "1", scope=(scope := Scope()))
    first = scope.revision("k") or ""
    await store.update("k", "d", "2", scope=scope)
    assert not await store.delete("k", expected=first)
    assert not await store.delete("k", expected="made up")
    assert (await store.read("k")).content == "2"
    assert await store.delete("k", expected=scope.revision("k") or "")
    assert not await store.delete("k", expected=scope.revision("k") or "")
    assert not await store.delete("k", expected="3"), "that is where the mark of the deletion stands"
    assert await store.list() == []


async def test_purged_key_counts_as_changed(store: AsyncStore, nc: Client, bucket: str) -> None:
    await store.create("k", "d", "c", scope=(scope := Scope()))
    await api(nc, f"STREAM.PURGE.KV_{bucket}", {"filter": f"$KV.{bucket}.agent.k"})
    with pytest.raises(StaleError) as refused:
        await store.update("k", "d", "x", scope=scope)
    assert refused.value.reason == "changed"
    await store.create("k", "d", "c", scope=scope)
    await store.update("k", "d", "x", scope=scope)


async def test_bucket_made_again_honours_no_old_revision(store: AsyncStore, nc: Client, bucket: str) -> None:
    scope = Scope()
    await store.create("k", "d", "mine", scope=scope)
    old = scope.revision("k") or ""
    await delete_bucket(nc, bucket)
    with pytest.raises(UnavailableError, match="bucket was deleted"):
        await store.read("k")
    with pytest.raises(UnavailableError, match="bucket was deleted"):
        await store.update("k", "d", "x", scope=scope)
    await add_bucket(nc, bucket)
    assert await put(nc, bucket, "agent.k", b"theirs") == 1
    assert (scope.revision("k") or "").startswith("1@")
    with pytest.raises(StaleError) as refused:
        await store.update("k", "d", "x", scope=scope)
    assert refused.value.reason == "changed"
    assert (await store.read("k", scope=scope)).content == "theirs"
    await store.update("k", "d", "x", scope=scope)
    await store.update("k", "d", "y", scope=scope)
    # Nor does a store bound to the new bucket honour what was said of another one.
    fresh = await open_store(nc, bucket)
    with pytest.raises(StaleError):
        await fresh.update("k", "d", "z", scope=Scope({"k": old}))


# Listing


@pytest.mark.parametrize("deleted", [0, 1, 7])
@pytest.mark.parametrize("stored", [0, 1, 63, 64, 130])
async def test_a_first_listing_waits_an_instant_at_most(
    nc: Client, bucket: str, stored: int, deleted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(nc, bucket, "agent", stored)
    writer = await open_store(nc, bucket)
    for number in range(deleted):
        await writer.create(f"gone{number}", "d", "c")
        await writer.delete(f"gone{number}")
    waits = Waits()
    monkeypatch.setattr(jetstream_scans, "asyncio", waits)
    for _ in range(10):  # one of them meets a broker that is not busy with something else
        waits.longest = 0.0
        assert len(await (await open_store(nc, bucket)).list()) == stored
        assert await consumers(nc, bucket) == []
        if waits.longest < 0.02:
            break
    else:
        pytest.fail("each listing waits longer than it takes a broker to start what it was asked for")


class Waits:
    """The module, for code whose sleeps are looked at."""

    longest = 0.0

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    async def sleep(self, seconds: float) -> None:
        self.longest = max(self.longest, seconds)
        await asyncio.sleep(seconds)


@pytest.mark.usefixtures("patient")
async def test_listing_under_constant_writes(store: AsyncStore, nc: Client, bucket: str, broker: Broker) -> None:
    keys = [f"k{number:03}" for number in range(300)]
    for key in keys:
        await store.create(key, f"d {key}", "c")
    done = asyncio.Event()

    async def keep_writing() -> int:
        count = 0
        async with connected(broker.url) as other:
            while not done.is_set():
                await put(
                    other,
                    bucket,
                    f"agent.{keys[count * 7 % 300]}",
                    b"plain" if count % 2 else serialize("e", "x" * 999),
                )
                count += 1
        return count

    writers = [asyncio.create_task(keep_writing()) for _ in range(3)]
    for _ in range(10):
        assert [item.key for item in await store.list()] == keys
    done.set()
    assert sum(await asyncio.gather(*writers)) > 30
    assert await consumers(nc, bucket) == []


async def test_listing_transfers_no_bodies_of_ours(store: AsyncStore, nc: Client) -> None:
    for number in range(20):
        await store.create(f"k{number}", "d", "x" * MAX_CONTENT_BYTES)
    before = nc.stats["in_bytes"]
    assert len(await store.list()) == 20
    # One value is looked at, the newest: its sequence tells when the listing is complete.
    assert nc.stats["in_bytes"] - before < 2 * MAX_CONTENT_BYTES


async def test_a_header_that_differs_from_its_value_is_listed_and_never_read(
    store: AsyncStore, nc: Client, bucket: str
) -> None:
    await put(
        nc, bucket, "agent.k", b"---\ndescription: of the value\n---\n\nbody", {"Memory-Description": "of the header"}
    )
    assert await store.list() == [Item("k", "of the header")]
    assert await store.read("k") == Entry("of the value", "body")
    await put(nc, bucket, "agent.k", b"---\ndescription: of the value\n---\n\nbody")  # without one the value is read
    assert await store.list() == [Item("k", "of the value")]


async def test_cancelled_listing_leaves_no_consumer(store: AsyncStore, nc: Client, bucket: str) -> None:
    for number in range(200):
        await put(nc, bucket, f"agent.k{number}", b"x" * 50_000)
    for delay in (0.001, 0.005, 0.01, 0.02, 0.05):
        task = asyncio.create_task(store.list())
        await asyncio.sleep(delay)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled() or len(task.result()) == 200

        async def gone() -> bool:
            return await consumers(nc, bucket) == []

        await until(gone, "the consumer is gone")


# Capacity


async def fill(nc: Client, bucket: str, prefix: str, count: int) -> None:
    """As quickly as it goes. The last one is acknowledged, and so all of them are stored: a flush says less."""
    for number in range(count - 1):
        await nc.publish(f"$KV.{bucket}.{prefix}.f{number}", b"x")
    if count:
        await put(nc, bucket, f"{prefix}.f{count - 1}", b"x")


@pytest.mark.usefixtures("patient")
async def test_capacity_counts_live_entries_of_this_prefix(store: AsyncStore, nc: Client, bucket: str) -> None:
    await fill(nc, bucket, "other", MAX_ENTRIES + 10)
    for number in range(30):
        await store.create(f"gone{number}", "d", "c")
        await store.delete(f"gone{number}")
    await fill(nc, bucket, "agent", MAX_ENTRIES - 1)
    await store.create("gone1", "d", "c")
    assert len(await store.list()) == MAX_ENTRIES
    with pytest.raises(StoreFullError):
        await store.create("more", "d", "c")
    with pytest.raises(KeyExistsError):
        await store.create("gone1", "d", "c")
    await store.read("f3", scope=(scope := Scope()))
    await store.update("f3", "d", "an overwrite needs no room", scope=scope)
    await store.delete("f4")
    await store.create("more", "d", "c")


@pytest.mark.usefixtures("patient")
async def test_only_creates_that_met_near_the_limit_wait_for_each_other(
    store: AsyncStore, nc: Client, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.create("note", "d", "c")
    with monkeypatch.context() as patched:
        patched.setattr(jetstream_notes.random, "uniform", lambda *_: pytest.fail("it waits"))
        await store.delete("note")
        await store.create("note", "d", "over the mark of a deletion")
        with pytest.raises(KeyExistsError):
            await store.create("note", "d", "taken")
    await fill(nc, bucket, "agent", MAX_ENTRIES - 10)
    await asyncio.gather(*(store.create(f"racing{number}", "d", "c") for number in range(8)))


@pytest.mark.usefixtures("patient")
async def test_capacity_is_exact_among_racing_writers(nc: Client, bucket: str, broker: Broker) -> None:
    await fill(nc, bucket, "agent", MAX_ENTRIES - 5)

    async def race(name: str) -> int:
        async with connected(broker.url) as own:
            store = await open_store(own, bucket)
            stored = 0
            for number in range(4):
                with suppress(StoreFullError):
                    while True:
                        # So close to the limit every create of the prefix meets the others; on a busy machine
                        # one may lose every time, and is told so.
                        with suppress(UnavailableError):
                            await store.create(f"{name}-{number}", "d", "c")
                            stored += 1
                            break
            return stored

    results = await asyncio.gather(*(race(f"w{number}") for number in range(6)))
    assert sum(results) == 5
    assert len(await (await open_store(nc, bucket)).list()) == MAX_ENTRIES


async def test_full_bucket_is_told(nc: Client) -> None:
    bucket = await add_bucket(nc, max_bytes=100_000)
    store = await open_store(nc, bucket)
    await store.create("a", "d", "x" * 60_000)
    with pytest.raises(StoreFullError):
        await store.create("b", "d", "x" * 60_000)
    assert await store.list() == [Item("a", "d")]


# Many writers


@pytest.mark.usefixtures("patient")
async def test_eight_writers_count_together(nc: Client, bucket: str, broker: Broker) -> None:
    store = await open_store(nc, bucket)
    await store.create("n", "a number", "0")

    async def count() -> int:
        acknowledged = 0
        async with connected(broker.url) as own:
            store = await open_store(own, bucket)
            scope = Scope()
            while acknowledged < 25:
                number = int((await store.read("n", scope=scope)).content)
                with suppress(StaleError):
                    await store.update("n", "a number", str(number + 1), scope=scope)
                    acknowledged += 1
        return acknowledged

    assert sum(await asyncio.gather(*(count() for _ in range(8)))) == 200
    assert (await store.read("n")).content == "200"


@pytest.mark.usefixtures("patient")
async def test_one_of_many_creates_and_deletes_wins(nc: Client, bucket: str, broker: Broker) -> None:
    async with connected(broker.url) as second:
        stores = [await open_store(client, bucket) for client in (nc, second)]
        for _ in range(20):
            created = await asyncio.gather(
                *(store.create("k", "d", "c") for store in stores * 4), return_exceptions=True
            )
            assert created.count(None) == 1
            assert all(isinstance(result, KeyExistsError) for result in created if result is not None)
            deleted = await asyncio.gather(*(store.delete("k") for store in stores * 4))
            assert sorted(deleted) == [False] * 7 + [True]

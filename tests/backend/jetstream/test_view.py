"""Listings that ask only for what is new say what one from scratch says, whatever other programs did meanwhile."""

import asyncio
import itertools
import random
import shutil
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client
from tests.support.async_store import AsyncStore, open_store
from tests.support.broker import Broker, add_bucket, api, connected, consumers, delete_bucket, put, run_broker

from memory_sidecar.backend.jetstream import message as jetstream_message
from memory_sidecar.backend.jetstream import view as jetstream_view
from memory_sidecar.store.contract import Item
from memory_sidecar.store.document import serialize
from memory_sidecar.store.errors import KeyExistsError, StoreError, StoreFullError
from memory_sidecar.store.rules import MAX_CONTENT_BYTES, MAX_ENTRIES
from memory_sidecar.store.scope import Scope

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("patient")]


class Counted:
    """A connection that counts requests by kind. Everything about them is real."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self.made: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._nc, name)

    async def request(self, subject: str, data: bytes = b"", **options: Any) -> Any:
        kinds = ("CONSUMER.CREATE", "MSG.GET", "STREAM.INFO", "$KV")
        self.made[next((kind for kind in kinds if kind in subject), "other")] += 1
        return await self._nc.request(subject, data, **options)


class Others:
    """What other programs, other runs and operators do to a bucket, one random thing at a time."""

    def __init__(self, nc: Client, bucket: str, source: random.Random) -> None:
        self._nc = nc
        self._bucket = bucket
        self._source = source
        self._turn = 0
        self.own: AsyncStore
        """The store whose listings are looked at: it writes too."""

    async def act(self) -> str:
        self._turn += 1
        key = f"k{self._source.randrange(12)}"
        name = self._source.choice(
            ["put"] * 4
            + ["own write"] * 4
            + ["write", "write", "own remove", "remove", "mark", "purge mark", "purge", "illegal", "elsewhere", "burst"]
            + ["rollup", "anew"] * (self._turn % 7 == 0)
        )
        await getattr(self, name.replace(" ", "_"))(key)
        return f"{name} {key}"

    async def put(self, key: str) -> None:
        text = self._source.choice(["plain", "---\ndescription: 'yes'\n---\n\nbody", "caf\u00e9"])
        await put(self._nc, self._bucket, f"agent.{key}", f"{text} {self._turn}".encode())

    async def own_write(self, key: str) -> None:
        await self._write(self.own, key)

    async def own_remove(self, key: str) -> None:
        await self.own.delete(key)

    async def write(self, key: str) -> None:
        await self._write(await open_store(self._nc, self._bucket), key)

    async def _write(self, store: AsyncStore, key: str) -> None:
        try:
            await store.create(key, f"ours {self._turn}", "c")
        except KeyExistsError:
            await store.read(key, scope=(scope := Scope()))
            await store.update(key, f"ours {self._turn}", "c", scope=scope)

    async def remove(self, key: str) -> None:
        await (await open_store(self._nc, self._bucket)).delete(key)

    async def mark(self, key: str) -> None:
        await put(self._nc, self._bucket, f"agent.{key}", b"", {"KV-Operation": "DEL"})

    async def purge_mark(self, key: str) -> None:
        headers = {"KV-Operation": "PURGE", "Nats-Rollup": "sub"}
        await put(self._nc, self._bucket, f"agent.{key}", b"", headers)

    async def purge(self, key: str) -> None:
        """`nats kv compact`, or `nats stream purge --subject`: the key and its marks are gone without a trace."""
        await api(self._nc, f"STREAM.PURGE.KV_{self._bucket}", {"filter": f"$KV.{self._bucket}.agent.{key}"})

    async def illegal(self, key: str) -> None:
        await put(self._nc, self._bucket, f"agent.{key}/x", b"not a key")

    async def elsewhere(self, key: str) -> None:
        await put(self._nc, self._bucket, f"other.{key}", b"another agent's")

    async def burst(self, key: str) -> None:
        for number in range(15):
            await put(self._nc, self._bucket, f"agent.{key}{number % 9}", str(number).encode())

    async def rollup(self, key: str) -> None:
        await put(self._nc, self._bucket, f"agent.{key}", b"all else is gone", {"Nats-Rollup": "all"})

    async def anew(self, key: str) -> None:
        await delete_bucket(self._nc, self._bucket)
        await add_bucket(self._nc, self._bucket)
        await self.burst(key)


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 30))])
async def test_what_is_listed_is_what_a_listing_from_scratch_says(nc: Client, bucket: str, seed: int) -> None:
    source = random.Random(seed)
    others, counted = Others(nc, bucket, source), Counted(nc)
    store = others.own = await open_store(counted, bucket)
    done = []
    listings = 0
    for _ in range(70):
        done.append(await others.act())
        if source.random() < 0.7:
            listings += 1
            assert await store.list() == await (await open_store(nc, bucket)).list(), done
    assert await consumers(nc, bucket) == []
    # Most listings needed no pass, or this test is about nothing.
    assert counted.made["CONSUMER.CREATE"] < listings / 2


async def test_listing_again_takes_no_pass_and_parses_nothing_again(
    nc: Client, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: Counter[bytes] = Counter()
    parse = jetstream_message.parse_description

    def counting(prefix: bytes, size: int) -> str | None:
        parsed[prefix] += 1
        return parse(prefix, size)

    monkeypatch.setattr(jetstream_message, "parse_description", counting)
    store = await open_store(counted := Counted(nc), bucket)
    for number in range(150):
        await put(nc, bucket, f"agent.k{number}", serialize(f"About {number}", "x"))
    first = await store.list()
    made = counted.made.copy()
    assert await store.list() == first
    await put(nc, bucket, "agent.k7", serialize("Seven", "x"))
    expected = [item._replace(description="Seven") if item.key == "k7" else item for item in first]
    assert await store.list() == expected
    assert counted.made["CONSUMER.CREATE"] == made["CONSUMER.CREATE"]
    assert (len(parsed), set(parsed.values())) == (151, {1})
    # Also where a pass has to be made again.
    for number in range(20):
        await put(nc, bucket, f"agent.k{number}", serialize("New", "y" * number))
    assert len(await store.list()) == 150
    assert counted.made["CONSUMER.CREATE"] > made["CONSUMER.CREATE"]
    assert (len(parsed), set(parsed.values())) == (171, {1})


async def test_listing_again_transfers_no_bodies_of_what_stayed(nc: Client, bucket: str) -> None:
    store = await open_store(nc, bucket)
    for number in range(20):
        await put(nc, bucket, f"agent.k{number}", b"x" * MAX_CONTENT_BYTES)
    assert len(await store.list()) == 20
    before = nc.stats["in_bytes"]
    assert len(await store.list()) == 20
    # One value is looked at, the newest: it tells that the bucket is still the one that was seen.
    assert nc.stats["in_bytes"] - before < 2 * MAX_CONTENT_BYTES


async def test_requests_that_calls_take(nc: Client, bucket: str) -> None:
    """What is asked for together counts as one round trip; what goes between two of them must be looked at first."""
    await put(nc, bucket, "other.k", b"another agent's")
    store = await open_store(counted := Counted(nc), bucket)
    made: list[dict[str, int]] = []

    async def count(call: Awaitable[object]) -> None:
        before = counted.made.copy()
        await call
        made.append(dict(counted.made - before))

    await count(store.list())  # of none: what there is, and which is the newest
    await count(store.list())  # the stream has grown, by what concerns others
    await count(store.list())
    await count(store.create("a", "d", "c"))
    await count(store.list())
    await count(store.create("b", "d", "c"))
    await count(store.list())  # the own note, and the one that was seen before
    await count(store.list())
    look, change = {"STREAM.INFO": 1, "MSG.GET": 1}, {"STREAM.INFO": 1, "MSG.GET": 1, "$KV": 1}
    assert made == [
        look,
        look,
        {"STREAM.INFO": 1},
        change,
        look,
        change,
        {"STREAM.INFO": 1, "MSG.GET": 2},
        look,
    ]


async def fill(nc: Client, bucket: str, count: int) -> None:
    for number in range(count):
        await nc.publish(f"$KV.{bucket}.agent.f{number}", b"x")
    await nc.flush()
    await put(nc, bucket, f"agent.f{count - 1}", b"x")


async def test_creates_near_the_limit_take_no_pass_and_know_what_was_purged(nc: Client, bucket: str) -> None:
    await fill(nc, bucket, MAX_ENTRIES - 3)
    store = await open_store(counted := Counted(nc), bucket)
    await store.create("a", "d", "c")
    made = counted.made.copy()
    await store.create("b", "d", "c")
    await store.create("c", "d", "c")
    with pytest.raises(StoreFullError):
        await store.create("d", "d", "c")
    assert counted.made["CONSUMER.CREATE"] == made["CONSUMER.CREATE"]
    # Nothing tells of a purge but the list of what is there; each time it is the newest, or not.
    for key in ("f5", "f5", "b"):
        await api(nc, f"STREAM.PURGE.KV_{bucket}", {"filter": f"$KV.{bucket}.agent.{key}"})
        await store.create(key, "again", "c")
        with pytest.raises(StoreFullError):
            await store.create("d", "d", "c")
    assert len(await store.list()) == MAX_ENTRIES


async def test_value_that_comes_back_when_a_newer_one_is_removed_is_seen(nc: Client) -> None:
    bucket = await add_bucket(nc, max_msgs_per_subject=5, deny_delete=False)
    store = await open_store(nc, bucket)
    await put(nc, bucket, "agent.k", serialize("old", "x"))
    newer = await put(nc, bucket, "agent.k", serialize("new", "x"))
    await put(nc, bucket, "agent.z", serialize("z", "x"))
    assert await store.list() == [Item("k", "new"), Item("z", "z")]
    await api(nc, f"STREAM.MSG.DELETE.KV_{bucket}", {"seq": newer, "no_erase": True})
    assert await store.list() == [Item("k", "old"), Item("z", "z")]


class Unbroken:
    """A connection that does not tell that it was made anew, as one over a leaf node does not."""

    stats: dict[str, int] = {"reconnects": 0}  # noqa: RUF012 - never written

    def __init__(self, nc: Client) -> None:
        self._nc = nc

    def __getattr__(self, name: str) -> Any:
        return getattr(self._nc, name)


# The newest known message is another now, or gone without a trace, or replaced: then only the new connection tells.
@pytest.mark.parametrize(
    ("tells", "names"),
    [
        (False, ["agent.other", "agent.more", "agent.last", "agent.end"]),
        (False, ["agent.lost", "agent.gone", "elsewhere.x", "agent.end"]),
        (True, ["agent.lost", "agent.gone", "elsewhere.x", "agent.last"]),
        (False, ["agent.lost", "agent.gone", "agent.last"]),
    ],
)
@pytest.mark.parametrize("own", ["none", "lost", "later"])
async def test_broker_that_lost_its_last_writes_is_seen_through(
    tmp_path: Path, tells: bool, names: list[str], own: str
) -> None:
    """After a power cut a broker on one node goes on from before, and gives sequences anew."""
    with run_broker(tmp_path / "broker") as broker:
        async with connected(broker.url) as nc:
            await add_bucket(nc, "b")
            await put(nc, "b", "agent.first", serialize("first", "x"))
        broker.stop()
        shutil.copytree(broker.directory / "store", tmp_path / "before")
        broker.start()
        async with connected(broker.url) as nc:
            store = await open_store(nc if tells else Unbroken(nc), "b")
            assert len(await store.list()) == 1
            for name in ("lost", "gone", "last"):
                await (
                    store.create(name, name, "x")
                    if own == "lost"
                    else put(nc, "b", f"agent.{name}", serialize(name, "x"))
                )
            if own != "lost":
                assert len(await store.list()) == 4
            broker.kill()
            shutil.rmtree(broker.directory / "store")
            shutil.copytree(tmp_path / "before", broker.directory / "store")
            broker.start()
            for name in names:
                await until_put(nc, name, serialize(f"new {name}", "x"))
            if own == "later":
                await store.create("own", "d", "c")
            assert await store.list() == await (await open_store(nc, "b")).list()


async def until_put(nc: Client, name: str, data: bytes) -> None:
    while True:
        try:
            await put(nc, "b", name, data)
            return
        except Exception:  # noqa: BLE001 - the connection is on its way back; the test's own limit ends it
            await asyncio.sleep(0.05)


async def test_bucket_made_again_with_other_notes_at_the_same_places_is_another(nc: Client, bucket: str) -> None:
    store = await open_store(nc, bucket)
    for name in ("agent.a", "agent.z"):
        await put(nc, bucket, name, serialize("old", "x"))
    assert len(await store.list()) == 2
    await delete_bucket(nc, bucket)
    await add_bucket(nc, bucket)
    for name in ("agent.a", "other.x", "agent.z"):
        await put(nc, bucket, name, serialize("new", "x"))
    assert await store.list() == [Item("a", "new"), Item("z", "new")]


class Meanwhile:
    """A connection on which something happens right after the next answer that lists subjects."""

    def __init__(self, nc: Client) -> None:
        self._nc = nc
        self.then: Callable[[], Awaitable[None]] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._nc, name)

    async def request(self, subject: str, data: bytes = b"", **options: Any) -> Any:
        answer = await self._nc.request(subject, data, **options)
        if b"subjects_filter" in data and self.then is not None:
            then, self.then = self.then, None
            await then()
        return answer


async def test_what_changes_during_a_listing_hides_nothing_that_changed_before(nc: Client, bucket: str) -> None:
    store = await open_store(meanwhile := Meanwhile(nc), bucket)

    async def change(*names: str) -> None:
        for name in names:
            await put(nc, bucket, f"agent.{name}", serialize(f"{name} {next(turn)}", "x"))

    turn = itertools.count()
    await change("a", "b", "c")
    await store.list()
    await change("a", "b")
    meanwhile.then = lambda: change("a", "b", "new")
    listed = dict(await store.list())
    assert listed["b"] in ("b 4", "b 6")
    assert dict(await store.list()) == {"a": "a 5", "b": "b 6", "c": "c 2", "new": "new 7"}


async def test_very_many_subjects_are_listed_and_not_kept(
    nc: Client, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jetstream_view, "MOST_KEPT", 40)
    store = await open_store(nc, bucket)
    await fill(nc, bucket, 40)
    assert len(await store.list()) == 40
    assert store.notes._view._held is not None
    await put(nc, bucket, "agent.one-more", b"x")
    for _ in range(2):
        assert len(await store.list()) == 41
        assert store.notes._view._held is None


async def test_calls_at_once_agree(nc: Client, bucket: str, broker: Broker) -> None:
    """Listings and creates of one store overlap, while another store writes: each sees its own past."""
    await fill(nc, bucket, MAX_ENTRIES - 30)
    store = await open_store(nc, bucket)
    written: set[str] = set()

    async def write(name: str) -> None:
        async with connected(broker.url) as own:
            writing = store if name == "a" else await open_store(own, bucket)
            for number in range(8):
                try:
                    await writing.create(f"{name}{number}", "d", "c")
                except StoreError:
                    continue
                written.add(f"{name}{number}")

    async def look() -> None:
        for _ in range(12):
            before = set(written)
            assert before <= {item.key for item in await store.list()}

    await asyncio.gather(write("a"), write("b"), look(), look())
    assert {item.key for item in await store.list()} >= written

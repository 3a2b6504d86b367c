"""Settings of a bucket that an operator changes under a running sidecar, and buckets that are full."""

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from nats.aio.client import Client
from tests.support.async_store import AsyncStore, open_store
from tests.support.broker import Broker, add_bucket, api, connected, delete_bucket, put, run_broker

from memory_sidecar.backend.jetstream import settings
from memory_sidecar.backend.jetstream import watched as watched_module
from memory_sidecar.backend.jetstream.api import RefusedError, StreamInfo
from memory_sidecar.backend.jetstream.refused import no_room
from memory_sidecar.store.contract import Item
from memory_sidecar.store.errors import StoreFullError, UnavailableError
from memory_sidecar.store.scope import Scope

pytestmark = pytest.mark.anyio

OPERATOR = "{user: op, password: p}"
AGENT = """{user: agent, password: p, permissions: {
  publish: ["$JS.API.STREAM.INFO.*", "$JS.API.STREAM.MSG.GET.*", "$JS.API.CONSUMER.>", "$KV.>"], subscribe: ["_INBOX.>"]
}}"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    users = f"accounts {{ A {{ jetstream: enabled, users: [{OPERATOR}, {AGENT}] }} }}"
    with run_broker(tmp_path_factory.mktemp("broker"), config=users) as running:
        yield running


@pytest.fixture
async def nc(broker: Broker) -> AsyncIterator[Client]:
    async with connected(broker.url, user="op", password="p") as client:
        yield client


@pytest.fixture
async def agent(broker: Broker) -> AsyncIterator[Client]:
    async with connected(broker.url, user="agent", password="p") as client:
        yield client


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for name in ("error", "warning"):
        monkeypatch.setattr(
            watched_module.log, name, lambda event, **fields: lines.append((event, str(fields.get("reason", ""))))
        )
    return lines


async def change(nc: Client, bucket: str, **changes: Any) -> dict[str, Any]:
    """Set what `nats stream edit` sets; returns what was set before."""
    config: dict[str, Any] = (await api(nc, f"STREAM.INFO.KV_{bucket}"))["config"]
    await api(nc, f"STREAM.UPDATE.KV_{bucket}", config | changes)
    return {name: config.get(name) for name in changes}


@pytest.mark.parametrize(
    ("harm", "word"),
    [
        (lambda _: {"max_age": 3_600_000_000_000}, "TTL"),
        (lambda _: {"discard": "old", "max_msgs": 5}, "discards its oldest"),
        (lambda _: {"discard": "old", "max_bytes": 500_000}, "discards its oldest"),
        (lambda bucket: {"subject_transform": {"src": f"$KV.{bucket}.>", "dest": "lost.>"}}, "subject_transform"),
        (lambda _: {"no_ack": True}, "no_ack"),
        (lambda _: {"max_msg_size": 1000}, "caps values"),
    ],
)
async def test_changes_stop_while_the_bucket_would_lose_them(
    nc: Client, logged: list[tuple[str, str]], harm: Callable[[str], dict[str, Any]], word: str
) -> None:
    bucket = await add_bucket(nc)
    store = await open_store(nc, bucket)
    scope = Scope()
    await store.create("a", "d", "1", scope=scope)
    before = await change(nc, bucket, **harm(bucket))
    for refused in (
        store.create("b", "d", "1"),
        store.update("a", "d", "2", scope=scope),
        store.delete("a", scope=scope),
    ):
        with pytest.raises(UnavailableError, match="would lose or refuse notes") as error:
            await refused
        assert word in error.value.remedy
    assert (await store.read("a", scope=scope)).content == "1"
    assert [event for event, _ in logged] == ["changes are refused: the bucket was changed"]
    assert word in logged[0][1]

    await change(nc, bucket, **before)
    await store.update("a", "d", "2", scope=scope)
    await store.create("b", "d", "1")
    assert [event for event, _ in logged][1:] == ["changes are taken again: the bucket was mended"]


async def test_a_listing_sees_a_changed_bucket_too(nc: Client, logged: list[tuple[str, str]]) -> None:
    bucket = await add_bucket(nc)
    store = await open_store(nc, bucket)
    await store.list()
    await change(nc, bucket, max_age=3_600_000_000_000)
    assert await store.list() == []
    assert len(logged) == 1


async def test_nothing_is_stored_where_the_broker_would_remove_it_at_once(nc: Client) -> None:
    bucket = await add_bucket(nc)
    store = await open_store(nc, bucket)
    await change(nc, bucket, retention="interest")
    with pytest.raises(UnavailableError) as refused:
        await store.create("a", "d", "1")
    assert "removes values" in refused.value.remedy


async def test_a_bucket_made_again_is_judged_anew(nc: Client) -> None:
    bucket = await add_bucket(nc)
    store = await open_store(nc, bucket)
    await delete_bucket(nc, bucket)
    await add_bucket(nc, bucket, persist_mode="async")
    with pytest.raises(UnavailableError) as refused:
        await store.create("a", "d", "1")
    assert "persist_mode: async" in refused.value.remedy


# A full bucket

FULL = [
    {"max_bytes": 20_000},
    {"max_msgs": 5},
    {"max_bytes": 20_000, "max_msgs_per_subject": 5},
    {"max_msgs": 5, "max_msgs_per_subject": 3},
]


async def fill(nc: Client, bucket: str, store: AsyncStore) -> None:
    """Fill it up with notes whose marks of deletion are larger than they are."""
    await put(nc, bucket, "agent.a", b"x")
    await put(nc, bucket, "agent.b", b"x" * 1000)
    number = 0
    for size in (2000, 1):
        while True:
            answer = json.loads((await nc.request(f"$KV.{bucket}.other.k{number}", b"y" * size, timeout=5)).data)
            number += 1
            if "error" in answer:
                break
    with pytest.raises(StoreFullError, match="no room left") as full:
        await store.create("c", "d", "x")
    assert f"nats --context ADMIN stream edit KV_{bucket} --max-bytes" in full.value.remedy


@pytest.mark.parametrize("limits", FULL)
async def test_a_full_bucket_lets_those_delete_who_may_purge(nc: Client, limits: dict[str, Any]) -> None:
    bucket = await add_bucket(nc, **limits)
    store = await open_store(nc, bucket)
    await fill(nc, bucket, store)
    scope = Scope()
    await store.read("a", scope=scope)
    assert await store.delete("a", expected=scope.revision("a"))
    assert await store.delete("b")
    assert not await store.delete("b")
    assert await store.list() == []
    assert await (await open_store(nc, bucket)).list() == []


@pytest.mark.parametrize("limits", FULL)
async def test_a_model_that_does_what_the_refusal_says_loses_no_note_in_vain(
    nc: Client, agent: Client, limits: dict[str, Any]
) -> None:
    """A mark keeps the place of what is deleted, so that a model would delete one note after the other."""
    bucket = await add_bucket(nc, **limits)
    store = await open_store(agent, bucket)
    await fill(nc, bucket, store)
    with pytest.raises(StoreFullError) as full:
        await store.create("c", "d", "x")
    assert "delete" not in str(full.value).lower()
    assert {item.key for item in await store.list()} == {"a", "b"}


@pytest.mark.parametrize(
    "config",
    [
        {"subjects": ["$KV.b.>"], "max_age": 1, "discard": "old", "max_msgs": 5, "max_msg_size": 5, "no_ack": True},
        {"subjects": ["elsewhere"], "persist_mode": "async", "retention": "interest", "sealed": True},
        {"subjects": ["$KV.b.>"], "storage": "memory", "max_msgs": 5, "max_bytes": 100},
    ],
)
def test_what_an_agent_may_not_do_is_asked_of_no_context_of_an_agent(config: dict[str, Any]) -> None:
    peers = ({"name": "p", "offline": True},)
    info = StreamInfo(config, "", 5, 5, 3, frozenset(), messages=5, stored_bytes=100, peers=peers)
    full, soon = settings.limits("b", info)
    told = [
        *settings.refusals("b", config),
        *settings.risks("b", config),
        *full,
        *soon,
        *settings.absent_replicas("b", info),
    ]
    remedies = [one.remedy for one in told]
    remedies += [no_room(RefusedError(503, code, "full"), "b") for code in (10077, 10047)]
    assert len(remedies) > 4
    for remedy in remedies:
        commands = re.findall(r"\bnats (\S+ \S+)", remedy)
        assert set(commands) <= {"--context ADMIN"}, remedy
        assert (settings.WHO in remedy) == bool(commands)


GOOD = {"subjects": ["$KV.b.>"], "max_msgs_per_subject": 1, "discard": "new"}


@pytest.mark.parametrize(
    ("changes", "edit"),
    [
        ({"max_age": 1}, "stream edit KV_b --max-age=0s"),
        ({"discard": "old", "max_msgs": 5}, "stream edit KV_b --discard=new"),
        ({"discard": "old", "max_bytes": 5}, "stream edit KV_b --discard=new"),
        ({"max_msg_size": 69599}, "stream edit KV_b --max-msg-size=69600"),
        ({"max_msgs_per_subject": -1}, "stream edit KV_b --max-msgs-per-subject=1"),
        ({"no_ack": True}, "stream edit KV_b --ack"),
        ({"persist_mode": "async"}, "kv add b-2 --history=1 --max-value-size=69600"),
        ({"retention": "workqueue"}, "kv add b-2 --history=1 --max-value-size=69600"),
        ({"subjects": ["other"]}, "kv add b-2 --history=1 --max-value-size=69600"),
        ({"sealed": True}, "kv add b-2 --history=1 --max-value-size=69600"),
        ({"max_msg_size": 69600, "max_msgs": 5, "max_bytes": 5}, ""),
        ({"max_msgs_per_subject": 64, "allow_msg_ttl": True}, ""),
    ],
    ids=str,
)
def test_what_is_refused_comes_with_the_command_that_mends_it(changes: dict[str, Any], edit: str) -> None:
    found = settings.refusals("b", {**GOOD, **changes})
    ends = [one.remedy.removesuffix(settings.WHO).partition("nats --context ADMIN ")[2] for one in found]
    assert ends == ([edit] if edit else [])


@pytest.mark.parametrize(
    ("config", "readable"),
    [
        (GOOD, True),
        (GOOD | {"max_age": 1, "sealed": True}, True),
        ({"mirror": {"name": "origin"}}, True),
        ({"subjects": ["other"]}, False),
        ({}, False),
        (GOOD | {"retention": "workqueue"}, False),
        (GOOD | {"allow_msg_counter": True}, False),
    ],
    ids=str,
)
def test_what_is_refused_is_read_unless_reading_could_remove_it(config: dict[str, Any], *, readable: bool) -> None:
    assert settings.is_readable("b", config) is readable


@pytest.mark.parametrize(
    ("config", "risk"),
    [
        ({"storage": "memory", "num_replicas": 3}, "is kept in memory"),
        ({"storage": "file", "num_replicas": 1}, "has one replica"),
        ({}, "has one replica"),
        ({"storage": "file", "num_replicas": 3}, ""),
    ],
    ids=str,
)
def test_what_a_failing_server_would_lose_is_told(config: dict[str, Any], risk: str) -> None:
    told = [one.problem for one in settings.risks("b", config)]
    assert (risk in told[0]) if risk else not told


@pytest.mark.parametrize(
    ("used", "full", "soon"),
    [
        (89, "", ""),
        (90, "", "holds 90 of its max_msgs 100, so soon new notes will be refused"),
        (99, "", "holds 99 of its max_msgs 100, so soon new notes will be refused"),
        (100, "holds 100 of its max_msgs 100, so new notes are refused", ""),
    ],
)
def test_room_is_told_before_there_is_none(used: int, full: str, soon: str) -> None:
    info = StreamInfo({"max_msgs": 100}, "", used, used, 1, frozenset(), messages=used)
    found = settings.limits("b", info)
    assert [[one.problem.removeprefix('KV bucket "b" ') for one in some] for some in found] == [
        [text] if text else [] for text in (full, soon)
    ]
    for some in found:
        assert all("stream edit KV_b --max-msgs=200" in one.remedy for one in some)


@pytest.mark.parametrize("limits", [{"max_bytes": 20_000}, {"max_msgs": 5, "max_msgs_per_subject": 3}])
async def test_who_may_not_purge_is_told_what_will(nc: Client, agent: Client, limits: dict[str, Any]) -> None:
    bucket = await add_bucket(nc, **limits)
    store = await open_store(agent, bucket)
    await fill(nc, bucket, store)
    with pytest.raises(StoreFullError, match="not even to note that a memory was deleted") as full:
        await store.delete("a")
    assert f"publish to $JS.API.STREAM.PURGE.KV_{bucket}" in full.value.remedy
    assert Item("a", "") in await store.list()


async def test_a_purge_never_takes_what_was_written_since(nc: Client) -> None:
    """With a history, where the older value is still there to be purged."""
    bucket = await add_bucket(nc, max_msgs=3, max_msgs_per_subject=2)
    store = await open_store(nc, bucket)
    scope = Scope()
    await store.create("a", "d", "old", scope=scope)
    old = scope.revision("a")
    other = Scope()
    await store.read("a", scope=other)
    await store.update("a", "d", "new", scope=other)
    await put(nc, bucket, "other.k", b"x")
    with pytest.raises(StoreFullError):
        await store.create("b", "d", "x")
    assert not await store.delete("a", expected=old)
    assert (await store.read("a")).content == "new"

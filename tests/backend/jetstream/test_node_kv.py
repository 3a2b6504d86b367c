"""The official client of JavaScript (`@nats-io/kv`) beside ours in a bucket; `make other-writers` installs it."""

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.support.async_store import AsyncStore
from tests.support.broker import Broker
from tests.support.sidecar import ROOT

from memory_sidecar.store.contract import Item
from memory_sidecar.store.errors import KeyExistsError, KeyNotFoundError, StaleError
from memory_sidecar.store.scope import Scope

PLACE = ROOT / "tests" / "node_kv"

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        shutil.which("node") is None or not (PLACE / "node_modules" / "@nats-io" / "kv").is_dir(),
        reason="node or the package @nats-io/kv is not installed",
    ),
]

Client = Callable[..., Any]


@pytest.fixture
def theirs(broker: Broker, bucket: str) -> Iterator[Client]:
    words = ["node", str(PLACE / "writer.mjs"), broker.url, bucket]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask(call: str, key: str = "agent.key", text: str = "") -> Any:
            process.stdin.write(json.dumps({"call": call, "key": key, "text": text}).encode() + b"\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


async def test_what_it_puts_is_a_note_and_is_met_as_changed(store: AsyncStore, theirs: Client) -> None:
    scope = Scope()
    await store.create("key", "words", "ours", scope=scope)
    assert theirs("get")["text"] == "---\ndescription: words\n---\n\nours"
    assert theirs("keys") == {"names": ["agent.key"]}
    assert "refused" in theirs("create", text="theirs")
    theirs("put", text="---\ndescription: theirs\n---\n\nsaved")
    with pytest.raises(StaleError):
        await store.update("key", "words", "ours again", scope=scope)
    with pytest.raises(KeyExistsError):
        await store.create("key", "words", "ours again")
    assert (await store.read("key", scope=scope))[:2] == ("theirs", "saved")
    await store.update("key", "theirs", "ours again", scope=scope)
    assert theirs("get")["text"] == "---\ndescription: theirs\n---\n\nours again"


@pytest.mark.parametrize("removal", ["delete", "purge"])
async def test_what_it_removes_is_gone_and_both_may_create_anew(
    store: AsyncStore, theirs: Client, removal: str
) -> None:
    scope = Scope()
    await store.create("key", "words", "ours", scope=scope)
    theirs(removal)
    assert await store.list() == []
    with pytest.raises(StaleError):
        await store.update("key", "words", "ours again", scope=scope)
    with pytest.raises(KeyNotFoundError):
        await store.read("key")
    assert not await store.delete("key")
    assert "revision" in theirs("create", text="plain")
    assert await store.list() == [Item("key", "")]
    assert await store.delete("key")
    assert theirs("get") == {"text": None}
    await store.create("key", "words", "anew")
    assert theirs("get")["text"] == "---\ndescription: words\n---\n\nanew"

"""A bucket that is restored or made again under its name: authority goes on over what is still there, and no further.

The snapshot is the broker's own, as `nats stream backup` and `nats stream restore` make and take it.
"""

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats.aio.client import Client
from tests.support.broker import Loop, add_bucket, api, connected, delete_bucket, put, restore, run_broker, snapshot

from memory_sidecar.backend.jetstream.bucket import bind
from memory_sidecar.backend.jetstream.message import WRITE
from memory_sidecar.backend.jetstream.options import JetStreamOptions
from memory_sidecar.backend.jetstream.thread import JetStreamBackend
from memory_sidecar.run.session import HandedScope, Run, Setting
from memory_sidecar.store.authority import Store
from memory_sidecar.tools.catalog import Catalog


class Fleet:
    """A bucket, and runs of one identity in it. Each opens the bucket anew, as a process of its own does."""

    def __init__(self, nc: Client, loop: Loop, place: Path) -> None:
        self.nc = nc
        self.do = loop.run
        self.place = place
        self.bucket = self.do(add_bucket(nc))

    def run(self, name: str, prefix: str = "agent", handed: HandedScope | None = None) -> Run:
        bound = self.do(bind(self.nc, JetStreamOptions(self.bucket, prefix), identity="agent"))
        backend = JetStreamBackend(bound.notes, self.do)
        setting = Setting(
            Store(backend, guard=True),
            bound.fingerprint,
            Catalog(enabled=True, read_only=False),
            True,
            "agent",
            str(self.place / prefix),
            holds=backend.holds,
        )
        run = Run(name, setting)
        run.open(handed=handed)
        run.begin()
        return run

    def again(self) -> None:
        self.do(delete_bucket(self.nc, self.bucket))
        self.do(add_bucket(self.nc, self.bucket))


@pytest.fixture(scope="module")
def nc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, Loop]]:
    with run_broker(tmp_path_factory.mktemp("broker")) as broker, Loop() as loop:
        entered = connected(broker.url)
        client = loop.run(entered.__aenter__())
        yield client, loop
        loop.run(entered.__aexit__(None, None, None))


@pytest.fixture
def fleet(nc: tuple[Client, Loop], tmp_path: Path) -> Fleet:
    return Fleet(*nc, tmp_path)


def write(run: Run, key: str, text: str, *, overwrite: bool = False) -> str:
    answer = run.call("memory_write", {"key": key, "description": "d", "content": text, "overwrite": overwrite})
    told = answer.outcome.structured or {}
    return "written" if told["written"] else told["code"]


def keys(run: Run) -> list[str]:
    return sorted(run.scope()["keys"])


def test_a_restored_bucket_keeps_the_authority_that_still_fits(fleet: Fleet) -> None:
    run = fleet.run("main")
    for key in ("stays", "changes", "goes"):
        assert write(run, key, "one") == "written"
    fleet.do(put(fleet.nc, fleet.bucket, "agent.theirs", b"another program's"))
    assert (run.call("memory_read", {"key": "theirs"}).outcome.structured or {})["found"]
    saved = fleet.do(snapshot(fleet.nc, fleet.bucket))
    assert write(run, "changes", "two", overwrite=True) == "written"
    assert write(run, "late", "after the snapshot") == "written"
    run.end("suspended")
    fingerprint = run.scope()["store"]

    fleet.do(delete_bucket(fleet.nc, fleet.bucket))
    fleet.do(restore(fleet.nc, fleet.bucket, saved))
    # The sequences after the snapshot are given again, for what this run never saw.
    for key in ("changes", "late"):
        fleet.do(put(fleet.nc, fleet.bucket, f"agent.{key}", b"somebody else's"))
    resumed = fleet.run("main")
    assert resumed.scope()["store"] != fingerprint, "the broker gives a restored bucket another time of its making"
    assert keys(resumed) == ["goes", "stays", "theirs"]
    assert write(resumed, "stays", "three", overwrite=True) == "written"
    assert write(resumed, "theirs", "three", overwrite=True) == "written"
    for key in ("changes", "late"):
        assert write(resumed, key, "three", overwrite=True) == "not_read"
    resumed.end("suspended")
    again = fleet.run("main")
    assert keys(again) == ["goes", "stays", "theirs"], "and the journal has it so"
    again.end("suspended")


def test_a_scope_that_a_harness_kept_fits_a_restored_bucket_too(fleet: Fleet) -> None:
    run = fleet.run("main")
    assert write(run, "plan", "one") == "written"
    scope = run.scope()
    run.end("suspended")
    saved = fleet.do(snapshot(fleet.nc, fleet.bucket))
    fleet.do(delete_bucket(fleet.nc, fleet.bucket))
    fleet.do(restore(fleet.nc, fleet.bucket, saved))
    handed = fleet.run("other", handed=HandedScope(scope["store"], scope["keys"]))
    assert keys(handed) == ["plan"]
    assert write(handed, "plan", "two", overwrite=True) == "written"
    handed.end("suspended")


def test_a_bucket_that_is_made_again_honours_nothing_of_the_old_one(fleet: Fleet) -> None:
    run = fleet.run("main")
    assert write(run, "plan", "one") == "written"
    run.end("suspended")
    fleet.again()
    fleet.do(put(fleet.nc, fleet.bucket, "agent.plan", b"---\ndescription: d\n---\n\none"))  # at the same sequence
    resumed = fleet.run("main")
    assert keys(resumed) == []
    assert write(resumed, "plan", "two", overwrite=True) == "not_read"
    resumed.end("suspended")


@pytest.mark.parametrize("edited", [False, True])
def test_messages_that_a_script_stores_anew_count_by_their_content(fleet: Fleet, edited: bool) -> None:
    """Somebody dumps the messages with their headers, makes the bucket again, and puts them back in their order."""
    run = fleet.run("main")
    assert write(run, "plan", "a secret") == "written"
    run.end("suspended")
    dumped = fleet.do(api(fleet.nc, f"STREAM.MSG.GET.KV_{fleet.bucket}", {"last_by_subj": f"$KV.{fleet.bucket}.>"}))
    body = base64.b64decode(dumped["message"]["data"])
    headers = base64.b64decode(dumped["message"]["hdrs"]).decode().splitlines()[1:]
    kept = dict(line.split(": ", 1) for line in headers if line.startswith("Memory-"))
    assert WRITE in kept
    fleet.again()
    text = body.replace(b"a secret", b"redacted") if edited else body
    assert fleet.do(put(fleet.nc, fleet.bucket, "agent.plan", text, kept)) == dumped["message"]["seq"]
    resumed = fleet.run("main")
    assert keys(resumed) == ([] if edited else ["plan"])
    assert write(resumed, "plan", "two", overwrite=True) == ("not_read" if edited else "written")
    resumed.end("suspended")


def test_another_bucket_and_another_prefix_prove_nothing(fleet: Fleet) -> None:
    run = fleet.run("main")
    assert write(run, "plan", "one") == "written"
    scope = run.scope()
    run.end("suspended")
    handed = HandedScope(scope["store"], scope["keys"])
    elsewhere = fleet.run("main", "other", handed)
    assert write(elsewhere, "plan", "one") == "written"
    elsewhere.end("suspended")
    assert keys(fleet.run("second", "other", handed)) == []
    fleet.bucket = fleet.do(add_bucket(fleet.nc))
    fleet.do(put(fleet.nc, fleet.bucket, "agent.plan", b"---\ndescription: d\n---\n\none"))
    assert keys(fleet.run("third", "agent", handed)) == []


def test_prefixes_that_nest_are_one_note_under_two_names(fleet: Fleet) -> None:
    """What one run has seen through its prefix is no authority through another; the ledger knows both names."""
    outer = fleet.run("main", "team")
    assert write(outer, "b.plan", "one") == "written"
    inner = fleet.run("main", "team.b")
    assert write(inner, "plan", "two", overwrite=True) == "not_read"
    assert (inner.call("memory_read", {"key": "plan"}).outcome.structured or {})["content"] == "one"
    assert write(inner, "plan", "two", overwrite=True) == "written"
    assert write(outer, "b.plan", "three", overwrite=True) == "changed"
    outer.end("suspended")
    inner.end("suspended")
    bound = fleet.do(bind(fleet.nc, JetStreamOptions(fleet.bucket, "team"), identity="agent"))
    names = bound.names("b.plan")
    assert (names[outer.scope()["store"]], names[inner.scope()["store"]]) == ("b.plan", "plan")
    assert len(names) == 3, "with the flat prefix"


def test_a_bucket_restored_under_a_running_sidecar(fleet: Fleet) -> None:
    run = fleet.run("main")
    assert write(run, "plan", "one") == "written"
    assert write(run, "other", "one") == "written"
    saved = fleet.do(snapshot(fleet.nc, fleet.bucket))
    assert write(run, "other", "two", overwrite=True) == "written"
    fleet.do(delete_bucket(fleet.nc, fleet.bucket))
    fleet.do(restore(fleet.nc, fleet.bucket, saved))
    assert write(run, "plan", "two", overwrite=True) == "written"
    assert write(run, "other", "three", overwrite=True) == "changed"
    run.end("suspended")

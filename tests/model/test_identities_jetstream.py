"""The model of several identities, in a bucket that is saved, restored and made anew by the broker's own means.

All identities share the bucket. What is restored is the same message, so a run keeps its authority over what is there
as it saw it; nothing else that stands at an old sequence is honoured.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis.stateful import precondition, rule
from nats.aio.client import Client
from tests.model.test_identities import WANTED, Identities, Note, play
from tests.support.broker import (
    Loop,
    Saved,
    add_bucket,
    connected,
    delete_bucket,
    eventually,
    restore,
    run_broker,
    snapshot,
)

from memory_sidecar.system import files


class InBuckets(Identities):
    names: ClassVar[list[str]] = ["a", "A", "b"]
    can_move: ClassVar[bool] = False
    loop: ClassVar[Loop]
    nc: ClassVar[Client]
    streams: ClassVar[Path]
    """Where the broker keeps its streams."""

    def _config(self) -> dict[str, Any]:
        self.bucket = self.loop.run(add_bucket(self.nc))
        self.backup: Saved | None = None
        memory = {"enabled": True, "backend": "jetstream", "options": {"bucket": self.bucket}}
        return {"nats_context": "local", "harness": {"memory": memory}}

    def _note(self, text: str) -> Note:
        self.writes += 1
        return text, self.writes

    def _counts_elsewhere(self, seen: Note, now: Note | None) -> bool:
        return seen == now

    def _make_anew(self, _identity: str) -> None:
        self._replace({name: {} for name in self.notes})
        self.loop.run(add_bucket(self.nc, self.bucket))

    def _save(self, _identity: str) -> None:
        self.backup = self.loop.run(snapshot(self.nc, self.bucket))
        self.saved = {name: (dict(notes), 0) for name, notes in self.notes.items()}

    def _restore(self, _identity: str) -> None:
        assert self.backup is not None
        self._replace({name: dict(self.saved[name][0]) if name in self.saved else {} for name in self.notes})
        self.loop.run(restore(self.nc, self.bucket, self.backup))

    @precondition(lambda self: self.used and any(self.seen.values()))
    @rule()
    def save_and_restore(self) -> None:
        self.moves["saved and restored"] += 1
        self.used = False
        self._close()
        self._save("")
        self._restore("")

    def _replace(self, notes: dict[str, dict[str, Note]]) -> None:
        """Another bucket takes the place of this one; no run is open meanwhile."""
        self._close()
        self._delete()
        self.count += 1
        self.notes, self.store = notes, dict.fromkeys(notes, self.count)

    def _delete(self) -> None:
        self.loop.run(delete_bucket(self.nc, self.bucket))
        # Its files go a moment later. Another bucket that is restored in their place may find them.
        eventually(lambda: not any(self.streams.glob(f"*{self.bucket}*")), "the bucket's files are gone")

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "bucket"):
            self.loop.run(delete_bucket(self.nc, self.bucket))


@pytest.fixture(scope="module", autouse=True)
def _broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    place = tmp_path_factory.mktemp("broker")
    with pytest.MonkeyPatch.context() as patch, run_broker(place) as broker, Loop() as loop:
        contexts: Path = place / "config" / "nats" / "context"
        contexts.mkdir(parents=True)
        (contexts / "local.json").write_text(json.dumps({"url": broker.url}))
        patch.setenv("XDG_CONFIG_HOME", str(place / "config"))
        patch.setattr(files, "flush", lambda _: True)
        entered = connected(broker.url)
        InBuckets.streams = place / "store" / "jetstream" / "$G" / "streams"
        InBuckets.loop, InBuckets.nc = loop, loop.run(entered.__aenter__())
        yield
        loop.run(entered.__aexit__(None, None, None))


@pytest.mark.parametrize("examples", [6, pytest.param(100, marks=pytest.mark.long)])
def test_no_run_overwrites_what_it_has_not_seen(examples: int, capsys: pytest.CaptureFixture[str]) -> None:
    play(InBuckets, examples, set() if examples < 10 else WANTED)
    assert examples < 10 or InBuckets.moves["kept elsewhere"]
    with capsys.disabled():
        print(f" {sum(InBuckets.moves.values())} moves, {InBuckets.moves['kept elsewhere']} notes kept over a restore")
        print(f"  {dict(InBuckets.moves)}")

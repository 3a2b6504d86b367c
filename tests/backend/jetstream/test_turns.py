"""Turns with a stand-in for other clients of the bucket: both must see the same notes after each."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from tests.support.broker import Broker, Loop, add_bucket, connected
from tests.support.bucket_stand_in import BucketStandIn
from tests.support.properties import examples
from tests.support.turns import TURNS, Turn, take_turns

from memory_sidecar.backend.jetstream.bucket import bind
from memory_sidecar.backend.jetstream.options import JetStreamOptions
from memory_sidecar.backend.jetstream.thread import JetStreamBackend
from memory_sidecar.store.authority import Store


class Beside(NamedTuple):
    ours: Store
    theirs: BucketStandIn


@pytest.fixture(scope="module")
def beside(broker: Broker) -> Iterator[Beside]:
    with Loop() as loop:
        connection = connected(broker.url)
        nc = loop.run(connection.__aenter__())
        bucket = loop.run(add_bucket(nc))
        bound = loop.run(bind(nc, JetStreamOptions(bucket), identity="agent"))
        yield Beside(Store(JetStreamBackend(bound.notes, loop.run), guard=True), BucketStandIn(nc, bucket, loop))
        loop.run(connection.__aexit__(None, None, None))


@given(TURNS)
@settings(max_examples=examples(12))
def test_taking_turns_with_raw_puts_deletes_and_purges(beside: Beside, turns: list[Turn]) -> None:
    take_turns(beside.ours, beside.theirs, turns)

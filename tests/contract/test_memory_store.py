"""The double that other tests use keeps the contract like any backend."""

from collections.abc import Mapping

import pytest
from tests.contract.suite import BlindContract, GuardedContract, Subject
from tests.support.memory_store import Shelf, memory_store

from memory_sidecar.store.store import Store


class _Memory(Subject):
    backend = "memory"

    def __init__(self, *, guard: bool) -> None:
        self._guard = guard
        self._shelf = Shelf()

    def open(self) -> Store:
        return memory_store(self._shelf, guard=self._guard)

    def unreachable(self) -> Store:
        shelf = Shelf()
        shelf.broken = True
        return memory_store(shelf, guard=self._guard)

    def plant(self, key: str, document: bytes) -> None:
        self._shelf.documents[key] = document

    def stored(self) -> Mapping[str, bytes]:
        return dict(self._shelf.documents)


class TestGuarded(GuardedContract):
    @pytest.fixture
    def subject(self) -> Subject:
        return _Memory(guard=True)


class TestBlind(BlindContract):
    @pytest.fixture
    def subject(self) -> Subject:
        return _Memory(guard=False)

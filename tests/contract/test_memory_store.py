"""The double that other tests use keeps the contract like any backend."""

from collections.abc import Mapping

import pytest
from tests.contract.suite import BlindContract, GuardedContract, Subject
from tests.support.memory_store import MemoryStore, Shelf


class _Memory(Subject):
    backend = "memory"

    def __init__(self, *, guard: bool) -> None:
        self._guard = guard
        self._shelf = Shelf()

    def open(self) -> MemoryStore:
        return MemoryStore(self._shelf, guard=self._guard)

    def unreachable(self) -> MemoryStore:
        store = MemoryStore(guard=self._guard)
        store.shelf.broken = True
        return store

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

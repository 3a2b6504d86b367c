"""The double that other tests use keeps the contract like any backend."""

from collections.abc import Mapping

import pytest
from tests.support.memory_store import MemoryBackend, Shelf

from memory_sidecar.testing import BackendContract, BlindContract, GuardedContract, Subject


class Memory(Subject):
    name = "memory"
    kind: type[MemoryBackend] = MemoryBackend

    def __init__(self) -> None:
        self._shelf = Shelf()

    def open(self) -> MemoryBackend:
        return self.kind(self._shelf)

    def unreachable(self) -> MemoryBackend:
        shelf = Shelf()
        shelf.broken = True
        return self.kind(shelf)

    def plant(self, key: str, document: bytes) -> None:
        self._shelf.documents[key] = document

    def stored(self) -> Mapping[str, bytes]:
        return dict(self._shelf.documents)


class _Provided:
    @pytest.fixture
    def subject(self) -> Subject:
        return Memory()


class TestBackend(_Provided, BackendContract): ...


class TestGuarded(_Provided, GuardedContract): ...


class TestBlind(_Provided, BlindContract): ...

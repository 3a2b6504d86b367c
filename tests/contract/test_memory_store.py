"""The double that other tests use keeps the contract like any backend."""

from collections.abc import Mapping

import pytest

from memory_sidecar.store.authority import Store
from memory_sidecar.store.contract import Expected, Stored
from memory_sidecar.store.document import serialize
from memory_sidecar.store.scope import Scope
from memory_sidecar.testing import BackendContract, BlindContract, GuardedContract, Subject
from memory_sidecar.testing.memory_store import MemoryBackend, Shelf


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


def test_a_run_reads_no_older_than_what_it_has_seen() -> None:
    """A backend with replicas may have one that is behind: it is told what the run knows of the note."""
    asked: list[str | None] = []

    class Asked(MemoryBackend):
        def get(self, key: str, *, after: str | None = None) -> Stored | None:
            asked.append(after)
            return super().get(key, after=after)

    scope = Scope()
    store = Store(Asked(Shelf()))
    store.create("key", "words", "text", scope=scope)
    store.read("key", scope=scope)
    store.read("key", scope=None)
    store.read("key", scope=Scope())
    assert asked == [scope.revision("key"), None, None]
    assert asked[0]


def test_a_delete_of_what_the_run_has_seen_is_one_step() -> None:
    """Nothing is looked at first, unless nobody has seen it, or another was faster."""

    class Counting(MemoryBackend):
        def __init__(self, shelf: Shelf) -> None:
            super().__init__(shelf)
            self.calls: list[str] = []

        def get(self, key: str, *, after: str | None = None) -> Stored | None:
            self.calls.append("get")
            return super().get(key, after=after)

        def remove(self, key: str, expected: Expected) -> str | None:
            self.calls.append("remove")
            return super().remove(key, expected)

    def deleted(scope: Scope | None, change: bool = False) -> list[str]:
        shelf = Shelf()
        backend = Counting(shelf)
        store = Store(backend)
        store.create("key", "words", "text", scope=scope)
        if change:
            shelf.documents["key"] = serialize("theirs", "theirs")
        assert store.delete("key", scope=scope)
        assert shelf.documents == {}
        return backend.calls

    assert deleted(Scope()) == ["remove"]
    assert deleted(None) == ["get", "remove"]
    assert deleted(Scope(), change=True) == ["remove", "get", "remove"]

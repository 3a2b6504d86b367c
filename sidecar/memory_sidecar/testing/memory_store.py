"""A backend in memory that keeps every promise of the contract: what the fake memory keeps its notes in.

What it lacks is durability.
"""

import hashlib
import threading

from ..store.authority import Store
from ..store.contract import ABSENT, ANYTHING, Expected, Info, Item, Stored
from ..store.document import UNREADABLE, parse_description
from ..store.errors import ConflictError, UnavailableError, UnreadableError
from ..store.rules import check_capacity

__all__ = ["MemoryBackend", "Shelf", "memory_store"]


class Shelf:
    """What several backends share: documents by key. `broken` makes it out of reach."""

    def __init__(self) -> None:
        self.documents: dict[str, bytes] = {}
        self.broken = False
        self.lock = threading.Lock()

    def reach(self) -> dict[str, bytes]:
        if self.broken:
            raise UnavailableError("The memory store is out of reach. Nothing was changed; try again later.")
        return self.documents


class MemoryBackend:
    """The `Backend` over one shelf."""

    def __init__(self, shelf: Shelf | None = None) -> None:
        self.shelf = shelf if shelf is not None else Shelf()

    def info(self) -> Info:
        return Info("memory", "")

    def list(self) -> list[Item]:
        with self.shelf.lock:
            return [Item(key, _described(document)) for key, document in sorted(self.shelf.reach().items())]

    def get(self, key: str, *, after: str | None = None) -> Stored | None:
        with self.shelf.lock:
            document = self.shelf.reach().get(key)
        return None if document is None else Stored(_revision(document), document)

    def put(self, key: str, document: bytes, expected: Expected) -> str:
        with self.shelf.lock:
            documents = self.shelf.reach()
            self._require(key, expected)
            if key not in documents:
                check_capacity(len(documents))
            documents[key] = document
        return _revision(document)

    def remove(self, key: str, expected: Expected) -> str | None:
        with self.shelf.lock:
            if key not in self.shelf.reach():
                return None
            self._require(key, expected)
            return _revision(self.shelf.documents.pop(key))

    def _require(self, key: str, expected: Expected) -> None:
        document = self.shelf.documents.get(key)
        found = ABSENT if document is None else _revision(document)
        if expected not in (ANYTHING, found):
            raise ConflictError(absent=document is None)


def memory_store(shelf: Shelf | None = None, *, guard: bool = False) -> Store:
    """A store over one shelf. With `guard`, an update replaces only what its scope has seen."""
    return Store(MemoryBackend(shelf), guard=guard)


def _described(document: bytes) -> str:
    try:
        return parse_description(document, len(document)) or ""
    except UnreadableError:
        return UNREADABLE


def _revision(document: bytes) -> str:
    return hashlib.blake2b(document, digest_size=16).hexdigest()

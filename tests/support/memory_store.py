"""A store in memory that keeps every promise of the contract: the double that other tests use.

It has the same validation and the same stored form as the real ones; what it lacks is durability.
"""

import hashlib
import threading

from memory_sidecar.store.contract import Entry, Info, Item
from memory_sidecar.store.document import UNREADABLE, check_text, parse, parse_description, serialize
from memory_sidecar.store.errors import (
    KeyExistsError,
    KeyNotFoundError,
    StaleError,
    UnavailableError,
    UnreadableError,
)
from memory_sidecar.store.rules import check_capacity, validate_key, validate_write
from memory_sidecar.store.scope import Scope

__all__ = ["MemoryStore", "Shelf"]


class Shelf:
    """What several stores share: documents by key. `broken` makes it out of reach."""

    def __init__(self) -> None:
        self.documents: dict[str, bytes] = {}
        self.broken = False
        self.lock = threading.Lock()

    def reach(self) -> dict[str, bytes]:
        if self.broken:
            raise UnavailableError("The memory store is out of reach. Nothing was changed; try again later.")
        return self.documents


class MemoryStore:
    """The `Store` over one shelf. With `guard`, an update replaces only what its scope has seen."""

    def __init__(self, shelf: Shelf | None = None, *, guard: bool = False) -> None:
        self.shelf = shelf if shelf is not None else Shelf()
        self._guard = guard

    def info(self) -> Info:
        return Info("memory", "")

    def list(self) -> list[Item]:
        with self.shelf.lock:
            return [Item(key, _described(document)) for key, document in sorted(self.shelf.reach().items())]

    def read(self, key: str, *, scope: Scope | None = None) -> Entry:
        validate_key(key)
        with self.shelf.lock:
            document = self.shelf.reach().get(key)
        if document is None:
            if scope is not None and scope.revision(key) is not None:
                scope.drop(key, "stale")
            raise KeyNotFoundError
        entry = parse(document)
        if scope is not None:
            scope.grant(key, _revision(document), "read")
        return entry

    def create(self, key: str, description: str, content: str, *, scope: Scope | None = None) -> None:
        document = serialize(validate_write(key, description, content), content)
        with self.shelf.lock:
            documents = self.shelf.reach()
            if key in documents:
                raise KeyExistsError("This key already holds a memory.")
            check_capacity(len(documents))
            documents[key] = document
        if scope is not None:
            scope.grant(key, _revision(document), "created")

    def update(self, key: str, description: str, content: str, *, scope: Scope | None = None) -> None:
        document = serialize(validate_write(key, description, content), content)
        with self.shelf.lock:
            documents = self.shelf.reach()
            current = documents.get(key)
            if current is not None:
                check_text(current)
            if self._guard:
                held = scope.revision(key) if scope is not None else None
                if held is None or current is None or _revision(current) != held:
                    if scope is not None:
                        scope.drop(key, "stale")
                    raise StaleError("not_read" if held is None else "changed")
            if current is None:
                check_capacity(len(documents))
            documents[key] = document
        if scope is not None:
            scope.grant(key, _revision(document), "updated")

    def delete(self, key: str, *, scope: Scope | None = None) -> bool:
        validate_key(key)
        with self.shelf.lock:
            documents = self.shelf.reach()
            document = documents.get(key)
            if document is not None:
                check_text(document)
                del documents[key]
        if scope is not None and document is not None:
            scope.drop(key, "deleted", _revision(document))
        elif scope is not None and scope.revision(key) is not None:
            scope.drop(key, "stale")
        return document is not None


def _described(document: bytes) -> str:
    try:
        return parse_description(document, len(document)) or ""
    except UnreadableError:
        return UNREADABLE


def _revision(document: bytes) -> str:
    return hashlib.blake2b(document, digest_size=16).hexdigest()

"""A store that tells OpenTelemetry what is asked of it. It stands before the real one only while someone listens."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ..observe.telemetry import Operation, Served
from .contract import Entry, Info, Item, Store
from .errors import InvalidError, KeyExistsError, KeyNotFoundError, StaleError, StoreError, StoreFullError
from .scope import Scope

__all__ = ["TracedStore"]

_ANSWERS: Final = (InvalidError, KeyExistsError, KeyNotFoundError, StaleError, StoreFullError)
"""A store that works says these. Any other error means that it doesn't."""


class TracedStore:
    """`store` as one request uses it; each operation is a span below that of the request."""

    def __init__(self, store: Store, served: Served) -> None:
        self._store = store
        self._served = served

    def info(self) -> Info:
        return self._store.info()

    def list(self) -> list[Item]:
        with self._told("list") as operation:
            items = self._store.list()
            operation.count(len(items))
            return items

    def read(self, key: str, *, scope: Scope | None = None) -> Entry:
        with self._told("read") as operation:
            entry = self._store.read(key, scope=scope)
            operation.count(1)
            return entry

    def create(self, key: str, description: str, content: str, *, scope: Scope | None = None) -> None:
        with self._told("create") as operation:
            self._store.create(key, description, content, scope=scope)
            operation.count(1)

    def update(self, key: str, description: str, content: str, *, scope: Scope | None = None) -> None:
        with self._told("update") as operation:
            self._store.update(key, description, content, scope=scope)
            operation.count(1)

    def delete(self, key: str, *, scope: Scope | None = None) -> bool:
        with self._told("delete") as operation:
            deleted = self._store.delete(key, scope=scope)
            operation.count(int(deleted))
            return deleted

    @contextmanager
    def _told(self, name: str) -> Iterator[Operation]:
        with self._served.operation(name) as operation:
            try:
                yield operation
            except _ANSWERS as error:
                operation.refused(error.reason if isinstance(error, StaleError) else error.code)
                raise
            except BaseException as error:
                operation.failed(error.code if isinstance(error, StoreError) else type(error).__name__)
                raise

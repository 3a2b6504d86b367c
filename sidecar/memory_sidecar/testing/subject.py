"""What the author of a backend provides for the suite: one empty backing store, and how to open a backend on it."""

import abc
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..store.contract import Backend
from ..store.document import serialize
from ..store.errors import StoreError

__all__ = ["Call", "Subject", "together"]

Call = Callable[[], Any]


class Subject(abc.ABC):
    """One backing store, empty at first, and the backend under test on it."""

    name: str
    """What `Backend.info().backend` has to say."""

    @abc.abstractmethod
    def open(self) -> Backend:
        """A backend on this backing store, independent of those opened before: another sidecar's."""

    @abc.abstractmethod
    def unreachable(self) -> Backend:
        """One that was opened and whose backing store is then out of reach, so that every call on it fails soon."""

    @abc.abstractmethod
    def plant(self, key: str, document: bytes) -> None:
        """Put a document under `key` behind the product's back, replacing what is there.

        It may be larger than an entry may be: the backing store must be one that would take it.
        """

    @abc.abstractmethod
    def stored(self) -> Mapping[str, bytes]:
        """Every document that is stored, by key, looked up behind the product's back."""

    def fill(self, count: int) -> None:
        """Plant `count` legal entries `fill-0000`, `fill-0001` and so on."""
        document = serialize("one of many", "small")
        for number in range(count):
            self.plant(f"fill-{number:04}", document)


def together(*calls: Call) -> list[Any]:
    """Make the calls at once, a thread each; for each, in order, its result or the `StoreError` it raised."""
    all_there = threading.Barrier(len(calls))

    def make(call: Call) -> Any:
        all_there.wait()
        try:
            return call()
        except StoreError as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(make, calls))

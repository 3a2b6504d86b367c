"""The product's store for tests that share its connection's event loop: the same calls, each on a thread, awaited."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from memory_sidecar.backend.jetstream.bucket import Bound, bind
from memory_sidecar.backend.jetstream.options import JetStreamOptions
from memory_sidecar.backend.jetstream.thread import JetStreamBackend
from memory_sidecar.store.authority import Store
from memory_sidecar.store.contract import Entry, Info, Item
from memory_sidecar.store.scope import Scope

__all__ = ["AsyncStore", "open_store"]

T = TypeVar("T")

_threads = ThreadPoolExecutor(128)


class AsyncStore:
    """Cancelling a call is what interrupting its thread is to the product."""

    def __init__(self, bound: Bound) -> None:
        self.notes = bound.notes
        self.fingerprint = bound.fingerprint
        self._guard = bound.guard
        self._loop = asyncio.get_running_loop()

    def info(self) -> Info:
        return self.notes.info()

    async def list(self) -> list[Item]:
        return await self._call(lambda store: store.list())

    async def read(self, key: str, *, scope: Scope | None = None) -> Entry:
        return await self._call(lambda store: store.read(key, scope=scope))

    async def create(self, key: str, description: str, content: str, *, scope: Scope | None = None) -> None:
        await self._call(lambda store: store.create(key, description, content, scope=scope))

    async def update(self, key: str, description: str, content: str, *, scope: Scope | None = None) -> None:
        await self._call(lambda store: store.update(key, description, content, scope=scope))

    async def delete(self, key: str, *, scope: Scope | None = None, expected: str | None = None) -> bool:
        return await self._call(lambda store: store.delete(key, scope=scope, expected=expected))

    async def _call(self, call: Callable[[Store], T]) -> T:
        asked: list[Future[Any]] = []

        def run(coroutine: Coroutine[Any, Any, Any]) -> Any:
            asked.append(asyncio.run_coroutine_threadsafe(coroutine, self._loop))
            return asked[-1].result()

        store = Store(JetStreamBackend(self.notes, run), guard=self._guard)
        answer = self._loop.run_in_executor(_threads, call, store)
        try:
            return await asyncio.shield(answer)
        except asyncio.CancelledError:
            for future in asked:
                future.cancel()
            with suppress(Exception):
                await answer
            raise


async def open_store(nc: Any, bucket: str, prefix: str | None = None, **options: Any) -> AsyncStore:
    """The store of the identity `agent` in a bucket, over a connection of the running loop."""
    return AsyncStore(await bind(nc, JetStreamOptions(bucket, prefix, **options), identity="agent"))

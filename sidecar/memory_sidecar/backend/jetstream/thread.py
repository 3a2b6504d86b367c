"""One thread with the event loop on which a broker's connection lives, and the backend that any thread may call.

Runs have threads of their own and block; a connection has one loop. Only what talks to the broker crosses over, so
that a run that writes its journal keeps nobody else waiting. No thread exists before `begin`: between opening and
that, the process can give up rights for all the threads it will ever have.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from ...store.authority import Store
from ...store.contract import Expected, Info, Item, Stored
from ...store.errors import OutcomeUnknownError, UnavailableError
from ..opened import BackendError, Opened

if TYPE_CHECKING:
    from .bucket import Bound, Connected
    from .notes import Notes

__all__ = ["BrokerThread", "JetStreamBackend"]

T = TypeVar("T")

JOIN_SECONDS: Final = 1.0
"""How long `close` waits for the thread, once the connection was told to close."""


class BrokerThread:
    """A store opened by `open_store`, usable from any thread between `begin` and `close`.

    `open_store` runs to its end on the calling thread.
    """

    def __init__(self, open_store: Callable[[], Coroutine[Any, Any, "Connected"]]) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closed = False
        # Names are looked up on threads. These end with the opening; later look-ups get new ones.
        lookups = ThreadPoolExecutor(2)
        self._loop.set_default_executor(lookups)
        try:
            self._bound, self._close_connection, self.ports = self._loop.run_until_complete(open_store())
        except BaseException:
            self._end()
            raise
        finally:
            lookups.shutdown(wait=True)
        self.opened: Opened = self._store(self._bound)
        """The store; a call blocks the thread that makes it."""
        self.problems = [BackendError(*one) for one in self._bound.refused]
        """Why a run would be refused the bucket, if it was bound for reading all the same."""

    def _store(self, bound: "Bound") -> Opened:
        backend = JetStreamBackend(bound.notes, self.run)
        store = Store(backend, guard=bound.guard)
        return Opened(store, bound.fingerprint, bound.names, bound.beside, backend.holds)

    def open_for(self, identity: str) -> Opened:
        """The store under another identity's prefix, over the same connection. Takes at most ten seconds.

        Raises:
            BackendError: the bucket cannot be used now; the text is the remedy.
        """
        try:
            return self._store(self.run(self._bound.rebind(identity)))
        except UnavailableError as error:
            raise BackendError(str(error)) from error

    def begin(self) -> None:
        """Start the thread."""
        self._loop.set_default_executor(ThreadPoolExecutor(2))
        self._thread = threading.Thread(target=self._loop.run_forever, name="broker", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for it.

        Raises:
            UnavailableError: the connection is closed; the coroutine didn't run.
            CutShortError: it closed meanwhile.
        """
        with self._lock:
            if self._closed or self._thread is None:
                coroutine.close()
                raise _closed()
            call = _Call(coroutine, self._loop)
        return call.result()

    def close(self) -> None:
        """Close the connection and end the thread. Calls under way fail. Returns within a few seconds; idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._thread is None:
            self._loop.run_until_complete(self._close_connection())
            self._end()
            return
        asyncio.run_coroutine_threadsafe(self._wind_up(), self._loop)
        self._thread.join(2 + JOIN_SECONDS)
        if not self._thread.is_alive():
            self._end()

    async def _wind_up(self) -> None:
        try:
            await self._close_connection()
        finally:
            self._loop.stop()

    def _end(self) -> None:
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        if pending:
            self._loop.run_until_complete(asyncio.wait(pending, timeout=JOIN_SECONDS))
        self._loop.close()


class _Call(Generic[T]):
    """A coroutine on its way on another thread's loop, for a thread that waits for it.

    As `asyncio.run_coroutine_threadsafe`, whose future is made for many who wait and may be told of its end first:
    that is a tenth of what a request on loopback costs.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self._coroutine = coroutine
        self._loop = loop
        self._task: asyncio.Task[T]
        """Made on the loop, so there once it is done."""
        self._done = threading.Lock()
        self._done.acquire()
        loop.call_soon_threadsafe(self._start)

    def result(self) -> T:
        """Wait for the end.

        Raises:
            CutShortError: it was cancelled.
        """
        try:
            self._done.acquire()
        except BaseException:
            # Interrupted: the call must not go on behind its caller's back.
            self._loop.call_soon_threadsafe(self._cancel)
            raise
        try:
            return self._task.result()
        except asyncio.CancelledError as error:
            raise CutShortError(str(_closed())) from error

    def _start(self) -> None:
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(lambda _: self._done.release())

    def _cancel(self) -> None:
        self._task.cancel()


class CutShortError(UnavailableError):
    """The connection was closed while a coroutine was at work: nobody knows how far it came."""


class JetStreamBackend:
    """The `Backend` whose calls run on the loop of `notes` and block the thread that makes them.

    `run` hands a coroutine to that loop and waits for its result. A caller that is interrupted cancels it.
    """

    def __init__(self, notes: "Notes", run: Callable[[Coroutine[Any, Any, Any]], Any]) -> None:
        self._notes = notes
        self._run = run

    def info(self) -> Info:
        return self._notes.info()

    def list(self) -> list[Item]:
        items: list[Item] = self._run(self._notes.list())
        return items

    def get(self, key: str, *, after: str | None = None) -> Stored | None:
        stored: Stored | None = self._run(self._notes.get(key, after))
        return stored

    def holds(self, key: str, revision: str) -> bool:
        """See `opened.Opened.holds`."""
        return bool(self._run(self._notes.holds(key, revision)))

    def written(self, key: str) -> str | None:
        """When the message was stored, as RFC 3339 in UTC; None if the key holds nothing. For operators' commands."""
        moment: str | None = self._run(self._notes.written(key))
        return moment

    def whole(self) -> "JetStreamBackend":
        """These notes whole, also those larger than a note may be: the broker cuts nothing. For operators' commands."""
        return self

    def put(self, key: str, document: bytes, expected: Expected) -> str:
        revision: str = self._change(self._notes.put(key, document, expected))
        return revision

    def remove(self, key: str, expected: Expected) -> str | None:
        revision: str | None = self._change(self._notes.remove(key, expected))
        return revision

    def _change(self, change: Coroutine[Any, Any, T]) -> T:
        try:
            result: T = self._run(change)
        except CutShortError as error:
            raise OutcomeUnknownError from error
        return result


def _closed() -> UnavailableError:
    return UnavailableError("The memory store is closed. Nothing more can be done with it in this run.")

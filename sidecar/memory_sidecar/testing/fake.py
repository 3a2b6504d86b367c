"""A memory for the tests of a harness, without a process: the sidecar's own code in this one, its notes in a dict.

    from memory_sidecar.testing.fake import FakeMemory

    async def test_my_agent():
        async with FakeMemory().launch() as memory, memory.run() as run:
            await my_agent(run)
            assert (await run.call("memory_read", {"key": "plan"})).structured["found"]

It takes some ten milliseconds, and what it answers is what the sidecar answers, because the same code does: tools,
store, scopes, journals, the runs' life. What it leaves out is the process: no pipe, no ticket, no lockdown, nothing
that dies. Where that matters, `memory_sidecar.harness.testing` has fixtures of the real one.
"""

import itertools
import json
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from ..harness import MemorySidecar, sync
from ..harness.errors import RequestRefusedError, SidecarDiedError
from ..harness.frames import frame, identification
from ..harness.loops import drive
from ..harness.requests import Request
from ..harness.steps import here
from ..run.session import Setting
from ..store.authority import Store
from ..tools.catalog import Catalog
from ..wire.closing import close
from ..wire.codec import encode
from ..wire.dispatch import receive
from ..wire.service import Service
from ..wire.session import Session
from .memory_store import MemoryBackend, Shelf

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ..harness.connection import Connection
    from ..wire.gate import Gate
    from ..wire.loop import Loop
    from ..wire.output import Output

__all__ = ["FakeMemory"]

_IDENTITY: Final = "test"


class FakeMemory:
    """One memory: its notes and its runs, which every launch of it finds again. It is gone with the object.

    Args:
        guard: whether an overwrite needs a read first, as on JetStream and with `require_read_before_update`.
        read_only: whether only `memory_list` and `memory_read` exist.
        index: whether the system text lists what is stored.
    """

    def __init__(self, *, guard: bool = True, read_only: bool = False, index: bool = True) -> None:
        self._shelf = Shelf()
        journals = tempfile.mkdtemp(prefix="memory-sidecar-fake-")  # mode 0700
        weakref.finalize(self, shutil.rmtree, journals, ignore_errors=True)
        self._setting = Setting(
            store=Store(MemoryBackend(self._shelf), guard=guard),
            fingerprint=f"fake:{os.urandom(8).hex()}",
            catalog=Catalog(enabled=True, read_only=read_only, guarded=guard),
            with_index=index,
            identity=_IDENTITY,
            journal_dir=journals,
        )

    @property
    def documents(self) -> dict[str, bytes]:
        """What is stored, by key, each with its YAML header. Change it as somebody else would behind a run's back."""
        return self._shelf.documents

    def launch(self) -> AbstractAsyncContextManager[MemorySidecar]:
        """What `MemorySidecar.launch` gives, for a program on asyncio or trio."""
        return self._launch()

    def launch_sync(self) -> AbstractContextManager[sync.MemorySidecar]:
        """What `sync.MemorySidecar.launch` gives, for a program without an event loop."""
        return self._launch_sync()

    @asynccontextmanager
    async def _launch(self) -> "AsyncIterator[MemorySidecar]":
        memory = MemorySidecar(_connection(self._setting))
        try:
            yield memory
        finally:
            await drive(memory._leave())  # noqa: SLF001 - another face of it

    @contextmanager
    def _launch_sync(self) -> "Iterator[sync.MemorySidecar]":
        memory = sync.MemorySidecar(_connection(self._setting))
        try:
            yield memory
        finally:
            here(memory._leave())  # noqa: SLF001


def _connection(setting: Setting) -> "Connection":
    return cast("Connection", _InProcess(setting))


class _InProcess:
    """What the library asks of its `Connection`, answered by a session of the wire in this process."""

    silent = False
    how = "the fake memory was left"

    def __init__(self, setting: Setting) -> None:
        self.pid = os.getpid()
        self.status: int | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Request] = {}
        self._lock = threading.Lock()
        service = Service(
            setting.catalog,
            setting.store.info(),
            setting.lockdown or "",
            lambda _: setting,
            lambda _: (setting.journal_dir, setting.identity),
            f"run-{os.urandom(8).hex()}",
            False,
            lambda: None,
        )
        self._session = Session(cast("Gate", _Open()), service, threading.RLock())
        self._session.loop = cast("Loop", _NoLoop())
        self._session.output = cast("Output", _Answers(self._settle))

    def request(self, method: str, params: Mapping[str, Any], *, seconds: float | None = None) -> Request:
        request = Request(next(self._numbers), seconds)
        whole = {**params, "_meta": {**identification("fake"), **params.get("_meta", {})}}
        sent = frame({"jsonrpc": "2.0", "id": request.number, "method": method, "params": whole})
        if self.status is not None:
            request.sent = False
            request.set_exception(SidecarDiedError("this launch has ended, as its block was left; launch again"))
            return request
        with self._lock:
            self._waiting[request.number] = request
        receive(self._session, sent.rstrip(b"\n"))
        return request

    def withdraw(self, request: Request) -> None:
        with self._lock:
            waited = self._waiting.pop(request.number, None)
        if waited is not None:
            said = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": request.number}}
            receive(self._session, frame(said).rstrip(b"\n"))

    def limit(self, request: Request, seconds: float) -> None:
        """Nothing here lets anybody wait."""

    def end(self, seconds: float) -> "Future[None]":
        done: Future[None] = Future()
        if self.status is None:
            self.status = 0
            close(self._session)
        done.set_result(None)
        return done

    def _settle(self, message: dict[str, Any]) -> None:
        with self._lock:
            request = self._waiting.pop(message["id"], None)
        if request is None:
            return
        if "error" in message:
            request.set_exception(RequestRefusedError(message["error"]["code"], message["error"]["message"]))
        else:
            request.set_result(message["result"])


class _Open:
    """The gate, for a session that nobody else can reach."""

    has_served = True

    def admit(self, capabilities: dict[str, Any], *, probe: bool = False) -> None:
        """Everybody who is here is the harness."""


class _NoLoop:
    """What a session tells its main thread; here there is none."""

    exit_status = 0

    def end(self, status: int) -> None: ...

    def end_later(self, seconds: float, status: int) -> None: ...

    def stay(self) -> None: ...

    def hold(self) -> None: ...

    def release(self) -> None: ...

    def wake(self) -> None: ...


class _Answers:
    """The session's output: what the wire would have carried, to whoever waits for it."""

    is_stuck = False

    def __init__(self, settle: Any) -> None:
        self._settle = settle

    def send(self, message: dict[str, Any]) -> None:
        self._settle(json.loads(encode(message)))

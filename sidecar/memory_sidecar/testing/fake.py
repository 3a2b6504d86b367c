"""A memory for the tests of a harness, without a process: the sidecar's own code in this one, its notes in a dict.

    from memory_sidecar.testing.fake import FakeMemory

    async def test_my_agent():
        async with FakeMemory().launch() as memory, memory.run() as run:
            await my_agent(run)
            assert (await run.call("memory_read", {"key": "plan"})).structured["found"]

It takes some ten milliseconds, and what it answers is what the sidecar answers, because the same code does: tools,
store, scopes, journals, the runs' life. It fails when a test says so: `kill`, `unreachable` and `start_error`. What it
leaves out is the process: no pipe, no ticket, no lockdown. Where that matters, `memory_sidecar.testing.fixtures` has
the real one.
"""

import itertools
import json
import os
import shutil
import signal
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, cast

from ..backend.opened import Opened
from ..harness import LaunchOptions, MemorySidecar, RequestRefusedError, SidecarDiedError, StartError, sync
from ..harness.command import StrPath, command_line
from ..harness.core import Launched
from ..harness.errors import died, ending, launch_left
from ..harness.frames import frame, identification
from ..harness.log import Stderr, destination
from ..harness.requests import Request
from ..harness.sidecar import AsyncBlock
from ..harness.steps import Steps
from ..harness.supervision import Supervision
from ..many import apart
from ..remedy import RemedyError
from ..run.session import Setting
from ..store.authority import Store
from ..store.nowhere import Nowhere
from ..tools.catalog import Catalog
from ..wire.closing import close
from ..wire.codec import encode
from ..wire.dispatch import receive
from ..wire.service import Service
from ..wire.session import Session
from .fake_launch import IDENTITY, Planned, Told, planned
from .memory_store import MemoryBackend, Shelf

if TYPE_CHECKING:
    from ..harness.connection import Connection
    from ..wire.gate import Gate
    from ..wire.lanes import Lane
    from ..wire.loop import Loop
    from ..wire.output import Output

__all__ = ["FakeMemory"]

F = TypeVar("F", bound=Launched)

_pids: Final = itertools.count(1 << 22)
"""No system gives these to a process (Linux ends below), so a signal that a test sends there reaches nobody."""


class FakeMemory:
    """One memory: its notes and its runs, which every launch of it finds again. It is gone with the object.

    Args:
        guard: whether an overwrite needs a read first, whatever a launch's configuration says. None: as that says;
            without one it needs none, as notes in files.
        read_only: whether only `memory_list` and `memory_read` exist, even if the configuration doesn't say so.
        index: whether the system text lists what is stored; the configuration's `no_index` counts too.
        many_identities: whether each run names its identity, in a launch that doesn't say it itself.
    """

    def __init__(
        self, *, guard: bool | None = None, read_only: bool = False, index: bool = True, many_identities: bool = False
    ) -> None:
        self.start_error: str | None = None
        """A text: nothing can be launched, and `launch` raises StartError with it. Nor is what died launched again."""
        self._memories: dict[str, tuple[Shelf, str]] = {}
        self._told = Told(guard, read_only, index, many_identities)
        self._broken = False
        self._lock = threading.Lock()
        self._connections: weakref.WeakSet[_InProcess] = weakref.WeakSet()
        self._journals = tempfile.mkdtemp(prefix="memory-sidecar-fake-")  # mode 0700
        weakref.finalize(self, shutil.rmtree, self._journals, ignore_errors=True)

    @property
    def documents(self) -> dict[str, bytes]:
        """What a launch that names no identity has stored, by key, each with its YAML header.

        Change it as somebody else would behind a run's back.
        """
        return self.documents_of(IDENTITY)

    def documents_of(self, identity: str) -> dict[str, bytes]:
        """The same of an identity that a launch, its configuration or a run names."""
        return self._memory(identity)[0].documents

    def launch(
        self,
        *,
        command: Sequence[StrPath] | None = None,
        env: Mapping[str, str] | None = None,
        stderr: Stderr = None,
        restarts: int = 0,
        **options: Unpack[LaunchOptions],
    ) -> AbstractAsyncContextManager[MemorySidecar]:
        """What `MemorySidecar.launch` gives, for a program on asyncio or trio.

        It takes the same arguments, so that a program may be handed it in place of that one, and refuses what that
        refuses of them. `identity`, `many_identities`, `restarts` and what `config` says mean what they mean there.
        The others are checked, and change nothing. Without an identity it is that of `documents`.
        """
        return AsyncBlock(
            lambda: self._launched(MemorySidecar, command, stderr, restarts, options),
            lambda memory, _: memory._leave(),  # noqa: SLF001 - another face of it
        )

    def launch_sync(
        self,
        *,
        command: Sequence[StrPath] | None = None,
        env: Mapping[str, str] | None = None,
        stderr: Stderr = None,
        restarts: int = 0,
        **options: Unpack[LaunchOptions],
    ) -> AbstractContextManager[sync.MemorySidecar]:
        """What `sync.MemorySidecar.launch` gives, for a program without an event loop; as `launch`."""
        return sync.SyncBlock(
            lambda: self._launched(sync.MemorySidecar, command, stderr, restarts, options),
            lambda memory, _: memory._leave(),  # noqa: SLF001
        )

    def kill(self) -> None:
        """End the sidecar of every launch as SIGKILL would: nothing more is written, and nobody is told.

        Whatever is asked then raises SidecarDiedError, unless the launch said `restarts`. What was acknowledged is
        there for the next launch: the notes, and the authority of the runs.
        """
        for connection in list(self._connections):
            connection.kill()

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        """In the block the notes are out of reach, as behind a broker that is down: the model is told of an error."""
        self._break(True)
        try:
            yield
        finally:
            self._break(False)

    def _launched(
        self, face: type[F], command: Sequence[StrPath] | None, stderr: Stderr, restarts: int, options: LaunchOptions
    ) -> Steps[F]:
        destination(stderr, options)
        command_line(command, options)
        started = partial(self._started, command, options)
        return face((yield from started()), Supervision(started, restarts) if restarts else None)

    def _started(self, command: Sequence[StrPath] | None, options: LaunchOptions) -> "Steps[Connection]":
        yield from ()  # the real one waits here
        if self.start_error is not None:
            raise StartError(self.start_error)
        try:
            connection = _InProcess(self._service(planned(self._told, command, options, self._journals)))
        except RemedyError as error:
            raise StartError(str(error)) from error
        self._connections.add(connection)
        return cast("Connection", connection)

    def _service(self, launch: Planned) -> Service:
        plan = launch.plan
        many = plan.identity is None
        own = (plan.journal_dir, plan.identity or "")
        journal = apart(plan.journal_dir) if many else lambda _: own

        def setting(named: str | None) -> Setting:
            directory, identity = journal(named)
            opened = self._opened(identity, launch.catalog)
            return Setting(opened.store, opened.fingerprint, launch.catalog, launch.with_index, identity, directory)

        info = self._opened(plan.identity or "", launch.catalog).store.info()
        run = "" if many else f"run-{os.urandom(8).hex()}"
        return Service(launch.catalog, info, "", setting, journal, run, False, lambda: None)

    def _opened(self, identity: str, catalog: Catalog) -> Opened:
        if not catalog.enabled:
            return Opened(Store(Nowhere("Memory is not enabled.")), "none")
        shelf, fingerprint = self._memory(identity)
        return Opened(Store(MemoryBackend(shelf), guard=catalog.guarded), fingerprint)

    def _memory(self, identity: str) -> tuple[Shelf, str]:
        """What an identity has here, made when it is first asked for."""
        with self._lock:
            if identity not in self._memories:
                shelf = Shelf()
                shelf.broken = self._broken
                self._memories[identity] = shelf, f"fake:{os.urandom(8).hex()}"
            return self._memories[identity]

    def _break(self, broken: bool) -> None:
        with self._lock:
            self._broken = broken
            for shelf, _ in self._memories.values():
                shelf.broken = broken


class _InProcess:
    """What the library asks of its `Connection`, answered by a session of the wire in this process."""

    silent = False
    forced: str | None = None
    how = f"the memory sidecar {ending(-signal.SIGKILL)} before it answered"

    def __init__(self, service: Service) -> None:
        self.pid = next(_pids)
        self.status: int | None = None
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Request] = {}
        self._lock = threading.Lock()
        self._session = Session(cast("Gate", _Open()), service, threading.RLock())
        self._session.loop = cast("Loop", _NoLoop())
        self._session.output = cast("Output", _Answers(self._settle))

    def request(self, method: str, params: Mapping[str, Any], *, seconds: float | None = None) -> Request:
        request = Request(next(self._numbers), seconds)
        whole = {**params, "_meta": {**identification("fake"), **params.get("_meta", {})}}
        sent = frame({"jsonrpc": "2.0", "id": request.number, "method": method, "params": whole})
        if self.status is not None:
            request.sent = False
            request.set_exception(self._gone())
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

    def kill(self) -> None:
        """Stop where it is: runs stay as their journals have them."""
        if self.status is not None:
            return
        self.status = -signal.SIGKILL
        with self._lock:
            under_way = list(self._waiting.values())
            self._waiting.clear()
        lanes = [*self._session.lanes.all(), self._session.lanes.control]
        for lane in lanes:
            lane.put(lambda lane=lane: lane.run and lane.run.close())  # type: ignore[misc]
            lane.stop()
        for lane in lanes:
            lane.thread.join()
        for request in under_way:
            request.set_exception(self._gone())

    def _gone(self) -> SidecarDiedError:
        return launch_left() if self.status == 0 else died(self.how)

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

    def send(self, message: dict[str, Any], last_of: "Lane | None" = None) -> None:
        self._settle(json.loads(encode(message)))

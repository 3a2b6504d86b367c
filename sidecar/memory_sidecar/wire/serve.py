"""The session: reads frames, hands them to the runs, and ends in order whatever happens. The only user of stdio.

The main thread waits on the pipe, on signals and on the parent's death, and never on anything else: it does not
write and does not touch a store. Each run has a thread that serves its calls one after the other, so that runs do
not wait for each other; a control thread serves what belongs to no run. Threads and not an event loop: file calls
block, an event loop would bring sockets and a TLS library into a process that must have neither, and double its
launch time.
"""

import gc
import os
import select
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ..exits import EX_CONFIG, EX_NOPERM, StartError
from ..observe import log
from ..run.journal import JournalError
from ..run.records import REASONS, Reason, is_run_id
from ..run.runs import list_runs
from ..run.session import RESUMES, HandedScope, Run, RunRefusedError, Setting
from ..store.errors import OutcomeUnknownError, StoreError, UnavailableError, UnreadableError
from ..system import files
from ..tools.catalog import UnknownToolError
from ..version import __version__
from . import messages as m
from .codec import Splitter, decode, encode
from .states import Phase, check
from .stdio import Parent
from .ticket import check_ticket, wants_default_run

if TYPE_CHECKING:
    from ..observe.telemetry import Served, Telemetry

__all__ = ["Service", "serve"]

MAX_OPEN_RUNS: Final = 256
"""Runs open at once in one process; each has a thread. A harness needs one, a fleet endpoint some."""

_MAX_WAITING: Final = 64 * 1024 * 1024
"""Bytes of requests that wait for their run. Past it the pipe is not read, so the harness waits too."""

FINISHES: Final = tuple(reason for reason in REASONS if reason != "suspended")

_READ_SIZE: Final = 1 << 16
"""What a pipe holds at most. A larger buffer would be mapped and unmapped anew for every read."""
_GRACE: Final = 15.0
"""Seconds for calls in flight to end. A store answers within a few; only a stuck disk or pipe takes all of it."""
_PIPE_GRACE: Final = 1.0
"""Seconds for answers nobody reads, once the session ends."""


_WORDS: Final = {m.INVALID_PARAMS: "bad_request", m.REFUSED: "refused"}
"""What the log calls an error of the protocol."""

_FAILURES: Final = (UnavailableError.code, OutcomeUnknownError.code, UnreadableError.code)
"""Outcomes that an operator can do something about. The others are the model's affair."""


class Service(NamedTuple):
    """What a started process serves, made by `assemble`.

    `run` is the id of the default run, `named` whether the operator chose it: then it is opened at the handshake, else
    when it is first used.
    `close` releases the backend's connection, within a few seconds. `telemetry` is None unless it is configured.
    """

    setting: Setting
    run: str
    named: bool
    close: Callable[[], None]
    telemetry: "Telemetry | None" = None


class _Call:
    """A request on its way: which frame it came in, whether the harness has cancelled it, and how it ended."""

    __slots__ = ("cancelled", "code", "error", "received", "request", "served", "size", "tool")

    def __init__(self, request: m.Request, size: int) -> None:
        self.request = request
        self.size = size
        self.cancelled = False
        self.received = time.perf_counter()
        self.code = "ok"
        """A stable word for the log: a tool's or a refusal's."""
        self.error: int | None = None
        """The code of an error that was answered out of turn, before the session ends."""
        self.tool: str | None = None
        """Only of a tool that exists: any other name is text of the model's."""
        self.served: Served | None = None
        """The request's span, while telemetry is on."""


class _Lane:
    """A thread that serves jobs in order. The control lane has no run."""

    def __init__(self, name: str | None) -> None:
        self.name = name
        self.jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.run: Run | None = None
        self.opened = False
        self.unsaved: str | None = None
        self.busy = threading.Lock()
        self.thread = threading.Thread(target=self._work, name=name or "control", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        while (job := self.jobs.get()) is not None:
            job()


def serve(source: int, sink: int, parent: Parent, token: str | None, service: Service | StartError) -> int:
    """Serve one harness until it leaves or `parent` dies, and return the exit status.

    `token` is the launch ticket's, or None if it could not be used: then every client is refused. A `StartError`
    in place of a service is what the holder of the ticket is answered.
    """
    gc.freeze()  # what was loaded stays: nobody need look at it again
    gc.enable()
    return _Session(source, sink, parent, token, service).serve()


class _Session:
    def __init__(
        self, source: int, sink: int, parent: Parent, token: str | None, service: Service | StartError
    ) -> None:
        self._source = source
        self._sink = sink
        self._parent = parent
        self._token = token
        self._service = service
        self._phase = Phase.NEW
        self._version: str | None = None
        self._output = threading.Lock()
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        os.set_blocking(self._wake_read, False)
        # Touched by the main thread and the lanes:
        self._guard = threading.RLock()
        self._calls: dict[m.RequestId, _Call] = {}
        self._waiting = 0
        self._lanes: dict[str, _Lane] = {}
        self._held = False
        self._exit: int | None = None
        self._deaf = False

    # --- the main thread: wait, read, dispatch -------------------------------------------------------------------

    def serve(self) -> int:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: self._end(0))
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        self._control = _Lane(None)
        parent = self._parent
        patience = None if parent.descriptors else 1000
        poll = select.poll()
        for descriptor in (self._wake_read, *parent.descriptors):
            poll.register(descriptor, select.POLLIN)
        splitter = Splitter()
        frames: deque[bytes | None] = deque()
        listening = False
        if parent.is_gone():
            self._end(0)
        while self._exit is None:
            want = not frames and not self._held and self._waiting < _MAX_WAITING
            if want and not listening:
                poll.register(self._source, select.POLLIN)
            elif listening and not want:
                poll.unregister(self._source)
            listening = want
            ready = {descriptor for descriptor, _ in poll.poll(patience)}
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
            if not ready.isdisjoint(parent.descriptors) or parent.is_gone():
                self._end(0)
            elif self._source in ready:
                frames.extend(splitter.feed(self._read()))
            while frames and not self._held and self._exit is None:
                self._receive(frames.popleft())
        self._close()
        return self._exit

    def _read(self) -> bytes:
        """What the pipe holds. Nothing means that the harness closed its end, and ends the session."""
        try:
            data = os.read(self._source, _READ_SIZE)
        except OSError:  # the other end of a socket pair was reset
            data = b""
        if not data:
            self._end(0)
        return data

    def _end(self, status: int) -> None:
        """Stop reading and end the session. The first word stands."""
        if self._exit is None:
            self._exit = status
        self._wake()

    def _wake(self) -> None:
        with suppress(BlockingIOError):  # full: the main thread has enough to wake it
            os.write(self._wake_write, b"\0")

    def _receive(self, frame: bytes | None) -> None:
        message = decode(frame)
        if isinstance(message, m.Request):
            self._accept(message, len(frame or b""))
        elif isinstance(message, m.Invalid):
            answer = m.failure(message.id, message.code, message.message)
            self._control.jobs.put(lambda: self._send(answer))
        elif message is not None and message.method == "notifications/cancelled":
            self._cancel(message.params.get("requestId"))

    def _accept(self, request: m.Request, size: int) -> None:
        call = _Call(request, size)
        # Under the guard, so that a run which ends now either serves the call or is not found.
        with self._guard:
            try:
                check(request.method, self._phase)
                lane, serve_it = self._route(request)
            except m.Error as error:
                log.debug("request refused", request=request.id, code=error.code, reason=error)
                answer = m.failure(request.id, error.code, str(error), error.data)
                self._control.jobs.put(lambda: self._send(answer))
                return
            self._calls[request.id] = call
            self._waiting += size
            lane.jobs.put(lambda: self._serve(call, lane, serve_it))

    def _cancel(self, request_id: object) -> None:
        if isinstance(request_id, str | int):
            with self._guard:
                call = self._calls.get(request_id)
                if call is not None and call.request.method != "initialize":
                    call.cancelled = True

    def _route(self, request: m.Request) -> tuple[_Lane, Callable[[_Call, _Lane], dict[str, Any]]]:
        """The lane that serves a request, and how."""
        if request.method == "initialize":
            self._held = True  # what follows is read when it is known whether the ticket was good
            return self._control, self._initialize
        plain = {"ping": self._ping, "tools/list": self._list_tools, m.RUN_LIST: self._list_runs}.get(request.method)
        if plain is not None:
            return self._control, plain
        if request.method == "tools/call":
            meta = request.params.get("_meta")
            run = meta.get(m.RUN) if isinstance(meta, dict) else None
            return self._lane_of(self._started.run if run is None else run), self._call_tool
        run = _run_id(request.params.get("run"))
        if request.method == m.RUN_OPEN:
            return self._new_lane(run), self._open_run
        return self._lane_of(run), self._end_run

    def _lane_of(self, run: object) -> _Lane:
        lane = self._lanes.get(run) if isinstance(run, str) else None
        if lane is None:
            raise m.Error(m.INVALID_PARAMS, f"this run is not open; open it with {m.RUN_OPEN}")
        return lane

    def _new_lane(self, run: str) -> _Lane:
        if run in self._lanes:
            raise m.Error(m.REFUSED, f"run {run} is open already; use it, or end it first")
        if len(self._lanes) >= MAX_OPEN_RUNS:
            raise m.Error(m.REFUSED, f"{MAX_OPEN_RUNS} runs are open; end one first")
        lane = self._lanes[run] = _Lane(run)
        return lane

    # --- the lanes: serve and answer -----------------------------------------------------------------------------

    def _serve(self, call: _Call, lane: _Lane, serve_it: Callable[[_Call, _Lane], dict[str, Any]]) -> None:
        request = call.request
        answer = None
        self._begin_serving(call)
        try:
            if not call.cancelled:
                with lane.busy:
                    result = serve_it(call, lane)
                answer = m.success(request.id, result)
        except m.Error as error:
            call.code = _WORDS.get(error.code, "refused")
            answer = m.failure(request.id, error.code, str(error), error.data)
        except (JournalError, RunRefusedError) as error:
            call.code = "refused"
            # A journal that can't be used is the operator's affair; what may not be opened again, the harness's.
            tell = log.warning if isinstance(error, JournalError) else log.info
            tell("request refused", method=request.method, run=lane.name, request=request.id, reason=error)
            answer = m.failure(request.id, m.REFUSED, str(error))
        except Exception as error:  # noqa: BLE001 - the process lives; the operator learns what the model must not
            call.code = "internal"
            log.error(
                "internal error",
                method=request.method,
                run=lane.name,
                request=request.id,
                tool=call.tool,
                error=log.problem(error),
            )
            answer = m.failure(request.id, m.INTERNAL_ERROR, "the sidecar failed to serve this request; see its log")
        with self._guard:
            if self._calls.get(request.id) is call:
                del self._calls[request.id]
            was_full = self._waiting >= _MAX_WAITING
            self._waiting -= call.size
            cancelled = call.cancelled  # from here on a cancellation finds nothing
        if cancelled and request.method == m.RUN_OPEN:
            # Nobody was told that the run is open, so nobody would end it.
            self._suspend(lane)
            self._forget(request.params["run"], lane)
        if answer is not None and not cancelled:
            self._send(answer)
        self._has_served(call, lane, answer)
        if request.method == "initialize":
            self._held = False
            self._wake()
        elif was_full:
            self._wake()

    def _begin_serving(self, call: _Call) -> None:
        if not isinstance(self._service, Service):
            return
        request, service = call.request, self._service
        if request.method == "tools/call":
            tool = request.params.get("name")
            call.tool = tool if tool in service.setting.catalog.names else None
        if service.telemetry is not None:
            call.served = service.telemetry.receive(
                request.method,
                request.id,
                request.params,
                tool=call.tool,
                waited=time.perf_counter() - call.received,
            )

    def _has_served(self, call: _Call, lane: _Lane, answer: dict[str, Any] | None) -> None:
        """Tell the operator how a request went; the harness has its answer by now."""
        request = call.request
        seconds = time.perf_counter() - call.received
        outcome = "cancelled" if call.cancelled and call.code == "ok" else call.code
        if request.method == "tools/call" and log.enabled("debug"):
            log.debug(
                "call served",
                run=lane.name,
                request=request.id,
                tool=call.tool,
                outcome=outcome,
                ms=round(seconds * 1000, 3),
            )
        if call.served is not None:
            body = answer or {}
            call.served.end(
                outcome,
                seconds,
                run=lane.name,
                protocol=self._version,
                error_code=call.error or body.get("error", {}).get("code"),
                tool_error=bool(body.get("result", {}).get("isError")),
            )

    def _turn_away(self, call: _Call, code: str, error: m.Error) -> None:
        """Answer with the last word of the session: nothing else is sent for this request."""
        self._send(m.failure(call.request.id, error.code, str(error), error.data))
        call.cancelled, call.code, call.error = True, code, error.code

    def _send(self, message: dict[str, Any]) -> None:
        frame = encode(message)
        with self._output:
            if self._deaf:
                return
            try:
                files.write_all(self._sink, frame)
            except OSError:
                # The harness has closed its end: nobody is left to answer.
                self._deaf = True
                self._end(0)

    def _initialize(self, call: _Call, _lane: _Lane) -> dict[str, Any]:
        params = call.request.params
        version = params.get("protocolVersion")
        if not isinstance(version, str) or not isinstance(params.get("capabilities"), dict):
            raise m.Error(m.INVALID_PARAMS, "initialize needs protocolVersion and capabilities")
        try:
            check_ticket(self._token, params)
        except m.Error as error:
            log.warning("refused a client without the launch ticket", client=_client(params))
            self._turn_away(call, "no_ticket", error)
            self._end(EX_NOPERM)
            return {}
        try:
            service = self._started
            opened = self._open_default_run(service, call) if service.named or wants_default_run(params) else {}
        except (StartError, JournalError, RunRefusedError, StoreError) as error:
            log.error("cannot start", reason=error, cause=_cause(error))
            self._turn_away(call, "refused", m.Error(m.REFUSED, _remedy(error)))
            self._end(EX_CONFIG)
            return {}
        self._phase = Phase.READY
        self._version = version if version in m.PROTOCOL_VERSIONS else m.PROTOCOL_VERSION
        return {
            "protocolVersion": self._version,
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "memory-sidecar", "version": __version__},
            **opened,
        }

    def _open_default_run(self, service: Service, call: _Call) -> dict[str, Any]:
        """Make the process's own run ready, and return what `initialize` tells of it."""
        lane = self._lanes[service.run] = _Lane(service.run)
        lane.run = Run(service.run, service.setting)
        if service.named:
            lane.run.open()
            self._has_opened(lane, lane.run)
        text = lane.run.instructions(call.served)
        return {"instructions": text, "_meta": self._meta(lane.run)}

    def _ping(self, _call: _Call, _lane: _Lane) -> dict[str, Any]:
        return {}

    def _list_tools(self, call: _Call, _lane: _Lane) -> dict[str, Any]:
        if call.request.params.get("cursor") is not None:
            raise m.Error(m.INVALID_PARAMS, "there is one page of tools; send no cursor")
        return {"tools": self._started.setting.catalog.definitions()}

    def _list_runs(self, _call: _Call, _lane: _Lane) -> dict[str, Any]:
        return {
            "runs": [
                found._asdict()
                for found in list_runs(self._started.setting.journal_dir, self._started.setting.identity)
            ]
        }

    def _call_tool(self, call: _Call, lane: _Lane) -> dict[str, Any]:
        run = self._open_lazily(lane)
        name = call.request.params.get("name")
        if not isinstance(name, str):
            raise m.Error(m.INVALID_PARAMS, "tools/call needs the name of a tool")
        arguments = call.request.params.get("arguments")
        try:
            answer = run.call(name, arguments, lambda: call.cancelled, call.served)
        except UnknownToolError as error:
            raise m.Error(m.INVALID_PARAMS, str(error)) from error
        call.code = answer.outcome.code
        if answer.outcome.cause is not None and call.code in _FAILURES:
            log.warning(
                "the store failed",
                run=run.run,
                request=call.request.id,
                tool=name,
                outcome=call.code,
                cause=log.problem(answer.outcome.cause),
            )
        self._watch_saving(lane, run)
        return m.tool_result(answer.outcome, run.run, answer.unsaved)

    def _open_run(self, call: _Call, lane: _Lane) -> dict[str, Any]:
        params = call.request.params
        name = params["run"]
        run = Run(name, self._started.setting)
        try:
            resume = params.get("resume", "auto")
            if resume not in RESUMES:
                raise m.Error(m.INVALID_PARAMS, f"resume is one of {', '.join(RESUMES)}")
            run.open(resume, _handed(params.get("scope")))
            lane.run = run
            self._has_opened(lane, run)
            text = run.instructions(call.served)
        except BaseException as error:
            if lane.opened:
                run.end("suspended")
                self._has_ended(lane, run, "suspended")
            self._forget(name, lane)
            if isinstance(error, StoreError):
                raise m.Error(m.REFUSED, _remedy(error)) from error
            raise
        setting = self._started.setting
        info = setting.store.info()
        return {
            "run": name,
            "resumed": run.resumed,
            "tools": setting.catalog.definitions(),
            "instructions": text,
            "scope": run.scope(),
            "read_only": setting.catalog.read_only,
            "backend": {"name": info.backend, "location": info.location},
            "_meta": self._meta(run),
        }

    def _end_run(self, call: _Call, lane: _Lane) -> dict[str, Any]:
        params = call.request.params
        reason: Reason = "suspended"
        message = None
        if call.request.method == m.RUN_FINISH:
            reason, message = _ending(params)
        run = self._open_lazily(lane)
        run.end(reason, message)
        self._has_ended(lane, run, reason)
        self._forget(params["run"], lane)
        return {"run": run.run, "scope": run.scope(), "_meta": self._meta(run)}

    @property
    def _started(self) -> Service:
        if isinstance(self._service, StartError):
            raise self._service
        return self._service

    def _open_lazily(self, lane: _Lane) -> Run:
        run = lane.run
        if run is None:
            raise m.Error(m.INVALID_PARAMS, f"this run is not open; open it with {m.RUN_OPEN}")
        if not lane.opened:
            run.begin()
            self._has_opened(lane, run)
        return run

    def _has_opened(self, lane: _Lane, run: Run) -> None:
        lane.opened = True
        log.info("run resumed" if run.resumed else "run opened", run=run.run)
        self._watch_saving(lane, run)

    def _has_ended(self, lane: _Lane, run: Run, reason: Reason) -> None:
        self._watch_saving(lane, run)
        if reason == "suspended":
            log.info("run suspended", run=run.run)
        else:
            log.info("run finished", run=run.run, reason=reason)

    def _watch_saving(self, lane: _Lane, run: Run) -> None:
        """Say when a run's authority stops being saved, why, and when that is over; not at every call between."""
        before, lane.unsaved = lane.unsaved, run.unsaved
        if lane.unsaved is not None and lane.unsaved != before:
            log.warning("authority is not saved", run=run.run, reason=lane.unsaved)
        elif lane.unsaved is None and before is not None:
            log.warning("authority is saved again", run=run.run)

    def _forget(self, name: str, lane: _Lane) -> None:
        """The run is no longer open: calls that are still queued find none, and the lane's thread ends."""
        with self._guard:
            if self._lanes.get(name) is lane:
                del self._lanes[name]
            lane.run, lane.opened = None, False
            lane.jobs.put(None)

    @staticmethod
    def _meta(run: Run) -> dict[str, Any]:
        return {m.RUN: run.run} if run.unsaved is None else {m.RUN: run.run, m.UNSAVED: run.unsaved}

    # --- the end ---------------------------------------------------------------------------------------------------

    def _close(self) -> None:
        """Answer what was asked, suspend every open run, and let the backend go. Nothing here waits for ever."""
        deadline = time.monotonic() + _GRACE
        stalled = time.monotonic() + _PIPE_GRACE

        def join(lane: _Lane) -> None:
            while lane.thread.is_alive() and time.monotonic() < deadline:
                lane.thread.join(0.1)
                # An answer that nobody reads must not keep the authority of the runs from being saved.
                if lane.thread.is_alive() and time.monotonic() > stalled and self._output.locked():
                    break

        self._control.jobs.put(None)
        join(self._control)  # first, because a handshake under way opens a run
        with self._guard:
            lanes = list(self._lanes.values())
        for lane in lanes:
            lane.jobs.put(lambda lane=lane: self._suspend(lane))  # type: ignore[misc]
            lane.jobs.put(None)
        for lane in lanes:
            join(lane)
        for lane in lanes:
            if lane.thread.is_alive():
                self._suspend(lane, wait=0.5)
        if isinstance(self._service, Service):
            self._service.close()
            if self._service.telemetry is not None:
                self._service.telemetry.close()
        log.info("stopped", status=self._exit)

    def _suspend(self, lane: _Lane, wait: float = -1) -> None:
        if not lane.busy.acquire(timeout=wait):
            return
        try:
            run, lane.run = lane.run, None
            if run is not None and lane.opened:
                run.end("suspended")
                self._has_ended(lane, run, "suspended")
        finally:
            lane.busy.release()


def _client(params: dict[str, Any]) -> str | None:
    """How a refused client calls itself: it tells an operator which host has the command in its list."""
    info = params.get("clientInfo")
    name = info.get("name") if isinstance(info, dict) else None
    return name[:100] if isinstance(name, str) else None


def _cause(error: BaseException) -> str | None:
    return None if error.__cause__ is None else log.problem(error.__cause__)


def _remedy(error: BaseException) -> str:
    """What the harness is told that a run cannot start for. No model sees it."""
    return (error.remedy if isinstance(error, StoreError) else "") or str(error)


def _run_id(value: object) -> str:
    if not isinstance(value, str) or not is_run_id(value):
        raise m.Error(
            m.INVALID_PARAMS, "run is an id of 1 to 128 letters, digits, _ and -, starting with a letter or digit"
        )
    return value


def _ending(params: dict[str, Any]) -> tuple[Reason, str | None]:
    reason, message = params.get("reason"), params.get("message")
    if reason not in FINISHES:
        raise m.Error(m.INVALID_PARAMS, f"reason is one of {', '.join(FINISHES)}")
    if message is not None and not isinstance(message, str):
        raise m.Error(m.INVALID_PARAMS, "message is text")
    return reason, message


def _handed(scope: object) -> HandedScope | None:
    """The scope that a harness hands back at open, checked as far as its form goes."""
    if scope is None:
        return None
    if isinstance(scope, dict) and set(scope) <= {"store", "keys"}:
        store, keys = scope.get("store"), scope.get("keys")
        if isinstance(store, str) and isinstance(keys, dict) and all(isinstance(rev, str) for rev in keys.values()):
            return HandedScope(store, keys)
    raise m.Error(m.INVALID_PARAMS, "scope is an object of store and keys, as a run returned it")

"""A launch and its runs: what happens in which order, for every face of the library alike.

Leaving a run without a word suspends it; leaving the launch closes the pipe, on which the sidecar suspends whatever is
still open. So no exception, cancellation or interrupt loses what a run had earned. What is written here are steps (see
`steps`); nothing here knows an event loop.
"""

import threading
import uuid
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, Literal, Self, TypeVar

from exposure_policy.serving import ask

from . import bounds
from .command import LaunchOptions, StrPath
from .connection import Connection
from .errors import OutcomeUnknownError, RequestRefusedError, SidecarDiedError, SidecarError, about_identity
from .log import Stderr
from .run import Bound, Name, OpenRun
from .start import start
from .steps import Steps, Wait, answer
from .supervision import Supervision
from .unanswered import tell_unanswered

__all__ = ["Launched", "Resume"]

_REFUSED: Final = 1000
_INVALID_PARAMS: Final = -32602

Resume = Literal["auto", "require", "never"]

R = TypeVar("R", bound=OpenRun)


class Launched(Bound):
    """A launched sidecar, and which of its runs are open."""

    def __init__(self, connection: Connection, supervision: Supervision | None = None) -> None:
        self._connection = connection
        self._supervision = supervision
        self._lock = threading.Lock()
        self._opened: set[Name] = set()
        """Runs that are open: those that a sidecar launched anew is to open again."""
        self._runs: dict[Name, Future[None] | None] = {}
        """Those that are open or about to be; with a future, those that are closed again as soon as it is settled."""
        self._abandoned: deque[Name] = deque()
        """Runs that nobody has any more, though their blocks were never left."""
        self._left = False
        self._finalizer = _ended_with(self, connection)

    @classmethod
    def _launched(
        cls,
        command: Sequence[StrPath] | None,
        env: Mapping[str, str] | None,
        stderr: Stderr,
        restarts: int,
        options: LaunchOptions,
    ) -> Steps[Self]:
        """What entering the block of a launch takes."""
        if type(restarts) is not int or restarts < 0:
            raise TypeError(f"restarts is how often a sidecar that dies is launched again, 0 or more, not {restarts!r}")

        def started() -> Steps[Connection]:
            return start(command, env, stderr, options)

        return cls((yield from started()), Supervision(started, restarts) if restarts else None)

    def _opened_as(
        self, face: type[R], run: str | None, resume: Resume, scope: Mapping[str, Any] | None, identity: str | None
    ) -> Steps[R]:
        """What entering the block of a run takes."""
        return face(self, (yield from self._open(run, resume, scope, identity)))

    @property
    def pid(self) -> int:
        """The process id of the sidecar; another one after a restart."""
        return self._connection.pid

    @property
    def alive(self) -> bool:
        """Whether the sidecar's process runs."""
        return self._connection.status is None

    @property
    def exit_status(self) -> int | None:
        """How the sidecar's process ended, as in `subprocess`: None while it runs, negative for a signal."""
        return self._connection.status

    def _ask(self, method: str, params: Mapping[str, Any], *, again: bool = True) -> Steps[dict[str, Any]]:
        """Ask the sidecar. Whoever is interrupted meanwhile withdraws the request.

        If the sidecar dies and is launched again, ask that one if asking `again` is safe.

        Raises:
            OutcomeUnknownError: it died and was launched again, and whether it did what was asked is not known.
        """
        while True:
            connection = self._connection
            request = connection.request(method, params)
            try:
                return (yield from answer(request))
            except SidecarDiedError as error:
                yield from self._replace(connection, error)
                if not again and request.sent:
                    raise OutcomeUnknownError(str(error)) from error
            except SidecarError:
                raise
            except BaseException:
                connection.withdraw(request)
                raise

    def _replace(self, dead: Connection, error: SidecarDiedError, *, insistent: bool = False) -> Steps[None]:
        """Go on with another sidecar in place of a dead one, or raise `error`."""
        if self._connection is not dead:  # somebody else has seen to it
            return
        replaced = None
        if self._supervision is not None and not self._left:
            replaced = self._supervision.replaced(dead, lambda: list(self._opened))
        if replaced is None:
            raise error
        yield Wait(replaced, insistent)
        try:
            connection = replaced.result()
        except SidecarError as failure:
            raise error from failure
        with self._lock:
            if self._connection is dead:
                self._connection = connection
                self._finalizer.detach()
                self._finalizer = _ended_with(self, connection)

    def _list(self, identity: str | None = None) -> Steps[list[dict[str, Any]]]:
        ask("runs")
        params = {} if identity is None else {"identity": identity}
        found: list[dict[str, Any]] = (yield from _in_our_words(self._ask("memory-sidecar/run/list", params)))["runs"]
        return found

    def _open(
        self, run: str | None, resume: Resume, scope: Mapping[str, Any] | None, identity: str | None = None
    ) -> Steps[dict[str, Any]]:
        ask("run")
        run = f"run-{uuid.uuid4().hex}" if run is None else run
        if not isinstance(run, str) or not run:
            raise RequestRefusedError(
                _INVALID_PARAMS,
                "the id of a run is a text that is not empty; leave it out for a new run with one of its own",
            )
        if identity is not None and not isinstance(identity, str):
            raise RequestRefusedError(_INVALID_PARAMS, "an identity is a text; leave it out if the launch has one")
        name = Name(identity, run)
        params: dict[str, Any] = {**name.params(), "resume": resume}
        if scope is not None:
            params["scope"] = scope
        yield from self._reserve(name)
        try:
            opened = yield from _in_our_words(self._ask("memory-sidecar/run/open", params))
        except SidecarError:
            self._release(name)
            raise
        except BaseException:
            # It may be open by now, or about to be. Once this is answered, whatever the answer, it is not.
            self._suspend_soon(name)
            raise
        self._opened.add(name)
        return opened

    def _reserve(self, name: Name) -> Steps[None]:
        """Make `name` ours, once a run that nobody wanted any more is closed.

        Raises:
            RequestRefusedError: it is open.
        """
        while True:
            while self._abandoned:
                self._suspend_soon(self._abandoned.popleft())
            with self._lock:
                if name not in self._runs:
                    self._runs[name] = None
                    return
                closed = self._runs[name]
            if closed is None:
                raise RequestRefusedError(_REFUSED, f"run {name.run} is open already; use it, or end it first")
            yield Wait(closed)

    def _release(self, name: Name) -> None:
        with self._lock:
            self._opened.discard(name)
            closed = self._runs.pop(name, None)
        if closed is not None:
            closed.set_result(None)

    def _suspend_soon(self, name: Name) -> None:
        """Close a run that nobody has, without waiting for it."""
        with self._lock:
            self._opened.discard(name)
            self._runs[name] = Future()
        try:
            request = self._connection.request("memory-sidecar/run/suspend", name.params(), seconds=bounds.STOP_SECONDS)
        except SidecarError:
            self._release(name)
        else:
            request.add_done_callback(lambda _: self._release(name))

    def _leave(self) -> Steps[None]:
        self._left = True
        connection = self._connection
        try:
            yield Wait(connection.end(self._patience()), insistent=True)
        finally:
            if connection.forced:
                tell_unanswered(f"process {connection.pid} did not end by itself and was sent {connection.forced}")

    def _patience(self) -> float:
        """How long the sidecar may take to end by itself, in seconds."""
        if self._connection.silent:
            return bounds.KILL_SECONDS
        return bounds.STOP_SECONDS if self._runs else bounds.IDLE_STOP_SECONDS


def _in_our_words(asked: Steps[dict[str, Any]]) -> Steps[dict[str, Any]]:
    try:
        return (yield from asked)
    except RequestRefusedError as error:
        raise about_identity(error) from error.__cause__


def _ended_with(launched: Launched, connection: Connection) -> Any:
    """What ends the sidecar if nobody has its launch any more, though the block was never left."""
    finalizer = weakref.finalize(launched, connection.end, bounds.STOP_SECONDS)
    finalizer.atexit = False  # the connection sees to that
    return finalizer

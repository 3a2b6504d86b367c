"""One launched sidecar and what is said to it: requests out, answers matched by id. No event loop has a part in it.

It speaks MCP 2026-07-28, which has no handshake: every request presents the launch's ticket itself.

A request is a `concurrent.futures.Future`, made from any thread and on any loop; the `Pump` settles it. Whoever is
cancelled has nothing left to do but to withdraw it, which takes no waiting.
"""

import atexit
import itertools
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from . import bounds
from .child import Child
from .errors import MORE_PROCESSES, SidecarError, StartError
from .frames import frame, identification
from .log import copying
from .pump import Pump
from .requests import Request, Requests
from .tracing import with_trace

__all__ = ["Connection"]


class Connection:
    """A sidecar that was just started.

    Raises:
        StartError: it cannot be started; the text is the remedy.
    """

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str] | None,
        stderr: int | None = None,
        log: Callable[[bytes], None] | None = None,
    ) -> None:
        self._child = Child(words, env, stderr, log=log is not None)
        self._numbers = itertools.count(1)
        self._requests = Requests(self._child)
        try:
            copied = None if log is None or self._child.log is None else copying(self._child.log, log)
            self._pump = Pump(self._child, self._requests, copied)
            self._pump.start()
        except RuntimeError as error:
            self._child.abandon()
            raise StartError(f"cannot attend to the memory sidecar: {error}; {MORE_PROCESSES}") from error
        self._meta = identification(self._child.token)
        _started.add(self)

    def request(self, method: str, params: Mapping[str, Any], *, seconds: float | None = None) -> Request:
        """Send a request. It fails with TimeoutError if it is not answered within `seconds`.

        The current span of a harness that traces itself goes along (see `tracing`). The future fails with
        RequestRefusedError if the answer is an error, with SidecarError if the sidecar could not read a request that
        may be this one, and with SidecarDiedError if the process ended before it answered.

        Raises:
            RequestRefusedError: the request is none that can be sent.
            SidecarError: this process was forked from the one that launched the sidecar.
        """
        if self._child.forked:
            raise SidecarError(
                "this process was forked from the one that launched the memory sidecar, and cannot speak to it; launch "
                "one here, or start processes by spawn and hand the calls to the one that launched it"
            )
        request = Request(next(self._numbers), seconds)
        whole = with_trace({**params, "_meta": {**self._meta, **params.get("_meta", {})}})
        message = {"jsonrpc": "2.0", "id": request.number, "method": method, "params": whole}
        self._requests.add(request, frame(message))
        return request

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        """Send a notification; a sidecar that is gone does not mind."""
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self._requests.say(frame(message))

    def withdraw(self, request: Request) -> None:
        """Wait for an answer no longer. The sidecar doesn't begin it, or cancels it, if it is not too late."""
        if not self._child.forked and self._requests.withdraw(request):
            self.notify("notifications/cancelled", {"requestId": request.number})

    def limit(self, request: Request, seconds: float) -> None:
        """Let a request that is under way fail with TimeoutError unless it is answered within `seconds` from now."""
        if not self._child.forked:
            self._requests.limit(request, seconds)

    def end(self, seconds: float) -> Future[None]:
        """Close the pipe once what was said is written; after `seconds` comes SIGTERM, and later SIGKILL.

        What it returns is settled once the process has ended.
        """
        if self._child.forked:  # it is another process's
            done: Future[None] = Future()
            done.set_result(None)
            return done
        self._pump.left = True
        self._pump.end_within(seconds)
        return self._pump.ended

    def kill(self) -> Future[None]:
        """End a sidecar that has nothing to save."""
        with suppress(OSError):
            self._child.kill()
        return self.end(bounds.KILL_SECONDS)

    @property
    def silent(self) -> bool:
        """Whether the sidecar let somebody wait in vain, and has answered nothing since."""
        return self._pump.silent

    @property
    def forced(self) -> str | None:
        """The signal that it took to end the process; None if it took none."""
        return self._pump.forced

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def status(self) -> int | None:
        """The exit status as `subprocess` has it, None while the process runs."""
        return self._child.status()

    @property
    def how(self) -> str:
        """How it ended, as the beginning of a sentence; to be asked once something has failed for that reason."""
        return self._pump.how or "the memory sidecar closed its pipe before it answered"


_started: "weakref.WeakSet[Connection]" = weakref.WeakSet()


def _end_all() -> None:
    """A program that ends inside a launch's block, as notebooks do, ends its sidecars in order."""
    for ended in [connection.end(bounds.STOP_SECONDS) for connection in list(_started)]:
        with suppress(TimeoutError):
            ended.result(bounds.STOP_SECONDS + 2 * bounds.KILL_SECONDS)


atexit.register(_end_all)

"""The requests that are under way: who may still cancel them, and how many bytes of them wait."""

import threading
import time

from ..hints import TYPE_CHECKING, Any, Final
from .eras import Era
from .messages import Request, RequestId

if TYPE_CHECKING:
    from ..observe.telemetry import Served

__all__ = ["Call", "Calls"]

_MAX_WAITING: Final = 64 * 1024 * 1024
"""Bytes of requests that wait for their run. Past it the pipe is not read, so the harness waits too."""


class Call:
    """A request on its way: which frame it came in, whether the harness has cancelled it, and how it ended."""

    __slots__ = ("cancelled", "capabilities", "code", "era", "error", "received", "request", "served", "size", "tool")

    def __init__(self, request: Request, size: int, era: Era) -> None:
        self.request = request
        self.size = size
        self.era = era
        self.capabilities: dict[str, Any] = {}
        """What its client can do, where the request itself says so."""
        self.cancelled = False
        self.received = time.perf_counter()
        self.code = "ok"
        """A stable word for the log: a tool's or a refusal's."""
        self.error: int | None = None
        """The code of the error that it was answered."""
        self.tool: str | None = None
        """Only of a tool that exists: any other name is text of the model's."""
        self.served: Served | None = None
        """The request's span, while telemetry is on."""


class Calls:
    """Filled by whoever reads, emptied by the lanes; `guard` keeps it and the lanes in step."""

    def __init__(self, guard: threading.RLock) -> None:
        self._guard = guard
        self._by_id: dict[RequestId, Call] = {}
        self._waiting = 0

    @property
    def is_full(self) -> bool:
        return self._waiting >= _MAX_WAITING

    @property
    def are_many(self) -> bool:
        return len(self._by_id) > 1

    def add(self, call: Call) -> None:
        with self._guard:
            self._by_id[call.request.id] = call
            self._waiting += call.size

    def find(self, request_id: RequestId) -> Call | None:
        """The request of this id, while it is under way."""
        return self._by_id.get(request_id)

    def remove(self, call: Call) -> bool:
        """The call is served: no cancellation finds it any more. Whether one has before."""
        with self._guard:
            if self._by_id.get(call.request.id) is call:
                del self._by_id[call.request.id]
            self._waiting -= call.size
            return call.cancelled

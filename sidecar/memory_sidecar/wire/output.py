"""The one place that writes to the wire: whole frames, one after the other, by whichever lane has an answer."""

import threading

from ..hints import TYPE_CHECKING, Any
from .codec import encode
from .stdio import send as write
from .stdio import send_at_once

if TYPE_CHECKING:
    from .lanes import Lane
    from .loop import Loop

__all__ = ["Output"]


class Output:
    """`loop` is told when the harness has closed its end and nobody is left to answer."""

    def __init__(self, sink: int, loop: "Loop") -> None:
        self._sink = sink
        self._loop = loop
        self._lock = threading.Lock()
        self._closed = False
        self._tries = True

    def send(self, message: dict[str, Any], last_of: "Lane | None" = None) -> None:
        """Write a message. `last_of` names the lane that has nothing else to do, and sends it on its thread."""
        frame = encode(message)
        with self._lock:
            if self._closed:
                return
            if last_of is not None and self._tries and self._loop.reader.claim(last_of):
                frame = self._try(frame, last_of)
            try:
                write(self._sink, frame)
            except OSError:
                self._closed = True
                self._loop.end(0)

    def _try(self, frame: bytes, lane: "Lane") -> bytes:
        """Write as much as the channel takes without waiting, and return the rest, for which `lane` has to wait."""
        written = send_at_once(self._sink, frame)
        self._tries = written is not None
        rest = frame[written or 0 :]
        if rest:
            self._loop.reader.give_up(lane)
        return rest

    @property
    def is_stuck(self) -> bool:
        """Whether somebody writes just now; if that lasts, nobody reads."""
        return self._lock.locked()

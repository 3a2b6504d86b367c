"""The one place that writes to the wire: whole frames, one after the other, by whichever lane has an answer."""

import threading
from collections.abc import Callable

from ..hints import Any
from .codec import encode
from .stdio import send as write

__all__ = ["Output"]


class Output:
    """`on_closed` is called once, when the harness has closed its end and nobody is left to answer."""

    def __init__(self, sink: int, on_closed: Callable[[], None]) -> None:
        self._sink = sink
        self._on_closed = on_closed
        self._lock = threading.Lock()
        self._closed = False

    def send(self, message: dict[str, Any]) -> None:
        frame = encode(message)
        with self._lock:
            if self._closed:
                return
            try:
                write(self._sink, frame)
            except OSError:
                self._closed = True
                self._on_closed()

    @property
    def is_stuck(self) -> bool:
        """Whether somebody writes just now; if that lasts, nobody reads."""
        return self._lock.locked()

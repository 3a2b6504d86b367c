"""Launching again: a sidecar that died is replaced, and the runs that were open are opened again with their authority.

The journal has everything that was acknowledged, so nothing is lost but the answers that were under way. It happens
when the death is noticed by somebody who asks, and in a thread of its own: whoever asks may be cancelled meanwhile.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Final

from .errors import SidecarError
from .steps import Steps, answer, here

if TYPE_CHECKING:
    from .connection import Connection
    from .run import Name

__all__ = ["Supervision"]

_log: Final = logging.getLogger("memory_sidecar.harness")


class Supervision:
    """How a launch is repeated, and how often it still may be."""

    def __init__(self, start: Callable[[], Steps["Connection"]], restarts: int) -> None:
        self._start = start
        self._restarts = restarts
        self._left = restarts
        self._lock = threading.Lock()
        self._under_way: dict[Connection, Future[Connection]] = {}

    def replaced(self, dead: "Connection", runs: "Callable[[], list[Name]]") -> "Future[Connection] | None":
        """What will be the connection in place of `dead`, with `runs()` open in it; None if there is to be none.

        It fails with SidecarError if the launch does. Whoever asks about one death gets the same answer.
        """
        with self._lock:
            found = self._under_way.get(dead)
            if found is None and self._left > 0:
                self._left -= 1
                found = self._under_way[dead] = Future()
                threading.Thread(
                    target=self._replace, args=(found, runs), name="memory-sidecar launch", daemon=True
                ).start()
        return found

    def _replace(self, replaced: "Future[Connection]", runs: "Callable[[], list[Name]]") -> None:
        count = self._restarts - self._left
        try:
            connection = here(self._start())
            for run in runs():
                try:
                    params = {**run.params(), "resume": "require"}
                    here(answer(connection.request("memory-sidecar/run/open", params)))
                except SidecarError as error:
                    _log.error("run %s could not be opened again: %s", run.run, error)
        except BaseException as error:  # noqa: BLE001 - it is told to whoever waits
            _log.error("the memory sidecar died and cannot be launched again: %s", error)
            replaced.set_exception(error)
            return
        _log.warning("the memory sidecar died and was launched again (%d of %d)", count, self._restarts)
        replaced.set_result(connection)

"""The end of a session: answer what was asked, suspend every open run, let the backend go. Nothing waits for ever."""

import time

from ..hints import Final
from ..observe import log
from .lanes import Lane
from .opening import suspend
from .session import Session

__all__ = ["close"]

_GRACE: Final = 15.0
"""Seconds for calls in flight to end. A store answers within a few; only a stuck disk or pipe takes all of it."""

_PIPE_GRACE: Final = 1.0
"""Seconds for answers nobody reads, once the session ends."""

_LAST_TRY: Final = 0.5
"""Seconds for a run whose lane is stuck, to be suspended from here."""


def close(session: Session) -> None:
    """End the session in order. Nothing is read any more."""
    deadline = time.monotonic() + _GRACE
    stalled = time.monotonic() + _PIPE_GRACE

    def join(lane: Lane) -> None:
        while lane.thread.is_alive() and time.monotonic() < deadline:
            lane.thread.join(0.1)
            # An answer that nobody reads must not keep the authority of the runs from being saved.
            if lane.thread.is_alive() and time.monotonic() > stalled and session.output.is_stuck:
                break

    session.lanes.control.stop()
    join(session.lanes.control)  # first, because a handshake under way opens a run
    lanes = session.lanes.all()
    for lane in lanes:
        lane.put(lambda lane=lane: suspend(lane))  # type: ignore[misc]
        lane.stop()
    for lane in lanes:
        join(lane)
    for lane in lanes:
        if lane.thread.is_alive():
            suspend(lane, patience=_LAST_TRY)
    service = session.started
    if service is not None:
        service.close()
        if service.telemetry is not None:
            service.telemetry.close()
    log.info("stopped", status=session.loop.exit_status)

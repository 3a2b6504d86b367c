"""One request on its lane: served, answered, told to the operator. What goes wrong becomes an answer here."""

import time

from ..hints import Any
from ..observe import log
from ..remedy import RemedyError
from ..run.terms import JournalError, RunRefusedError
from . import messages as m
from .calls import Call
from .codes import CODES, INTERNAL_ERROR, REFUSED, Error
from .eras import MODERN_VERSIONS, Era, complete
from .lanes import Lane
from .methods import Handler
from .opening import OpeningCancelledError, take_back
from .session import Session
from .states import METHODS

__all__ = ["serve_call"]


def serve_call(session: Session, call: Call, lane: Lane, handler: Handler) -> None:
    """Serve one request to its end. The process lives, whatever it does."""
    request = call.request
    answer = None
    exit_status = None
    _begin(session, call)
    if not call.cancelled:
        try:
            with lane.busy:
                result = handler(session, call, lane)
            answer = m.success(request.id, complete(request.method, result) if call.era is Era.MODERN else result)
        except OpeningCancelledError:
            pass  # as if it had never been asked
        except Exception as problem:  # noqa: BLE001 - the operator learns what the model must not
            error = _as_error(problem, call, lane)
            exit_status = error.exit_status
            call.code, call.error = CODES[error.code], error.code
            answer = m.failure(request.id, error.code, str(error), error.data)

    # What is told has to wait for whoever reads the log.
    is_told = call.served is not None or log.enabled("debug")
    session.lanes.settle(lane)
    was_full = session.calls.is_full
    was_cancelled = session.calls.remove(call)  # from here on a cancellation finds nothing
    if not was_cancelled and answer is not None:
        session.output.send(answer, None if is_told else lane)
    elif request.method == m.RUN_OPEN and call.error is None and answer is not None:
        take_back(lane)  # nobody was told that the run is open, so nobody would end it

    if is_told:
        _report(session, call, lane, answer)
    if exit_status is not None:
        session.loop.end(exit_status)
    elif request.method == m.INITIALIZE:
        session.loop.release()
    elif was_full:
        session.loop.wake()


def _as_error(problem: Exception, call: Call, lane: Lane) -> Error:
    """What the harness is answered, and a line in the log about it."""
    where = {"method": _known(call.request.method), **lane.told(), "request": call.request.id}
    if isinstance(problem, Error):
        log.debug("request refused", **where, code=problem.code, reason=problem)
        return problem
    if isinstance(problem, JournalError | RunRefusedError | RemedyError):
        # What can't be used, a journal or an identity's memory, is the operator's affair; what may not be opened again,
        # the harness's.
        tell = log.info if isinstance(problem, RunRefusedError) else log.warning
        tell("request refused", **where, reason=problem)
        return Error(REFUSED, str(problem))
    log.error("internal error", **where, tool=call.tool, error=log.problem(problem))
    return Error(INTERNAL_ERROR, "the sidecar failed to serve this request; see its log")


def _known(method: str) -> str:
    """The method, if there is one of that name: another is text of somebody's."""
    return method if method in METHODS else "unknown"


def _begin(session: Session, call: Call) -> None:
    service = session.started
    if service is None:
        return
    request = call.request
    if request.method == m.TOOLS_CALL:
        tool = request.params.get("name")
        call.tool = tool if tool in service.catalog.names else None
    if service.telemetry is not None:
        call.served = service.telemetry.receive(
            _known(request.method),
            request.id,
            request.params,
            tool=call.tool,
            waited=time.perf_counter() - call.received,
        )


def _report(session: Session, call: Call, lane: Lane, answer: dict[str, Any] | None) -> None:
    """Tell the operator how a request went; the harness has its answer by now."""
    request = call.request
    seconds = time.perf_counter() - call.received
    outcome = "cancelled" if call.cancelled and call.code == "ok" else call.code
    if request.method == m.TOOLS_CALL and log.enabled("debug"):
        log.debug(
            "call served",
            **lane.told(),
            request=request.id,
            tool=call.tool,
            outcome=outcome,
            ms=round(seconds * 1000, 3),
        )
    if call.served is not None:
        body = (answer or {}).get("result", {})
        call.served.end(
            outcome,
            seconds,
            **lane.told(),
            protocol=MODERN_VERSIONS[0] if call.era is Era.MODERN else session.version,
            error_code=call.error,
            tool_error=bool(body.get("isError")),
        )

"""From a frame to the lane that serves it: which era it is of, who may send it, and where it belongs.

One frame after the other, in the order in which they arrive, on the thread of whoever reads them (see `reader`). All
that takes time is left to the lanes.
"""

from ..exits import EX_CONFIG, EX_NOPERM, StartError
from ..hints import TYPE_CHECKING, Any
from ..observe import log
from . import messages as m
from .calls import Call
from .codec import decode
from .codes import INVALID_PARAMS, METHOD_NOT_FOUND, REFUSED, Error
from .eras import Era, client_capabilities, client_name, era_of
from .gate import PROBE_GRACE
from .lanes import Lane
from .methods import HANDLERS, Handler
from .opening import has_own_run, take_back
from .serving import serve_call
from .session import Session
from .states import METHODS, RunState, check_method, next_state
from .whose_run import named_run

if TYPE_CHECKING:
    from .outline import Outline

__all__ = ["receive"]


def receive(session: Session, frame: "bytes | Outline") -> Lane | None:
    """Take one frame from the harness, and return the lane that serves it, if it is to be served."""
    message = decode(frame)
    if isinstance(message, m.Request):
        size = len(frame) if isinstance(frame, bytes) else 0
        return _accept(session, Call(message, size, era_of(message)))
    if isinstance(message, m.Invalid):
        answer = m.failure(message.id, message.code, message.message)
        session.lanes.control.put(lambda: session.output.send(answer))
        return session.lanes.control
    if message is not None and message.method == "notifications/cancelled":
        _cancel(session, message.params.get("requestId"))
    return None


def _accept(session: Session, call: Call) -> Lane:
    # Under the guard, so that a run which ends now either serves the call or is not found.
    with session.guard:
        try:
            _let_in(session, call)
            lane, handler = _route(session, call)
        except Error as error:
            if error.exit_status is not None:
                session.loop.hold()  # nothing that follows is served
            lane, handler = session.lanes.control, _refuse(error)
        session.calls.add(call)
        session.lanes.put(lane, lambda: serve_call(session, call, lane, handler))
        return lane


def _let_in(session: Session, call: Call) -> None:
    """Return if the request is the harness's and the service is there to serve it.

    Raises:
        Error: otherwise. What ends the process has its exit status with it.
    """
    request = call.request
    if call.era is Era.LEGACY:
        check_method(request.method, call.era, session.connection)
        if request.method != m.INITIALIZE:
            return  # the handshake let this conversation in
        call.capabilities = _handshake_capabilities(request)
    else:
        call.capabilities = client_capabilities(request)
    is_probe = request.method == m.DISCOVER
    try:
        session.gate.admit(call.capabilities, probe=is_probe)
    except Error as error:
        log.warning("refused a client without the launch ticket", client=client_name(request, call.era))
        if not session.gate.has_served and error.exit_status is None:
            session.loop.end_later(PROBE_GRACE, EX_NOPERM)
        raise
    session.loop.stay()
    check_method(request.method, call.era, session.connection)
    if not is_probe:
        _need_service(session)


def _handshake_capabilities(request: m.Request) -> dict[str, Any]:
    version, capabilities = request.params.get("protocolVersion"), request.params.get("capabilities")
    if not isinstance(version, str) or not isinstance(capabilities, dict):
        raise Error(INVALID_PARAMS, "initialize needs protocolVersion, a text, and capabilities, an object")
    return capabilities


def _need_service(session: Session) -> None:
    """What could not be started is said to the harness in full, whatever it asked first; then the process ends."""
    try:
        _ = session.service
    except StartError as error:
        log.error("cannot start", reason=error)
        raise Error(REFUSED, str(error), exit_status=EX_CONFIG) from error


def _route(session: Session, call: Call) -> tuple[Lane, Handler]:
    """The lane that serves a request, and how."""
    request = call.request
    handler = HANDLERS.get(request.method)
    if handler is None:
        raise Error(METHOD_NOT_FOUND, "there is no such method")
    wants_own = _wants_own_run(session, call)
    if request.method == m.INITIALIZE:
        session.loop.hold()  # what follows is read when it is known how the handshake went
    if request.method in (m.INITIALIZE, m.DISCOVER) and session.started is not None and wants_own:
        return session.lanes.own() or session.lanes.control, handler  # they tell the instructions of that run
    if METHODS[request.method].run is None:
        return session.lanes.control, handler
    service = session.service
    own = service.own
    run = named_run(service, request) or own
    if request.method == m.RUN_OPEN and run is not None:
        return session.lanes.to_open(run), handler
    lane = session.lanes.own() if wants_own and run == own else None
    lane = lane or (session.lanes.find(run) if run is not None else None)
    if lane is None:
        next_state(request.method, RunState.CLOSED)  # raises, in the words that the run's lane would use
        raise LookupError(request.method)
    lane.opened_by = None  # whoever asks for the run knows that it is open
    return lane, handler


def _wants_own_run(session: Session, call: Call) -> bool:
    """Whether the request may use the process's own run.

    Raises:
        Error: its client says neither yes nor no.
    """
    if call.era is Era.MODERN or call.request.method == m.INITIALIZE:
        return session.started is not None and has_own_run(session.started, call)
    return session.offers_own_run


def _refuse(error: Error) -> Handler:
    def refuse(_session: Session, _call: Call, _lane: Lane) -> dict[str, Any]:
        raise error

    return refuse


def _cancel(session: Session, request_id: object) -> None:
    """Cancel what is under way. An opening whose answer is out already, but nobody has used, is taken back."""
    if not isinstance(request_id, str | int):
        return
    with session.guard:
        call = session.calls.find(request_id)
        if call is not None:
            # initialize may not be cancelled, says every revision that has it.
            call.cancelled = call.cancelled or call.request.method != m.INITIALIZE
            return
        for lane in session.lanes.all():
            if lane.opened_by == request_id:
                lane.opened_by = None
                session.lanes.put(lane, lambda lane=lane: take_back(lane))  # type: ignore[misc]

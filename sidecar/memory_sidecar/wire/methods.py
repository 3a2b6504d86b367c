"""What each method does, one function a method, and the table that names them.

A handler runs on the lane of its request. It returns the result as the legacy era has it; what a modern result holds
beside is added where answers are sent. It raises `Error` for what the harness is to be told.
"""

from collections.abc import Callable

from ..exits import EX_CONFIG
from ..hints import Any, Final
from ..observe import log
from ..run.terms import JournalError, RunRefusedError
from ..store.errors import OutcomeUnknownError, StoreError, UnavailableError, UnreadableError
from ..tools.catalog import UnknownToolError
from . import messages as m
from .calls import Call
from .codes import INVALID_PARAMS, REFUSED, Error
from .eras import SERVER_INFO, VERSIONS, handshake_version
from .lanes import Lane
from .opening import (
    end_run,
    has_own_run,
    open_own_run,
    open_run,
    own_instructions,
    remedy,
    run_meta,
    use_run,
    watch_saving,
)
from .session import Session
from .states import METHODS, Connection
from .whose_run import named_identity

__all__ = ["HANDLERS", "Handler"]

Handler = Callable[[Session, Call, Lane], dict[str, Any]]

_FAILURES: Final = (UnavailableError.code, OutcomeUnknownError.code, UnreadableError.code)
"""Outcomes that an operator can do something about. The others are the model's affair."""

_RUN_METHODS: Final = (m.RUN_OPEN, m.RUN_SUSPEND, m.RUN_FINISH, m.RUN_LIST)


def initialize(session: Session, call: Call, lane: Lane) -> dict[str, Any]:
    """Agree on a legacy revision, and make the process's own run ready if it is wanted."""
    service = session.service
    opened: dict[str, Any] = {}
    if has_own_run(service, call):
        try:
            opened["instructions"] = open_own_run(service, call, lane)
        except (JournalError, RunRefusedError, StoreError, Error) as error:
            cause = None if error.__cause__ is None else log.problem(error.__cause__)
            log.error("cannot start", reason=error, cause=cause)
            raise Error(REFUSED, remedy(error), exit_status=EX_CONFIG) from error
        if lane.run is not None:
            opened["_meta"] = run_meta(lane, lane.run)
        session.offers_own_run = True
    session.connection = Connection.READY
    session.version = handshake_version(call.request.params["protocolVersion"])
    return {
        "protocolVersion": session.version,
        "capabilities": {"tools": {}},
        "serverInfo": SERVER_INFO,
        **opened,
    }


def discover(session: Session, call: Call, lane: Lane) -> dict[str, Any]:
    """Which revisions and methods there are; to a harness that wants the process's own run, its instructions too.

    It opens no run. What could not be started is said to the request that follows: as an error of this method it would
    send a client of both eras on to `initialize`, and a modern one nowhere.
    """
    service = session.started
    told: dict[str, Any] = {
        "supportedVersions": list(VERSIONS),
        "capabilities": {"tools": {}, "extensions": {m.EXTENSION: {"methods": list(_RUN_METHODS)}}},
    }
    if service is not None and has_own_run(service, call):
        try:
            told["instructions"] = own_instructions(service, call, lane)
        except StoreError as error:
            raise Error(REFUSED, remedy(error)) from error
    return told


def ping(_session: Session, _call: Call, _lane: Lane) -> dict[str, Any]:
    return {}


def list_tools(session: Session, call: Call, _lane: Lane) -> dict[str, Any]:
    if call.request.params.get("cursor") is not None:
        raise Error(INVALID_PARAMS, "there is one page of tools; send no cursor")
    return {"tools": session.service.catalog.definitions()}


def list_all_runs(session: Session, call: Call, _lane: Lane) -> dict[str, Any]:
    from ..run.runs import list_runs  # most harnesses never ask

    directory, identity = session.service.journal(named_identity(session.service, call.request))
    return {"runs": [found._asdict() for found in list_runs(directory, identity)]}


def call_tool(session: Session, call: Call, lane: Lane) -> dict[str, Any]:
    run = use_run(session, lane, m.TOOLS_CALL)
    name = call.request.params.get("name")
    if not isinstance(name, str):
        raise Error(INVALID_PARAMS, "tools/call needs the name of a tool")
    arguments = call.request.params.get("arguments")
    try:
        answer = run.call(name, arguments, lambda: call.cancelled, call.served)
    except UnknownToolError as error:
        raise Error(INVALID_PARAMS, str(error)) from error
    call.code = answer.outcome.code
    cause = answer.outcome.cause
    if cause is not None and (cause.remedy or call.code in _FAILURES):
        log.warning(
            "the store failed",
            **lane.told(),
            request=call.request.id,
            tool=name,
            outcome=call.code,
            cause=log.problem(cause),
            remedy=cause.remedy or None,
        )
    watch_saving(lane, run)
    return m.tool_result(answer.outcome, run_meta(lane, run))


HANDLERS: Final[dict[str, Handler]] = {
    m.INITIALIZE: initialize,
    m.PING: ping,
    m.DISCOVER: discover,
    m.TOOLS_LIST: list_tools,
    m.TOOLS_CALL: call_tool,
    m.RUN_OPEN: open_run,
    m.RUN_SUSPEND: end_run,
    m.RUN_FINISH: end_run,
    m.RUN_LIST: list_all_runs,
}

# A row of the table without a function, or a function without a row, stops the process here, at import.
if HANDLERS.keys() != METHODS.keys():
    raise LookupError("the handlers are not those of the table of states")

"""How a run is opened, used for the first time, ended and taken back, on its lane.

The order of an opening: look at the journal and lock it, list the store for the instructions, and only then write the
first record. So an opening that is refused or cancelled leaves nothing behind, whatever it was refused for.
"""

from ..hints import TYPE_CHECKING, Any, Final
from ..observe import gauges, log
from ..run.session import RESUMES, HandedScope, Run, check_resumable
from ..run.terms import REASONS, Reason
from ..store.errors import StoreError
from . import messages as m
from .calls import Call
from .codec import MAX_FRAME
from .codes import INVALID_PARAMS, REFUSED, Error
from .gate import wants_default_run
from .lanes import Lane
from .states import RunState, next_state

if TYPE_CHECKING:
    from .service import Service
    from .session import Session

__all__ = [
    "FINISHES",
    "OpeningCancelledError",
    "end_run",
    "has_own_run",
    "open_own_run",
    "open_run",
    "own_instructions",
    "remedy",
    "run_meta",
    "suspend",
    "take_back",
    "use_run",
    "watch_saving",
]

FINISHES: Final = tuple(reason for reason in REASONS if reason != "suspended")

MAX_SCOPE: Final = MAX_FRAME - 64 * 1024
"""Bytes of a scope in JSON. A harness may hand it back in one frame, which has to hold the rest of a request too."""


class OpeningCancelledError(Exception):
    """The harness cancelled the opening before anything was written."""


def open_run(session: "Session", call: Call, lane: Lane) -> dict[str, Any]:
    """`memory-sidecar/run/open`."""
    params = call.request.params
    resume = params.get("resume", "auto")
    if resume not in RESUMES:
        raise Error(INVALID_PARAMS, f"resume is one of {', '.join(RESUMES)}")
    handed = _handed_scope(params.get("scope"))
    after = next_state(m.RUN_OPEN, lane.state)
    identity = None if lane.name is None else lane.name.identity
    if resume == "require" and handed is None:
        check_resumable(session.service.journal(identity)[0], params["run"])
    setting = session.service.setting(identity)
    run = Run(params["run"], setting)
    run.open(resume, handed)
    text = _begin(run, call)
    lane.run, lane.state = run, after
    with session.guard:
        lane.opened_by = call.request.id if lane.waiting == 1 else None
    _opened(lane, run)

    info = setting.store.info()
    return {
        "run": run.id,
        "resumed": run.resumed,
        "tools": setting.catalog.definitions(),
        "instructions": text,
        **_scope_members(run),
        "read_only": setting.catalog.read_only,
        "backend": {"name": info.backend, "location": info.location},
        "_meta": run_meta(lane, run),
    }


def has_own_run(service: "Service", call: Call) -> bool:
    """Whether the process has a run of its own that its client, or the operator, wants.

    Raises:
        Error: the client says neither yes nor no.
    """
    return (wants_default_run(call.capabilities) or service.named) and not service.many


def end_run(session: "Session", call: Call, lane: Lane) -> dict[str, Any]:
    """`memory-sidecar/run/suspend` and `memory-sidecar/run/finish`."""
    reason: Reason = "suspended"
    message = None
    after = next_state(call.request.method, lane.state)
    if call.request.method == m.RUN_FINISH:
        reason, message = _ending(call.request.params)
    run = use_run(session, lane, call.request.method)
    _end(lane, run, reason, message)
    lane.state = after
    return {"run": run.id, **_scope_members(run), "_meta": run_meta(lane, run)}


def use_run(session: "Session", lane: Lane, method: str) -> Run:
    """The lane's run, for a request of `method`. The process's own run begins with its first use.

    Raises:
        Error: it is not open.
        RunRefusedError, JournalError: the process's own run was named by the operator and cannot be opened.
    """
    next_state(method, lane.state)
    if lane.state is RunState.UNUSED:
        service = session.service
        lane.run = lane.run or Run(service.run, service.setting(None))
        if service.named:
            lane.run.open()
        lane.run.begin()
        lane.state = RunState.OPEN
        _opened(lane, lane.run)
    if lane.run is None:
        raise Error(INVALID_PARAMS, f"this run is {RunState.CLOSED.value}")
    return lane.run


def open_own_run(service: "Service", call: Call, lane: Lane) -> str:
    """At the handshake: open the process's own run if the operator named it, and return its instructions."""
    if not service.named or lane.state is RunState.OPEN:
        return own_instructions(service, call, lane)
    run = Run(service.run, service.setting(None))
    run.open()
    text = _begin(run, call)
    lane.run, lane.state = run, RunState.OPEN
    _opened(lane, run)
    return text


def own_instructions(service: "Service", call: Call, lane: Lane) -> str:
    """The instructions of the process's own run, which stays as it is. It records later that it has shown them."""
    run = lane.run or Run(service.run, service.setting(None))
    if lane.name is not None:  # else that run has ended, and there is none to remember it
        lane.run = run
    return run.instructions(call.served)


def suspend(lane: Lane, *, patience: float = -1) -> None:
    """Suspend the lane's run, if it has one that is open. Gives up if it is still served after `patience` seconds."""
    if not lane.busy.acquire(timeout=patience):
        return
    try:
        if lane.run is not None and lane.state is RunState.OPEN:
            _end(lane, lane.run, "suspended")
        lane.run, lane.state = None, RunState.CLOSED
    finally:
        lane.busy.release()


def take_back(lane: Lane) -> None:
    """Undo an opening that its harness cancelled: a new run leaves no trace, a resumed one is suspended again."""
    lane.opened_by = None
    if lane.run is None or lane.state is not RunState.OPEN:
        return
    if lane.run.resumed:
        suspend(lane)
        return
    with lane.busy:
        lane.run.discard()
        log.info("run taken back, since its opening was cancelled", **lane.told())
        lane.run, lane.state = None, RunState.CLOSED


def run_meta(lane: Lane, run: Run) -> dict[str, Any]:
    """What an answer says of the run that it comes from."""
    told = {m.RUN: run.id}
    if lane.name is not None and lane.name.identity is not None:
        told[m.IDENTITY] = lane.name.identity
    if run.unsaved is not None:
        told[m.UNSAVED] = run.unsaved
    return told


def watch_saving(lane: Lane, run: Run) -> None:
    """Say when a run's authority stops being saved, why, and when that is over; not at every call between."""
    before, lane.unsaved = lane.unsaved, run.unsaved
    if lane.unsaved is before is None:
        return
    gauges.add("runs.unsaved", (lane.unsaved is not None) - (before is not None))
    if lane.unsaved is not None and lane.unsaved != before:
        log.warning("authority is not saved", **lane.told(), reason=lane.unsaved)
    elif lane.unsaved is None and before is not None:
        log.warning("authority is saved again", **lane.told())


def remedy(error: BaseException) -> str:
    """What the harness is told that a run cannot start for. No model sees it."""
    return (error.remedy if isinstance(error, StoreError) else "") or str(error)


def _begin(run: Run, call: Call) -> str:
    """Go on from an opened journal to a run that exists, and return the run's instructions."""
    try:
        text = run.instructions(call.served)
        if call.cancelled:
            raise OpeningCancelledError
        run.begin()
    except BaseException as error:
        run.close()
        if isinstance(error, StoreError):
            raise Error(REFUSED, remedy(error)) from error
        raise
    return text


def _opened(lane: Lane, run: Run) -> None:
    log.info("run resumed" if run.resumed else "run opened", **lane.told())
    watch_saving(lane, run)


def _end(lane: Lane, run: Run, reason: Reason, message: str | None = None) -> None:
    run.end(reason, message)
    watch_saving(lane, run)
    if reason == "suspended":
        log.info("run suspended", **lane.told())
    else:
        log.info("run finished", **lane.told(), reason=reason)
    lane.run = None


def _ending(params: dict[str, Any]) -> tuple[Reason, str | None]:
    reason, message = params.get("reason"), params.get("message")
    if reason not in FINISHES:
        raise Error(INVALID_PARAMS, f"reason is one of {', '.join(FINISHES)}")
    if message is not None and not isinstance(message, str):
        raise Error(INVALID_PARAMS, "message is text")
    return reason, message


def _handed_scope(scope: object) -> HandedScope | None:
    """The scope that a harness hands back at open, checked as far as its form goes."""
    if scope is None:
        return None
    if isinstance(scope, dict) and set(scope) <= {"store", "keys"}:
        store, keys = scope.get("store"), scope.get("keys")
        if isinstance(store, str) and isinstance(keys, dict) and all(isinstance(rev, str) for rev in keys.values()):
            return HandedScope(store, keys)
    raise Error(INVALID_PARAMS, "scope is an object of store and keys, as a run returned it")


def _scope_members(run: Run) -> dict[str, Any]:
    """The run's scope for an answer; null, and why, where no harness could hand it back in one frame.

    A null that is handed back means that there is none, upon which the journal's counts.
    """
    scope = run.scope()
    # A character takes at most six bytes in JSON, and a pair of names the marks between them.
    roughly = sum(6 * (len(key) + len(revision)) + 8 for key, revision in scope["keys"].items())
    import json

    if roughly <= MAX_SCOPE or len(json.dumps(scope)) <= MAX_SCOPE:
        return {"scope": scope}
    omitted = f"the scope has {len(scope['keys'])} keys and is too long to be handed back; the run's journal keeps it"
    return {"scope": None, "scope_omitted": omitted}

"""Which run a request names, and whose it is: one rule for every method that concerns a run or an identity.

A run id is a name within an identity. A process that serves one identity has no need to be told it, and refuses to be;
one that serves many refuses whatever names none, so that a forgotten name is never somebody's memory.
"""

from ..hints import TYPE_CHECKING
from ..run.terms import is_run_id
from ..store.rules import is_key
from . import messages as m
from .codes import INVALID_PARAMS, REFUSED, Error
from .lanes import Name

if TYPE_CHECKING:
    from .service import Service

__all__ = ["named_identity", "named_run"]


def named_identity(service: "Service", request: m.Request) -> str | None:
    """The identity that a request is for; None in a process that serves one.

    Raises:
        Error: it names none and must, names one and must not, or the name is not legal.
    """
    in_call = request.method == m.TOOLS_CALL
    value = _meta(request).get(m.IDENTITY) if in_call else request.params.get("identity")
    if value is None and not service.many:
        return None
    where = f'_meta["{m.IDENTITY}"]' if in_call else "identity"
    if not service.many:
        raise Error(
            REFUSED,
            f"this sidecar serves one identity, and the request names one in {where}; leave it out, or launch the "
            "sidecar with --many-identities",
        )
    if isinstance(value, str) and is_key(value):
        return value
    raise Error(
        INVALID_PARAMS,
        f"this sidecar serves many identities, so the request has to say in {where} whose memory is meant: 1 to 200 "
        "letters, digits and . _ = -, with no dot at either end and no two together",
    )


def named_run(service: "Service", request: m.Request) -> Name | None:
    """The run that a request is for; None if a call of a tool names none and so means the process's own.

    Raises:
        Error: it names none and must, or what it names is not legal.
    """
    identity = named_identity(service, request)
    if request.method != m.TOOLS_CALL:
        return Name(identity, _run_id(request.params.get("run")))
    run = _meta(request).get(m.RUN)
    if run is None and not service.many:
        return None
    # A call never opens a run, so what is not an id is just not open.
    return Name(identity, run) if isinstance(run, str) else Name(identity, "")


def _meta(request: m.Request) -> dict[str, object]:
    meta = request.params.get("_meta")
    return meta if isinstance(meta, dict) else {}


def _run_id(value: object) -> str:
    if not isinstance(value, str) or not is_run_id(value):
        raise Error(
            INVALID_PARAMS, "run is an id of 1 to 128 letters, digits, _ and -, starting with a letter or digit"
        )
    return value

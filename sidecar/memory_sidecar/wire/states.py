"""What is legal when: one table for the connection, for runs and for the two eras.

The methods are a closed list: what is not in `METHODS` does not exist. A row says in which eras the method exists,
in which state of the connection a legacy request for it is legal (a modern one is complete in itself and needs none),
and from which state to which it takes the run that it names.

A lane needs no table. It is there from the first request that names its run until the run is closed and nothing waits
for it any more, and serves one request after the other; so the state of its run changes between two requests only.
"""

from collections.abc import Mapping

from ..enumeration import Enum
from ..hints import Final
from ..named_tuple import NamedTuple
from . import messages as m
from .codes import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, REFUSED, Error
from .eras import Era

__all__ = ["METHODS", "Connection", "RunState", "check_method", "next_state"]


class Connection(Enum):
    """Where a legacy conversation is. It only moves forward."""

    NEW = "before the handshake"
    READY = "after the handshake"


class RunState(Enum):
    """How a run stands in this process, whatever its journal says."""

    CLOSED = "not open"
    UNUSED = "the process's own run, not used yet"
    OPEN = "open already"


_USES: Final = {RunState.UNUSED: RunState.OPEN, RunState.OPEN: RunState.OPEN}
_ENDS: Final = {RunState.UNUSED: RunState.CLOSED, RunState.OPEN: RunState.CLOSED}
_OPENS: Final = {RunState.CLOSED: RunState.OPEN, RunState.UNUSED: RunState.OPEN}

_LEGACY: Final = (Era.LEGACY,)
_MODERN: Final = (Era.MODERN,)
_BOTH: Final = (Era.LEGACY, Era.MODERN)


class Rule(NamedTuple):
    """One row. `run` is None where the method concerns no run."""

    eras: tuple[Era, ...]
    connection: Connection
    run: Mapping[RunState, RunState] | None


METHODS: Final[dict[str, Rule]] = {
    m.INITIALIZE: Rule(_LEGACY, Connection.NEW, None),
    m.PING: Rule(_LEGACY, Connection.READY, None),
    m.DISCOVER: Rule(_MODERN, Connection.READY, None),
    m.TOOLS_LIST: Rule(_BOTH, Connection.READY, None),
    m.TOOLS_CALL: Rule(_BOTH, Connection.READY, _USES),
    m.RUN_OPEN: Rule(_BOTH, Connection.READY, _OPENS),
    m.RUN_SUSPEND: Rule(_BOTH, Connection.READY, _ENDS),
    m.RUN_FINISH: Rule(_BOTH, Connection.READY, _ENDS),
    m.RUN_LIST: Rule(_BOTH, Connection.READY, None),
}


def check_method(method: str, era: Era, connection: Connection) -> None:
    """Return if the harness may send the request `method` now.

    Raises:
        Error: it may not. Before the handshake a legacy request is refused by the same words whatever was asked, so
            that they reveal nothing; a modern one is let in by its own ticket (see `gate`).
    """
    if era is Era.LEGACY and connection is Connection.NEW:
        if method != m.INITIALIZE:
            raise Error(
                INVALID_REQUEST,
                "nothing is served before the handshake; send initialize first, or requests of a revision of MCP that "
                "has no handshake",
            )
        return
    rule = METHODS.get(method)
    if rule is None or era not in rule.eras:
        raise Error(METHOD_NOT_FOUND, "there is no such method")
    if era is Era.LEGACY and rule.connection is not connection:
        raise Error(
            INVALID_REQUEST,
            f"{method} from a client is only legal {rule.connection.value}; the connection is {connection.value}",
        )


def next_state(method: str, state: RunState) -> RunState:
    """The state that `method` takes a run to, once it has succeeded.

    Raises:
        Error: the harness may not send `method` for a run in this state.
    """
    rule = METHODS[method].run or {}
    if state in rule:
        return rule[state]
    if method == m.RUN_OPEN:
        raise Error(REFUSED, f"this run is {state.value}; use it, or end it first")
    # In words that fit every face: a program in Python has never heard of the methods.
    raise Error(INVALID_PARAMS, f"this run is {state.value}; open it first, or another one")

"""What is legal when. The methods are a closed list: what is not in this table does not exist."""

from enum import Enum
from typing import Final

from .messages import INVALID_REQUEST, METHOD_NOT_FOUND, RUN_FINISH, RUN_LIST, RUN_OPEN, RUN_SUSPEND, Error

__all__ = ["Phase", "check"]


class Phase(Enum):
    """Where the session is. It only moves forward."""

    NEW = "before the handshake"
    READY = "after the handshake"


_REQUESTS: Final = {
    "initialize": Phase.NEW,
    "ping": Phase.READY,
    "tools/list": Phase.READY,
    "tools/call": Phase.READY,
    RUN_OPEN: Phase.READY,
    RUN_SUSPEND: Phase.READY,
    RUN_FINISH: Phase.READY,
    RUN_LIST: Phase.READY,
}


def check(method: str, phase: Phase) -> None:
    """Return if the harness may send the request `method` in `phase`.

    Raises:
        Error: it may not. Before the handshake the refusal is the same whatever was asked, so that it
            reveals nothing.
    """
    if phase is Phase.NEW:
        if method != "initialize":
            raise Error(INVALID_REQUEST, "nothing is served before the handshake; send initialize first")
        return
    legal = _REQUESTS.get(method)
    if legal is None:
        raise Error(METHOD_NOT_FOUND, "there is no such method")
    if legal is not phase:
        raise Error(INVALID_REQUEST, f"{method} is only legal {legal.value}; the session is {phase.value}")

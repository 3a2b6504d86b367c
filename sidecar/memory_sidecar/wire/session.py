"""What the parts of the wire share while one harness is served. The rules are in the parts, not here."""

import threading

from ..exits import StartError
from ..hints import TYPE_CHECKING
from .calls import Calls
from .gate import Gate
from .lanes import Lane, Lanes, Listen
from .service import Service
from .states import Connection

if TYPE_CHECKING:
    from .loop import Loop
    from .output import Output

__all__ = ["Session"]


def _do_nothing(_lane: Lane) -> bool:
    return False


class Session:
    """`guard` keeps all threads in step: whoever looks for a lane holds it until the job is put.

    `listen` is what lanes do with their time: nothing, where somebody else hands out the frames.
    """

    def __init__(
        self, gate: Gate, service: Service | StartError, guard: threading.RLock, listen: Listen = _do_nothing
    ) -> None:
        self.gate = gate
        self.guard = guard
        self.calls = Calls(guard)
        self.lanes = Lanes(guard, service.own if isinstance(service, Service) else None, listen)
        self.connection = Connection.NEW
        """Of the legacy conversation, if there is one."""
        self.version: str | None = None
        """What the handshake agreed on."""
        self.offers_own_run = False
        """Whether the legacy conversation has the process's own run: then `tools/call` need not name one."""
        self.loop: Loop
        self.output: Output
        self._service = service

    @property
    def service(self) -> Service:
        """What is served.

        Raises:
            StartError: it could not be started.
        """
        if isinstance(self._service, StartError):
            raise self._service
        return self._service

    @property
    def started(self) -> Service | None:
        """The same; None if it could not be started."""
        return None if isinstance(self._service, StartError) else self._service

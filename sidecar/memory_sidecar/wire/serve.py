"""Serving one harness over two descriptors, from its first frame to an orderly end. The only user of stdio.

Frames are read (`loop`, `reader`) and dispatched to a thread for each run (`dispatch`), which serves its calls one
after the other (`lanes`, `serving`, `methods`), so that runs do not wait for each other. Threads and not an event loop:
file calls block, an event loop would bring sockets and a TLS library into a process that must have neither, and double
its launch time.
"""

import gc
import threading

from ..exits import StartError
from ..observe import log
from .closing import close
from .dispatch import receive
from .gate import Gate
from .last_word import answer_alone, explained
from .loop import Loop
from .output import Output
from .service import Service
from .session import Session
from .stdio import Parent
from .ticket import Ticket, TicketError

__all__ = ["serve"]


def serve(source: int, sink: int, parent: Parent, ticket: Ticket | TicketError, service: Service | StartError) -> int:
    """Serve one harness until it leaves or `parent` dies, and return the exit status.

    A `TicketError` in place of a ticket says why none can be used: then every client is refused. A `StartError` in
    place of a service is what the holder of the ticket is answered.
    """
    gc.freeze()  # what was loaded stays: nobody need look at it again
    gc.enable()
    try:
        gate = Gate(None, ticket.obstacle) if isinstance(ticket, TicketError) else Gate(ticket)
        loop = Loop(
            source,
            parent,
            lambda frame: receive(session, frame),
            lambda: session.calls.is_full,
            lambda: session.calls.are_many,
        )
        session = Session(gate, service, threading.RLock(), loop.reader.listen)
        session.loop = loop
        session.output = Output(sink, loop)
    except Exception as error:  # noqa: BLE001 - told, like any other
        reason = explained(error)
        log.error("cannot start", reason=reason, cause=log.problem(error))
        if isinstance(service, Service):
            service.close()
        return answer_alone(source, sink, reason)
    status = session.loop.run()
    close(session)
    return status

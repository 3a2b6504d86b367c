"""The last word of a process that cannot even start a thread: the first request is answered, and that is all.

Whoever asks is told, ticket or not: the text names nothing but a limit of this system.
"""

import select
from typing import Final

from ..exits import EX_CONFIG, StartError
from .codec import Splitter, decode, encode
from .codes import REFUSED
from .messages import Request, failure
from .stdio import receive, send

__all__ = ["NO_THREADS", "answer_alone"]

NO_THREADS: Final = StartError(
    "this system lets the sidecar start no thread",
    "raise its limit of processes or of memory (ulimit -u and -v; pids.max and memory.max of its control group)",
)

_READ_SIZE: Final = 1 << 16


def answer_alone(source: int, sink: int, error: StartError) -> int:
    """Answer the first request with `error`, and return the exit status."""
    splitter = Splitter()
    poll = select.poll()
    poll.register(source, select.POLLIN)
    try:
        while (data := receive(source, _READ_SIZE)) != b"":
            if data is None:
                poll.poll()
                continue
            for frame in splitter.feed(data):
                message = decode(frame)
                if isinstance(message, Request):
                    send(sink, encode(failure(message.id, REFUSED, str(error))))
                    return EX_CONFIG
    except OSError:
        pass  # nobody is left to be answered
    return EX_CONFIG

"""The last word of a process that cannot serve: it answers the first request with what is wrong, and that is all.

Whoever asks is told, ticket or not: the texts name limits of this system, wrong usage, or what of the installation is
missing. Little is imported here, since it may be memory or descriptors that are missing. It is the way for what fails
before a `Service` or `StartError` could be handed to `serve`, which gives the answer to the ticket's holder alone.
"""

import errno
import select

from .. import jsontext
from ..exits import EX_CONFIG, StartError
from ..hints import Any, Final
from .codes import REFUSED
from .stdio import receive, send

__all__ = ["NO_THREADS", "TOO_FEW_DESCRIPTORS", "answer_alone", "explained"]

NO_THREADS: Final = StartError(
    "this system lets the sidecar start no thread",
    "raise its limit of processes or of memory (ulimit -u and -v; pids.max and memory.max of its control group)",
)
TOO_FEW_DESCRIPTORS: Final = StartError(
    "this process may open too few files", "raise its limit of descriptors to 64 or more (ulimit -n)"
)
_NO_MEMORY: Final = StartError(
    "this system lets the sidecar have too little memory",
    "raise its limit (ulimit -v and -d; memory.max of its control group); a hundred MiB of address space are enough",
)
_NO_ROOM: Final = ("failed to map segment", "annot allocate memory", "cannot create shared object descriptor")
"""What the loader says of a library that there is no memory for (glibc, musl)."""

_LONGEST: Final = 1 << 20
"""Bytes of a frame that are kept: more than a request has that is the first of its conversation."""

_READ_SIZE: Final = 1 << 12
"""As little as a pipe gives at once anyway: it may be memory that is missing."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
"""Not left to a codec: that would have to be imported."""
_PROBE: Final = "server/discover"

_encode: Final = jsontext.encoder()
_decode: Final = jsontext.decoder()


def explained(error: BaseException) -> StartError:
    """What is wrong, and what mends it, in words that anybody may read."""
    if isinstance(error, StartError):
        return error
    if isinstance(error, MemoryError):
        return _NO_MEMORY
    if isinstance(error, ImportError):
        # The loader's words are all that tells a library that is not there from one that there is no room for.
        if any(words in str(error) for words in _NO_ROOM):
            return _NO_MEMORY
        return StartError(f"the module {error.name} cannot be loaded", "install memory-sidecar again, in full")
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return TOO_FEW_DESCRIPTORS
    if isinstance(error, OSError):
        return StartError(f"the sidecar cannot start: {error.strerror}", "see its stderr, and mend that")
    if isinstance(error, RuntimeError) and "thread" in str(error):
        return NO_THREADS
    return StartError(f"the sidecar cannot start: {type(error).__name__}", "see its stderr, and mend that or report it")


def answer_alone(source: int, sink: int, error: StartError) -> int:
    """Answer the first request, and probes before it, with `error`; return the exit status."""
    rest = b""
    try:
        while (data := _received(source)) != b"":
            *frames, rest = (rest + data).split(b"\n")
            for frame in frames:
                message = _request(frame)
                if message is None:
                    continue
                told = {"code": REFUSED, "message": str(error)}
                send(sink, _encode({"jsonrpc": "2.0", "id": message["id"], "error": told}).encode() + b"\n")
                if message.get("method") != _PROBE:
                    return EX_CONFIG
            rest = rest[-_LONGEST:]
    except (OSError, MemoryError):
        pass  # nobody is left to be answered, or nothing to answer with: the log has the same words
    return EX_CONFIG


def _received(source: int) -> bytes:
    """What the channel holds, waited for; b"" at its end."""
    while (data := receive(source, _READ_SIZE)) is None:
        poll = select.poll()
        poll.register(source, select.POLLIN)
        poll.poll()
    return data


def _request(frame: bytes) -> dict[str, Any] | None:
    try:
        message = _decode(frame.removeprefix(_BYTE_ORDER_MARK).decode())
    except (ValueError, RecursionError):
        return None
    is_request = isinstance(message, dict) and "method" in message and type(message.get("id")) in (str, int)
    return message if is_request else None

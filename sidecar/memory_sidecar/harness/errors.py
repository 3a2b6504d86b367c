"""What a harness may have to catch. All of it is `SidecarError`."""

import errno
import signal
from typing import Final

from ..version import __version__
from . import bounds

__all__ = [
    "MORE_PROCESSES",
    "OutcomeUnknownError",
    "RequestRefusedError",
    "SidecarDiedError",
    "SidecarError",
    "StartError",
    "about_identity",
    "died",
    "ending",
    "launch_left",
    "remedy_of",
    "start_failed",
    "start_refused",
]

_TICKET_REFUSED: Final = -32021
_NOT_SPOKEN: Final = (-32600, -32601)
_IN_PYTHON: Final = {
    "this sidecar serves one identity": (
        "this launch has one identity, so no run names another; leave out identity, or launch with many_identities=True"
    ),
    "this sidecar serves many identities": (
        "this launch said many_identities=True, so identity has to say whose memory is meant: 1 to 200 letters, digits "
        "and . _ = -, with no dot at either end and no two together"
    ),
}
"""How a refusal on the wire begins, and what it means to a program that never sees the wire or a command line."""


class SidecarError(Exception):
    """The sidecar did not do what was asked."""


class StartError(SidecarError):
    """The sidecar cannot start. The text is its own remedy, meant for the operator and not for the model."""


class SidecarDiedError(SidecarError):
    """The sidecar's process ended while it was needed. What it acknowledged is saved; a new launch resumes."""


class OutcomeUnknownError(SidecarDiedError):
    """The sidecar died and was launched again; whether it carried a request out is not known."""


class RequestRefusedError(SidecarError):
    """The sidecar refused a request: an unknown tool, a run that cannot be opened. `code` is JSON-RPC's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)  # what a copy, another process's too, is made from
        self.code = code

    def __str__(self) -> str:
        return str(self.args[1])


def about_identity(error: RequestRefusedError) -> RequestRefusedError:
    """A refusal in the words of this library, if it is one of an identity that is named or left out."""
    for begin, words in _IN_PYTHON.items():
        if str(error).startswith(begin):
            return RequestRefusedError(error.code, words)
    return error


MORE_PROCESSES: Final = "raise this user's limit of processes (ulimit -u; pids.max of the control group)"
_REMEDIES: Final = {
    errno.EAGAIN: MORE_PROCESSES,
    errno.ENOMEM: "raise this process's limit of memory (ulimit -v; memory.max of the control group)",
    errno.EMFILE: "raise this process's limit of open files (ulimit -n)",
    errno.ENFILE: "raise this system's limit of open files (fs.file-max)",
}


def remedy_of(error: OSError, otherwise: str) -> str:
    """What to do where a limit keeps a sidecar from being launched; `otherwise` where it is none."""
    return _REMEDIES.get(error.errno or 0, otherwise)


def start_refused(code: int, message: str) -> StartError:
    """What an error in answer to the first request means to the harness that did launch the process."""
    if code == _TICKET_REFUSED:
        return StartError(
            "the memory sidecar could not use this launch's ticket, and its log on stderr says why; let it run as this "
            "user and see this process's temporary directory, and let the command start one sidecar"
        )
    if code in _NOT_SPOKEN:
        return StartError(
            "what was launched does not speak MCP 2026-07-28, as this library does; let the command start the "
            f"memory-sidecar of the same version ({__version__})"
        )
    return StartError(message)


def start_failed(how: str | None = None) -> StartError:
    """What it means that the first request was not answered: the process did `how`, the beginning of a sentence."""
    how = how or f"what was launched did not answer within {bounds.START_SECONDS:.0f} seconds"
    return StartError(f"{how}; check the command and read its log on stderr")


def ending(status: int | None) -> str:
    """How a process ended, in words; None: it did not."""
    if status is None:
        return "closed its pipe"
    if status >= 0:
        return f"ended with status {status}"
    if status == -signal.SIGKILL:
        return "was killed by SIGKILL, as the system does when memory runs out,"
    return f"was killed by signal {-status}"


def died(how: str) -> SidecarDiedError:
    """What it means that the process ended while it was needed; `how` is the beginning of a sentence."""
    return SidecarDiedError(f"{how}; what it acknowledged is saved: launch it again and resume the run")


def launch_left() -> SidecarDiedError:
    """What it means that something is asked of a launch whose block was left."""
    return SidecarDiedError("this launch has ended, as its block was left; launch again and resume the run")

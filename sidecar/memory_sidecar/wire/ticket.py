"""The launch ticket: proof that whoever speaks is the program that launched this process.

A harness writes a fresh token into a new private file and passes its path. This process opens the file at its start
and keeps it open. The ticket is *claimed* by the first request that presents the token and is more than a probe; of
all processes that hold one ticket, one can. So nothing that can stand in a host's static configuration works twice,
and no MCP client that merely lists the command can pass. It proves "not by accident and not by configuration"; a
program of the same user that sets out to play harness is one.

How one of many wins: a claim takes the file's lock, looks whether the token is still in it, empties it, and keeps the
lock for as long as the process lives. Whoever is stopped or killed half way either holds the lock, and is the winner,
or has served nobody. A descriptor that was opened before the lockdown may do all of this after it; removing the file
may not be possible then, so that is left to the harness.
"""

import os
import stat

from ..hints import Final
from ..system import files
from ..system.digest import compare_digest
from .stdio import TICKET_VARIABLE

__all__ = ["TICKET_VARIABLE", "WHO_MAY_START", "Ticket", "TicketError", "open_ticket"]

WHO_MAY_START: Final = (
    "memory-sidecar serve is started by an agent harness, which passes a fresh ticket in "
    f"{TICKET_VARIABLE}; it is not an MCP server for a host to list. Use memory_sidecar.harness from Python; "
    "memory-sidecar serve --help tells how in any language"
)

_TOKEN: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
"""What URL-safe text is made of."""

_LENGTH: Final = range(43, 129)
"""Of a token: at least 32 bytes in such text."""

_MODE: Final = 0o600
"""The mode of a ticket's file: its user may read it, and empty it by claiming it; nobody else may do anything."""

_LONGEST: Final = 256
"""Bytes to read: more than any token has."""


class TicketError(Exception):
    """The ticket cannot be used. The text is for the operator's log."""

    @property
    def obstacle(self) -> str:
        """The text, if this system is in the way of a ticket that may be good: then its harness is told too."""
        return str(self) if isinstance(self.__cause__, OSError) else ""


class Ticket:
    """An open ticket and its token. One thread uses it."""

    def __init__(self, descriptor: int, content: bytes) -> None:
        self._descriptor = descriptor
        self._content = content
        self.problem = ""
        """Why the ticket could not be claimed, if this system was in the way; "" else."""
        self._token = content.removesuffix(b"\n")

    def matches(self, presented: str) -> bool:
        """Whether `presented` is the token. Takes the same time wherever the two differ."""
        return compare_digest(presented.encode("utf-8", "surrogatepass"), self._token)

    def is_unclaimed(self) -> bool:
        """Whether nobody has claimed the ticket yet. Changes nothing."""
        try:
            return os.pread(self._descriptor, _LONGEST, 0) == self._content
        except OSError:
            return False

    def claim(self) -> bool:
        """Take the ticket for this process for good. False if another has, or if its file cannot be locked."""
        try:
            if not files.try_lock(self._descriptor) or not self.is_unclaimed():
                return False
            os.ftruncate(self._descriptor, 0)
        except OSError as error:
            self.problem = f"the ticket's file cannot be locked or emptied: {error.strerror}"
            return False
        return True

    def close(self) -> None:
        """Let go of the file. A ticket that was claimed is not closed: the claim is the lock on it."""
        files.close(self._descriptor)


def open_ticket(path: str) -> Ticket:
    """The ticket at `path`, open and not claimed.

    Raises:
        TicketError: it is missing or used, is no regular file of this user with mode 0600 and one name, or holds no
            token.
    """
    try:
        descriptor = files.open_regular(path, None, os.O_RDWR)
        if descriptor is None:
            raise TicketError("the ticket does not exist: a ticket works once, for one launch")
        try:
            _check_private(os.fstat(descriptor))
            content = files.read_up_to(descriptor, _LONGEST)
            if not content:
                raise TicketError("the ticket was used by another process, or is empty")
            token = content.removesuffix(b"\n")
            if len(token) not in _LENGTH or token.translate(None, _TOKEN):
                raise TicketError("the ticket holds no token of 32 bytes in URL-safe text")
        except BaseException:
            files.close(descriptor)
            raise
    except OSError as error:
        raise TicketError(f"the ticket cannot be opened for reading and writing: {error.strerror}") from error
    return Ticket(descriptor, content)


def _check_private(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise TicketError("the ticket belongs to another user")
    # One rule for every user: another one cannot open what is not writable, and root would.
    if (mode := stat.S_IMODE(status.st_mode)) != _MODE:
        raise TicketError(f"the ticket's mode must be {_MODE:04o}, and is {mode:04o}")
    if status.st_nlink != 1:
        raise TicketError("the ticket has a second name")

"""The launch ticket: proof that whoever speaks is the program that launched this process.

A harness writes a fresh token into a new private file and passes its path. A ticket is used up by opening it, so
nothing that can stand in a host's static configuration works twice, and no MCP client that merely lists the command
can pass. It proves "not by accident and not by configuration"; a program of the same user that sets out to play
harness is one.
"""

import os
import re
import stat
from typing import Any, Final

from ..system import files
from ..system.digest import compare_digest
from .messages import EXTENSION, MISSING_REQUIRED_CLIENT_CAPABILITY, Error

__all__ = ["TICKET_VARIABLE", "WHO_MAY_START", "TicketError", "check_ticket", "take_ticket", "wants_default_run"]

TICKET_VARIABLE: Final = "MEMORY_SIDECAR_TICKET"

WHO_MAY_START: Final = (
    "memory-sidecar serve is started by an agent harness, which passes a fresh ticket in "
    f"{TICKET_VARIABLE}; it is not an MCP server for a host to list. Use memory_sidecar.harness from Python; "
    "docs/protocol.md tells how in any language"
)

_TOKEN: Final = re.compile(rb"[A-Za-z0-9_-]{43,128}\n?")
"""At least 32 bytes in URL-safe text."""


class TicketError(Exception):
    """The ticket cannot be used. The text is for the operator's log."""


def take_ticket(path: str) -> str:
    """The token in the ticket at `path`, which is gone afterwards.

    Raises:
        TicketError: it is missing or used, is not a private regular file of this user, or holds no token.
    """
    try:
        descriptor = files.open_regular(path, None)
        if descriptor is None:
            raise TicketError("the ticket does not exist: a ticket works once, for one launch")
        try:
            _check_private(os.fstat(descriptor))
            token = files.read_up_to(descriptor, 256)
            os.unlink(path)
            # Of all who opened this file only the one that removed it may use it; a file put in its place
            # meanwhile would leave this one with a name.
            if os.fstat(descriptor).st_nlink != 0:
                raise TicketError("the ticket was replaced while it was read")
        finally:
            files.close(descriptor)
    except FileNotFoundError as error:
        raise TicketError("the ticket was used by another process") from error
    except OSError as error:
        raise TicketError(f"the ticket cannot be read: {error.strerror}") from error
    if _TOKEN.fullmatch(token) is None:
        raise TicketError("the ticket holds no token of 32 bytes in URL-safe text")
    return token.decode().rstrip("\n")


def _check_private(status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise TicketError("the ticket belongs to another user")
    if stat.S_IMODE(status.st_mode) & 0o177:
        raise TicketError("the ticket is open to other users; its mode must be 0600")
    if status.st_nlink != 1:
        raise TicketError("the ticket has a second name")


def check_ticket(token: str | None, params: dict[str, Any]) -> None:
    """Return if `initialize` presents `token`. None, a ticket that could not be used, matches nothing.

    Raises:
        Error: it does not. The process must end then.
    """
    presented = _presented(params).encode("utf-8", "surrogatepass")
    expected = (token or "").encode()
    if not (compare_digest(presented, expected) and token):
        raise Error(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "refused by the exposure policy: memory is private to the harness that launched this process and is never "
            f"served to other MCP clients; a harness presents its launch ticket as the capability {EXTENSION}",
            {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
        )


def wants_default_run(params: dict[str, Any]) -> bool:
    """Whether a harness that presented the ticket wants the process's own run: yes, unless it says no beside it."""
    return _setting(params).get("default_run") is not False


def _presented(params: dict[str, Any]) -> str:
    ticket: str = _setting(params).get("ticket", "")
    return ticket


def _setting(params: dict[str, Any]) -> dict[str, Any]:
    """What `initialize` says of the extension: the first place that holds a ticket."""
    capabilities = params.get("capabilities")
    if isinstance(capabilities, dict):
        # SDKs differ in which of the two they let a client set.
        for place in ("extensions", "experimental"):
            settings = capabilities.get(place)
            setting = settings.get(EXTENSION) if isinstance(settings, dict) else None
            if isinstance(setting, dict) and isinstance(setting.get("ticket"), str):
                return setting
    return {}

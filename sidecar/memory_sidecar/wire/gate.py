"""Who is let in: the exposure policy's word for each request that presents, or does not present, the launch ticket.

A legacy client presents it once, in `initialize`; a modern one in every request. A `server/discover` is let in
without claiming the ticket, since clients probe with it in a process of its own that they end before they start the
real one.

Whoever comes first and is refused ends the process: a host that lists the command gets the policy's refusal and no
second try. A refused `server/discover` ends it too, but `PROBE_GRACE` later: clients of both eras answer a refused
probe with `initialize` on the same pipe, and that shows its user the answer. Once the harness has been served, a
request that is refused is just refused.
"""

from ..exits import EX_NOPERM
from ..hints import Any, Final
from .codes import INVALID_PARAMS, MISSING_REQUIRED_CLIENT_CAPABILITY, Error
from .messages import EXTENSION
from .ticket import Ticket

__all__ = ["PROBE_GRACE", "Gate", "wants_default_run"]

PROBE_GRACE: Final = 3.0
"""Seconds for the request that may follow a refused probe. One was too little for a client on a busy machine."""


class Gate:
    """Lets requests in. It is asked in the order of the requests, by whoever reads them."""

    def __init__(self, ticket: Ticket | None, problem: str = "") -> None:
        """`problem` tells why there is no ticket that could be compared. Anybody may read it."""
        self._ticket = ticket
        self._problem = problem
        self._probed = False
        self.has_served = False
        """Whether this process has claimed its ticket: it is its harness's from then on."""

    def admit(self, capabilities: dict[str, Any], *, probe: bool = False) -> None:
        """Return if a client with these `capabilities` is the harness. Unless it is a `probe`, that claims the ticket.

        Raises:
            Error: it is not, or another process has claimed the ticket.
        """
        ticket = self._ticket
        presented: str = _setting(capabilities).get("ticket", "")
        is_ours = ticket is not None and ticket.matches(presented) and (self.has_served or _take(ticket, probe=probe))
        if is_ours:
            self.has_served = self.has_served or not probe
            return
        problem = self._problem or (ticket.problem if ticket is not None else "")
        raise Error(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "refused by the exposure policy: memory is private to the harness that launched this process and is never "
            f"served to other MCP clients; a harness presents its launch ticket as the capability {EXTENSION}"
            + (f" (here {problem})" if problem else ""),
            {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
            exit_status=self._ending(probe=probe),
        )

    def _ending(self, *, probe: bool) -> int | None:
        if self.has_served:
            return None
        is_first_probe = probe and not self._probed
        self._probed = True
        return None if is_first_probe else EX_NOPERM


def _take(ticket: Ticket, *, probe: bool) -> bool:
    return ticket.is_unclaimed() if probe else ticket.claim()


def wants_default_run(capabilities: dict[str, Any]) -> bool:
    """Whether a harness wants the process's own run: yes, unless it says no beside the ticket.

    Raises:
        Error: what it says is neither true nor false.
    """
    wants = _setting(capabilities).get("default_run", True)
    if not isinstance(wants, bool):
        raise Error(INVALID_PARAMS, f"default_run of {EXTENSION} is true or false; it is true if it is not there")
    return wants


def _setting(capabilities: dict[str, Any]) -> dict[str, Any]:
    """What the client says of our extension: the first place that holds a ticket."""
    # SDKs differ in which of the two they let a client set.
    for place in ("extensions", "experimental"):
        settings = capabilities.get(place)
        setting = settings.get(EXTENSION) if isinstance(settings, dict) else None
        if isinstance(setting, dict) and isinstance(setting.get("ticket"), str):
            return setting
    return {}

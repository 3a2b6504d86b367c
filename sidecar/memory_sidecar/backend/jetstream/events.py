"""What becomes of a broker's connection, for the log: lost, back, and what the broker refuses meanwhile.

A subject may end in a note's key, which no line may hold: of the bucket's own subjects the bucket is all that is told.
"""

import re
import time
from typing import TYPE_CHECKING, Final

from ...observe import gauges, log

if TYPE_CHECKING:
    from nats.aio.client import Client

__all__ = ["Events", "without_keys"]

_KEYS: Final = r"(\$kv\.[a-z0-9_-]+)\.[^\s\"']+"


def without_keys(text: str) -> str:
    """`text` with each subject of a bucket cut after the bucket's name."""
    return re.sub(_KEYS, r"\1.>", text, flags=re.IGNORECASE)


class Events:
    """The events of one connection. Reasons that repeat while it is away are told once."""

    def __init__(self, context: str) -> None:
        self._context = context
        self._client: Client | None = None
        self._lost_at: float | None = None
        self._told: set[str] = set()

    def watch(self, client: "Client") -> None:
        """From now on the connection is made, and what happens to it is told."""
        gauges.see("broker.reconnects", 0)
        self._client = client

    async def lost(self) -> None:
        """The connection broke; the client tries to make it again. (At its end, too, where nothing is told.)"""
        client = self._client
        if client is None or client.is_closed:
            return
        self._lost_at = time.monotonic()
        self._told.clear()
        log.warning("the broker is lost", context=self._context, cause=_said(client.last_error))

    async def back(self) -> None:
        """The connection is made again, maybe to another server of the cluster."""
        client = self._client
        if client is None:
            return
        away = None if self._lost_at is None else round(time.monotonic() - self._lost_at, 3)
        self._told.clear()
        gauges.see("broker.reconnects", client.stats["reconnects"])
        server = client.connected_url
        log.warning(
            "the broker is back",
            context=self._context,
            # Without the credentials that a URL may hold.
            server=None if server is None else f"{server.hostname}:{server.port}",
            seconds=away,
            reconnects=client.stats["reconnects"],
        )

    def refused(self, error: Exception) -> None:
        """The broker said no, or cannot be reached yet, which is what `lost` has told already."""
        import nats.errors

        said = _said(error)
        if type(error) is not nats.errors.Error and "author" not in str(error).lower():
            log.debug("the broker is not back yet", context=self._context, cause=said)
            return
        if self._client is None or self._client.is_closed or said is None or said in self._told:
            return
        self._told.add(said)
        log.warning("the broker refuses", context=self._context, cause=said)


def _said(error: Exception | None) -> str | None:
    return (
        None
        if error is None
        else without_keys(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
    )

"""What a guarded MCP server sends besides results: notifications, progress, and requests of its own to the client.

Each goes out by the channel of a request or by that of its connection. Both are looked at, in whatever way the server's
code comes by them: an answer of memory's that was kept passes by none.
"""

from collections.abc import Mapping
from typing import Any

from ..decide import ExposureRefused
from .wrap import Guard

__all__ = ["watch"]


class _Outbound:
    """A channel of the SDK whose messages are looked at first; everything else is the channel's own."""

    def __init__(self, plain: Any, guard: Guard) -> None:
        self._plain = plain
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plain, name)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, *args: Any, **kwargs: Any
    ) -> dict[str, Any]:
        self._guard.answer(method, params)
        result: dict[str, Any] = await self._plain.send_raw_request(method, params, *args, **kwargs)
        return result

    async def notify(self, method: str, params: Mapping[str, Any] | None, *args: Any, **kwargs: Any) -> None:
        self._guard.answer(method, params)
        await self._plain.notify(method, params, *args, **kwargs)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self._guard.answer("notifications/progress", message)
        await self._plain.progress(progress, total, message)


def watch(session: Any, guard: Guard) -> None:
    """Look at what goes out by this session, and by its connection outside of any request.

    Raises:
        ExposureRefused: the SDK keeps these channels elsewhere, so what goes out could not be looked at.
    """
    try:
        request, connection = session._request_outbound, session._connection
        if not isinstance(request, _Outbound):
            session._request_outbound = _Outbound(request, guard)
        if connection.has_standalone_channel and not isinstance(connection.outbound, _Outbound):
            connection.outbound = _Outbound(connection.outbound, guard)
    except AttributeError as error:
        rule = "the guards do not know how this version of the SDK sends; serve over HTTP behind guard_mcp_app"
        raise ExposureRefused(type(session).__name__, guard.surface.value, rule) from error

"""The HTTP client of an audit: a stranger's, and bounded by what an answer is once it is decoded.

It asks for no compression and takes none: an answer that comes compressed all the same would be as large as its author
likes once it is decoded, so it is told as unaudited and never read. No proxy, no `.netrc`, no cookies of the caller's.

Imported by the probes that need it, when they do: it imports the SDK's HTTP library.
"""

from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

import httpx2

from .advice import ENCODED, MALFORMED
from .frames import EventData, fault
from .result import Bounds

__all__ = ["Listener", "client"]

_PLAIN: Final = ("", "identity")


class Listener(Protocol):
    """Who is told what the answers are like."""

    def fail(self, reason: str) -> None:
        """Nothing more of this target can be seen."""

    def note(self, reason: str) -> None:
        """Something that others may see otherwise."""


def client(bounds: Bounds, listener: Listener, answered: Callable[[str, int], None], **more: Any) -> httpx2.AsyncClient:
    """A client whose answers are at most `bounds.received` bytes together; `answered` gets each method and status."""
    transport = _Transport(_Account(bounds.received, listener), answered)
    return httpx2.AsyncClient(transport=transport, timeout=httpx2.Timeout(bounds.seconds), trust_env=False, **more)


class _Account:
    """What all answers to one client came to, and what was wrong with them."""

    def __init__(self, most: int, listener: Listener) -> None:
        self._most = most
        self._left = most
        self._listener = listener

    def took(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise self.refused(f"it answered with more than {self._most} bytes; {MALFORMED}")

    def look_at(self, message: bytes) -> None:
        if found := fault(message):
            reason, unreadable = found
            if unreadable:
                raise self.refused(f"{reason}; {MALFORMED}")
            self._listener.note(f"{reason}; {MALFORMED}")

    def refused(self, reason: str) -> httpx2.ReadError:
        """The error that ends the reading of an answer; who listens has been told."""
        self._listener.fail(reason)
        return httpx2.ReadError(reason)


class _Counted(httpx2.AsyncByteStream):
    """An answer's body. Each message in it is looked at before the client gets its last byte."""

    def __init__(self, inner: Any, account: _Account, events: bool) -> None:
        self._inner = inner
        self._account = account
        self._events = events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        whole: list[bytes] = []
        events = EventData()
        async for chunk in self._inner:
            self._account.took(len(chunk))
            if not self._events:
                whole.append(chunk)
                continue
            for message in events.feed(chunk):
                self._account.look_at(message)
            yield chunk
        for message in events.end():
            self._account.look_at(message)
        body = b"".join(whole)
        self._account.look_at(body)
        yield body

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Transport(httpx2.AsyncHTTPTransport):
    """Asks for plain answers, and takes no others."""

    def __init__(self, account: _Account, answered: Callable[[str, int], None]) -> None:
        super().__init__()
        self._account = account
        self._answered = answered

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        request.headers["Accept-Encoding"] = "identity"
        response = await super().handle_async_request(request)
        self._answered(request.method, response.status_code)
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding not in _PLAIN:
            await response.aclose()
            if response.status_code >= 300:
                # Its status tells enough, and on such pages many compress whatever a client says.
                return httpx2.Response(response.status_code)
            unasked = f"it answered in the encoding {encoding[:40]!r}, which nobody asked for"
            raise self._account.refused(f"{unasked}; {ENCODED}")
        events = "event-stream" in response.headers.get("content-type", "").lower()
        response.stream = _Counted(response.stream, self._account, events)
        return response

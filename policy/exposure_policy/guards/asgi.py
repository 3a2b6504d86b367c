"""Keeps memory from whoever comes in through an ASGI application, whatever framework it is made with.

Each request and each WebSocket is served with the mark set, so memory does not answer. What goes out is looked at on
its way, with its headers, across its parts, and never compressed: an answer of memory's own is withheld, and an
agent card under its well-known address is checked as a whole. What compresses must stand outside of the guard.
The SDKs are not needed here.
"""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, TypeVar
from urllib.parse import unquote

from ..decide import ExposureRefused
from ..serving import Serving
from .own_answers import text_signs
from .wrap import LOG, Guard, guard_of, reclass

__all__ = ["guard_application"]

App = TypeVar("App")
Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_CARD: Final = "/.well-known/agent"
"""Where A2A agents publish their card: `agent-card.json`, and `agent.json` in earlier versions."""
_MAX_CARD: Final = 1 << 20
_BODIES: Final = frozenset(("http.response.body", "websocket.send", "websocket.http.response.body"))
_UNSEEN: Final = frozenset(("http.response.pathsend", "http.response.zerocopysend"))
"""Extensions by which a server sends a file that the application only names."""
_LOOKED_AT: Final = frozenset(("type", "headers", "body", "bytes", "text"))
"""What of a message is looked at elsewhere."""
_TAIL: Final = 4096
"""Characters of what went out before that are looked at again with what follows: memory's answers in JSON need less."""
_WITHHELD: Final = b"Internal Server Error"


def guard_application(app: App, guard: Guard, check_card: Callable[[object], None]) -> App:
    """Guard an ASGI application; guarding twice is harmless.

    Returns the same application, which is guarded itself, if it is an object. A plain function cannot be changed: then
    what is returned stands for it, and must be served in its place.

    Raises:
        ExposureRefused: it cannot be wrapped.
        TypeError: it is no ASGI application.
    """
    if guard_of(app) is not None:
        return app
    made: Any = _Application(app) if inspect.isroutine(app) else app
    if not callable(made) or inspect.isclass(made):
        raise TypeError(f"an ASGI application is called with scope, receive and send; {type(app).__name__} is not")
    plain = type(made).__call__

    async def call(self: Any, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):  # the server's own start and end are nobody's request
            await plain(self, scope, receive, send)
            return
        path = str(scope.get("path", ""))
        with Serving(guard.surface, path) as serving:
            out = _Out(guard, scope, send, check_card)
            try:
                await plain(self, out.scope, receive, out.send)
            except ExposureRefused:
                LOG.exception("an answer to %s was withheld", path)
                if out.begun:
                    raise  # the connection breaks off, as after any error
                await out.withhold()
            finally:
                guard.tell(serving)

    reclass(made, guard, {"__call__": call})
    result: App = made
    return result


class _Application:
    """Stands for an application that is a function."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


class _Out:
    """What one request sends. The head waits for the first part of the body, if it tells how long that is."""

    def __init__(self, guard: Guard, scope: Scope, send: Send, check_card: Callable[[object], None]) -> None:
        self._guard = guard
        self._path = str(scope.get("path", ""))
        self._plain = send
        self._check_card = check_card if _CARD in self._path else None
        self._card = bytearray()
        self._tail = ""
        self._refused: ExposureRefused | None = None
        self._head: Message | None = None
        self.begun = False
        headers = [item for item in scope.get("headers", ()) if bytes(item[0]).lower() != b"accept-encoding"]
        self.scope = {**scope, "headers": [*headers, (b"accept-encoding", b"identity")]}
        """What the application is told: nothing is asked for in a form that would have to be unpacked here, and nothing
        can be sent past here."""
        if extensions := scope.get("extensions"):
            self.scope["extensions"] = {name: value for name, value in extensions.items() if name not in _UNSEEN}

    async def send(self, message: Message) -> None:
        """Pass a message on, unless it holds what must not go out; after that, nothing does any more.

        Raises:
            ExposureRefused: it does, or an earlier message of an answer that has begun did.
        """
        if self._refused is not None and self.begun:
            raise self._refused
        try:
            await self._send(message)
        except ExposureRefused as refusal:
            self._refused, self._tail = refusal, ""
            raise

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        if kind in _UNSEEN:
            rule = "it is sent as a file that cannot be looked at on its way; send its content"
            raise ExposureRefused(self._path, self._guard.surface.value, rule)
        self._check_head(message)
        if kind == "http.response.start":
            if self._check_card is not None or _header(message, b"content-length"):
                # The body follows at once, so its head can wait. A stream of events tells no length.
                self._head = message
                return
        elif kind == "http.response.body" and self._check_card is not None:
            await self._send_card(message, self._check_card)
            return
        elif kind in _BODIES:
            self._check(message.get("body") or message.get("bytes") or message.get("text") or "")
        await self._pass(message)

    async def withhold(self) -> None:
        """Answer with a fixed text. Nothing may have been sent yet."""
        self._head = None
        if self.scope["type"] == "websocket":
            await self._pass({"type": "websocket.close", "code": 1011})
            return
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", str(len(_WITHHELD)).encode())]
        await self._pass({"type": "http.response.start", "status": 500, "headers": headers})
        await self._pass({"type": "http.response.body", "body": _WITHHELD})

    async def _pass(self, message: Message) -> None:
        if self._head is not None:
            head, self._head = self._head, None
            await self._plain(head)
        self.begun = True
        await self._plain(message)

    async def _send_card(self, message: Message, check_card: Callable[[object], None]) -> None:
        self._card += message.get("body", b"")
        if len(self._card) > _MAX_CARD:
            rule = f"the card is longer than {_MAX_CARD} bytes, more than can be judged; shorten it"
            raise ExposureRefused("agent card", self._guard.surface.value, rule)
        if message.get("more_body"):
            return
        try:
            card = json.loads(bytes(self._card) or b"null")
        except (ValueError, RecursionError):
            card = None  # no card, and so nobody's
        if isinstance(card, Mapping):
            check_card(card)
        await self._pass({**message, "body": bytes(self._card), "more_body": False})

    def _check(self, body: bytes | str) -> None:
        text = body if isinstance(body, str) else body.decode("utf-8", "replace")
        self._judge(text)
        if self._tail:  # what stands across two parts
            self._judge(self._tail + text[:_TAIL])
        self._tail = (self._tail + text)[-_TAIL:]

    def _check_head(self, message: Message) -> None:
        """Look at what a message carries besides a body: headers, why a WebSocket is closed, links, and so on."""
        for name, value in message.get("headers") or ():
            text = bytes(value).decode("latin-1")
            self._judge(text)
            if "%" in text:  # an address, as in Location
                self._judge(unquote(text))
            if bytes(name).lower() == b"content-encoding" and text.strip().lower() not in ("", "identity"):
                rule = "it is served in an encoding that nobody asked for, and cannot be looked at; serve it as it is"
                raise ExposureRefused(self._path, self._guard.surface.value, rule)
        for name in message.keys() - _LOOKED_AT:
            self._judge_any(message[name])

    def _judge_any(self, value: object) -> None:
        if isinstance(value, bytes | bytearray):
            value = value.decode("utf-8", "replace")
        if isinstance(value, str):
            self._judge(value)
            self._judge(unquote(value))
        elif isinstance(value, list | tuple):
            for part in value:
                self._judge_any(part)
        else:
            self._guard.answer(self._path, value)

    def _judge(self, text: str) -> None:
        if any(True for _ in text_signs(text)):
            self._guard.answer(self._path, text)


def _header(message: Message, name: bytes) -> bool:
    return any(bytes(item[0]).lower() == name for item in message.get("headers", ()))

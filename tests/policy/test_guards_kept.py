"""An answer of memory's that was kept, and a refusal's own words, in everything that a guarded server can send.

The other half of each row is the bare server, which sends it: a row that does not leak there would show nothing.
"""

import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import mcp_types
import pytest
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import Message, Part, Role
from a2a.utils.errors import UnsupportedOperationError
from mcp.client import Client
from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.resources import FunctionResource
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from tests.policy.hostile import SECRET, run
from tests.policy.test_guards_a2a import card
from tests.support.tally import Tally

from exposure_policy import ExposureRefused
from exposure_policy.guards import guard_a2a, guard_mcp, guard_mcp_app

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:The .* capability is deprecated")]

DATA = {"found": True, "key": "fruit", "description": "about fruit", "content": SECRET}
KEPT = json.dumps(DATA)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def refusal() -> str:
    """What a handler learns when it asks while a stranger is served, and passes on."""
    try:
        return run.call()
    except ExposureRefused as error:
        return str(error)


def leaks(told: object) -> bool:
    return SECRET in str(told) or "private to its harness" in str(told)


# --- MCP: what goes out besides results --------------------------------------------------------------------


async def log(ctx: Context[Any, Any], text: str) -> None:
    await ctx.session.send_log_message("info", text)


async def log_of_the_request(ctx: Context[Any, Any], text: str) -> None:
    await ctx.session.send_log_message("info", {"deep": [text]}, related_request_id=ctx.request_id)


async def progress(ctx: Context[Any, Any], text: str) -> None:
    await ctx.report_progress(1, 2, text)


async def elicitation(ctx: Context[Any, Any], text: str) -> None:
    class Asked(BaseModel):
        x: str

    await ctx.elicit(text, Asked)


async def sampling(ctx: Context[Any, Any], text: str) -> None:
    said = mcp_types.SamplingMessage(role="user", content=mcp_types.TextContent(type="text", text=text))
    await ctx.session.create_message([said], max_tokens=5)


async def error(_: Context[Any, Any], text: str) -> None:
    raise MCPError(-32001, text)


async def data_of_an_error(_: Context[Any, Any], text: str) -> None:
    raise MCPError(-32001, "no", DATA if text == KEPT else [text])


async def error_that_holds_itself(_: Context[Any, Any], text: str) -> None:
    failure = MCPError(-32001, "no", [text])
    failure.held = {"found": text}  # type: ignore[attr-defined]
    failure.held["self"] = failure.held  # type: ignore[attr-defined]
    raise failure


async def all_that_it_sends(server: MCPServer[Any]) -> str:
    told: list[str] = []

    async def noted(*sent: Any) -> None:
        told.append(str(sent))

    async def elicited(ctx: Any, params: Any) -> Any:
        told.append(str(params))
        return mcp_types.ElicitResult(action="decline")

    async def sampled(ctx: Any, params: Any) -> Any:
        told.append(str(params))
        content = mcp_types.TextContent(type="text", text="x")
        return mcp_types.CreateMessageResult(role="assistant", content=content, model="m")

    async with Client(
        server, mode="legacy", logging_callback=noted, elicitation_callback=elicited, sampling_callback=sampled
    ) as client:
        try:
            told.append(str(await client.call_tool("helper", {}, progress_callback=noted)))
        except MCPError as failure:
            told.append(repr(failure))
        await client.list_tools()  # what was sent before has come
    return "".join(told)


SENDS = [log, log_of_the_request, progress, elicitation, sampling, error, data_of_an_error, error_that_holds_itself]


@pytest.mark.parametrize("kind", ["kept", "refusal"])
@pytest.mark.parametrize("send", SENDS, ids=lambda send: str(send.__name__))
async def test_whatever_a_server_sends(send: Callable[..., Awaitable[None]], kind: str, tally: Tally) -> None:
    def build() -> MCPServer[Any]:
        server: MCPServer[Any] = MCPServer("helper")

        async def helper(ctx: Context[Any, Any]) -> str:
            await send(ctx, KEPT if kind == "kept" else refusal())
            return "sent"

        server.add_tool(helper)
        return server

    assert leaks(await all_that_it_sends(build()))
    told = await all_that_it_sends(guard_mcp(build()))
    tally("guard_mcp", "an answer that was kept, besides results", 1, [told] if leaks(told) else [])


async def test_what_the_protocol_puts_into_base64(tally: Tally) -> None:
    """The bytes of a resource, and of an image: no spelling of a handler's own."""

    def build() -> MCPServer[Any]:
        server: MCPServer[Any] = MCPServer("helper")
        server.add_resource(FunctionResource(uri="kept://note", name="note", fn=KEPT.encode))
        server.add_tool(lambda: Image(data=KEPT.encode(), format="png"), name="picture")
        return server

    async def told(server: MCPServer[Any]) -> str:
        found = ""
        async with Client(server, mode="legacy") as client:
            with suppress(MCPError):
                (content,) = (await client.read_resource("kept://note")).contents
                found += base64.b64decode(content.blob).decode()
            with suppress(MCPError):
                (part,) = (await client.call_tool("picture", {})).content
                found += base64.b64decode(getattr(part, "data", "")).decode()
        return found

    assert leaks(await told(build()))
    held = await told(guard_mcp(build()))
    tally("guard_mcp", "an answer that was kept, as bytes", 1, [held] if leaks(held) else [])


# --- ASGI: in parts, compressed, in headers and around a WebSocket -----------------------------------------


async def whole(_: Any) -> Response:
    return PlainTextResponse(KEPT)


def in_parts_of(size: int) -> Callable[[Any], Awaitable[Response]]:
    async def page(_: Any) -> Response:
        async def parts() -> AsyncIterator[str]:
            for at in range(0, len(KEPT), size):
                yield KEPT[at : at + size]

        return StreamingResponse(parts())

    return page


async def in_a_header(_: Any) -> Response:
    return PlainTextResponse("x", headers={"x-note": KEPT})


async def in_an_address(_: Any) -> Response:
    return RedirectResponse("/x?" + KEPT)


async def encoded_unasked(_: Any) -> Response:
    import gzip

    return Response(gzip.compress(KEPT.encode()), headers={"content-encoding": "gzip"})


async def refused(_: Any) -> Response:
    return PlainTextResponse(refusal(), status_code=400)


PAGES: dict[str, tuple[Callable[[Any], Awaitable[Response]], list[Middleware]]] = {
    "whole": (whole, []),
    "in two parts": (in_parts_of(40), []),
    "in parts of 16": (in_parts_of(16), []),
    "in parts of 1": (in_parts_of(1), []),
    "in a header": (in_a_header, []),
    "in an address": (in_an_address, []),
    "packed by a middleware": (whole, [Middleware(GZipMiddleware, minimum_size=1)]),
    "packed unasked": (encoded_unasked, []),
    "a refusal": (refused, []),
}


@pytest.mark.parametrize("kind", PAGES)
def test_however_an_application_sends_it(kind: str, tally: Tally) -> None:
    endpoint, middleware = PAGES[kind]

    def visited(guarded: bool) -> str:
        app = Starlette(routes=[Route("/", endpoint)], middleware=middleware)
        client = TestClient(guard_mcp_app(app) if guarded else app, raise_server_exceptions=False)
        with client.stream("GET", "/", follow_redirects=False) as answer:
            from urllib.parse import unquote

            heads = unquote(str(answer.headers))
            return heads + "".join(answer.iter_text())

    assert leaks(visited(False)) or kind == "a refusal"
    told = visited(True)
    tally("guard_mcp_app", "an answer that was kept, in any part", 1, [told] if leaks(told) else [])


async def in_pieces(session: Any) -> None:
    await session.accept()
    for at in range(0, len(KEPT), 16):
        await session.send_text(KEPT[at : at + 16])


async def in_a_reason(session: Any) -> None:
    await session.accept()
    await session.close(reason=KEPT)


async def in_accepting(session: Any) -> None:
    await session.accept(headers=[(b"x-note", KEPT.encode())])
    await session.close()


async def in_denying(session: Any) -> None:
    await session.send_denial_response(PlainTextResponse(KEPT, status_code=403))


@pytest.mark.parametrize("way", [in_pieces, in_a_reason, in_accepting, in_denying], ids=lambda way: str(way.__name__))
async def test_around_a_web_socket(way: Callable[[Any], Awaitable[None]], tally: Tally) -> None:
    async def talked(app: Any) -> str:
        told: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "websocket.connect"}

        async def send(message: Any) -> None:
            told.extend(value for name, value in message.items() if name != "type")

        scope = {"type": "websocket", "path": "/", "headers": [], "query_string": b"", "subprotocols": []}
        scope["extensions"] = {"websocket.http.response": {}}
        with suppress(ExposureRefused):  # the server closes the connection
            await app(scope, receive, send)
        return "".join(part if isinstance(part, str) else repr(part) for part in told)

    assert leaks(await talked(Starlette(routes=[WebSocketRoute("/", way)])))
    told = await talked(guard_mcp_app(Starlette(routes=[WebSocketRoute("/", way)])))
    tally("guard_mcp_app", "an answer that was kept, around a WebSocket", 1, [told] if leaks(told) else [])


HINTS: list[dict[str, Any]] = [
    {"type": "http.response.early_hint", "links": [b"</x>", KEPT.encode()]},
    {"type": "http.response.push", "path": "/" + KEPT, "headers": []},
    {"type": "http.response.push", "path": "/" + quote(KEPT), "headers": []},
    {"type": "http.response.push", "path": "/x", "headers": [(b"x-note", KEPT.encode())]},
    {"type": "http.response.trailers", "headers": [(b"x-note", KEPT.encode())]},
    {"type": "http.response.debug", "info": {"context": [KEPT]}},
    {"type": "http.response.pathsend", "path": "/tmp/kept"},
    {"type": "http.response.zerocopysend", "file": 7},
]


@pytest.mark.parametrize("message", HINTS, ids=lambda message: str(message["type"]))
@pytest.mark.parametrize("begun", [False, True])
async def test_whatever_message_a_server_knows(message: dict[str, Any], tally: Tally, *, begun: bool) -> None:
    """Extensions of ASGI have messages of their own; a file that is only named cannot be looked at, so none goes."""
    told: list[dict[str, Any]] = []
    offered: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        offered.extend(scope["extensions"])
        if begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        await send(message)

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(sent: Any) -> None:
        told.append(sent)

    kinds = {"http.response.pathsend": {}, "http.response.zerocopysend": {}, "http.response.early_hint": {}}
    scope = {"type": "http", "path": "/", "headers": [], "query_string": b"", "extensions": kinds}
    with suppress(ExposureRefused):
        await guard_mcp_app(app)(scope, receive, send)
    assert offered == ["http.response.early_hint"]
    leaked = [str(one) for one in told if one["type"] == message["type"]]
    tally("guard_mcp_app", "an answer that was kept, in a message of an extension", 1, leaked)


# --- A2A: events and errors, whatever of the agent is guarded ----------------------------------------------


async def as_an_event(queue: Any) -> None:
    await queue.enqueue_event(Message(message_id="1", role=Role.ROLE_AGENT, parts=[Part(text=KEPT)]))


async def as_an_error(_: Any) -> None:
    raise RuntimeError(KEPT)


async def as_an_error_of_the_sdk(_: Any) -> None:
    raise UnsupportedOperationError(message=KEPT)


async def as_nothing_caught(_: Any) -> None:
    run.call()


async def as_a_refusal_raised_again(_: Any) -> None:
    raise RuntimeError(refusal())


async def as_a_refusal_told(queue: Any) -> None:
    await queue.enqueue_event(Message(message_id="1", role=Role.ROLE_AGENT, parts=[Part(text=refusal())]))


ACTS = [
    as_an_event,
    as_an_error,
    as_an_error_of_the_sdk,
    as_nothing_caught,
    as_a_refusal_raised_again,
    as_a_refusal_told,
]


@pytest.mark.parametrize("method", ["SendMessage", "SendStreamingMessage"])
@pytest.mark.parametrize("what", ["executor", "handler", "app"])
@pytest.mark.parametrize("act", ACTS, ids=lambda act: str(act.__name__))
def test_whatever_an_agent_tells(act: Callable[[Any], Awaitable[None]], what: str, method: str, tally: Tally) -> None:
    class Tells(AgentExecutor):
        async def execute(self, context: Any, event_queue: Any) -> None:  # noqa: ARG002
            await act(event_queue)

        async def cancel(self, context: Any, event_queue: Any) -> None: ...

    def answered(guarded: str) -> str:
        executor = Tells()
        if guarded == "executor":
            guard_a2a(executor)
        handler = DefaultRequestHandler(agent_executor=executor, task_store=InMemoryTaskStore(), agent_card=card())
        if guarded == "handler":
            guard_a2a(handler)
        app = Starlette(routes=create_jsonrpc_routes(handler, rpc_url="/rpc"))
        if guarded == "app":
            guard_a2a(app)
        message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": message}}
        with TestClient(app, raise_server_exceptions=False) as client:
            return client.post("/rpc", json=body, headers={"A2A-Version": "1.0"}).text

    if act in ACTS[:3]:
        assert leaks(answered(""))
    told = answered(what)
    tally("guard_a2a", f"what an agent tells, with the {what} guarded", 1, [told] if leaks(told) else [])


# --- what stays outside: each is told in SECURITY.md, and is really so -------------------------------------


def test_outside_another_spelling_of_an_answer() -> None:
    """Other letters than those of JSON, or names in another order that go out in parts."""

    async def wide(_: Any) -> Response:
        return Response(KEPT.encode("utf-16"))

    client = TestClient(guard_mcp_app(Starlette(routes=[Route("/", wide)])))
    assert SECRET in client.get("/").content.decode("utf-16")

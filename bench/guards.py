"""What a guard adds to a call, a listing, a request and a message: `make guards-cost`.

Bare and guarded take turns, and the quickest of more than a hundred counts: so a busy machine changes little. Time is
the process's own (CPU), which is what a guard takes.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from a2a.server.agent_execution import AgentExecutor
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, Message, Part, Role, SendMessageRequest
from mcp.client import Client
from mcp.server.mcpserver import MCPServer
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from exposure_policy.guards import guard_a2a, guard_mcp, guard_mcp_app

ROUNDS = 25
ALLOWED = 0.1
"""Milliseconds that a guarded call may cost beyond a bare one."""

Once = Callable[[], Awaitable[Any]]


def server(tools: int) -> MCPServer[Any]:
    def forecast(place: str, days: int = 3, unit: str = "C") -> dict[str, Any]:
        """Tells the weather of a place for some days, from the nearest station that reports."""
        return {
            "place": place,
            "days": [{"day": n, "text": f"Rain, 1{n} {unit}, wind from the west"} for n in range(days)],
        }

    made: MCPServer[Any] = MCPServer("weather")
    for number in range(tools):
        made.add_tool(forecast, name=f"forecast_{number}")
    return made


class Executor(AgentExecutor):
    async def execute(self, context: Any, event_queue: Any) -> None:
        said = Message(
            message_id="1", role=Role.ROLE_AGENT, parts=[Part(text="Rain. " * 40)], context_id=context.context_id
        )
        await event_queue.enqueue_event(said)

    async def cancel(self, context: Any, event_queue: Any) -> None: ...


def agent() -> DefaultRequestHandler:
    card = AgentCard(
        name="Weather",
        description="Knows the weather.",
        version="1",
        supported_interfaces=[
            AgentInterface(url="http://a.example", protocol_binding="JSONRPC", protocol_version="1.0")
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
    )
    return DefaultRequestHandler(agent_executor=Executor(), task_store=InMemoryTaskStore(), agent_card=card)


async def answer(_request: Any) -> Any:
    return JSONResponse({"weather": "Rain. " * 40})


def visit(app: Any) -> Once:
    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [], "query_string": b"", "root_path": ""}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(message: Any) -> None: ...

    return lambda: app(dict(scope), receive, send)


def ask(handler: Any) -> Once:
    def once() -> Awaitable[Any]:
        asked = SendMessageRequest(message=Message(message_id="0", role=Role.ROLE_USER, parts=[Part(text="hello")]))
        return handler.on_message_send(asked, ServerCallContext())  # type: ignore[no-any-return]

    return once


async def spent(once: Once, times: int) -> float:
    """Milliseconds of the quickest of `times`: others that run meanwhile can only make one slower."""
    least = float("inf")
    for _ in range(times):
        began = time.process_time()
        await once()
        least = min(least, time.process_time() - began)
    return least * 1000


async def compare(what: str, bare: Once, guarded: Once, times: int) -> float:
    await spent(bare, times)
    await spent(guarded, times)
    least = [
        min(pair)
        for pair in zip(*[(await spent(bare, times), await spent(guarded, times)) for _ in range(ROUNDS)], strict=True)
    ]
    print(f"{what:<34} bare {least[0]:.3f} ms, guarded {least[1]:.3f} ms: {least[1] - least[0]:+.3f} ms")
    return least[1] - least[0]


async def main() -> int:
    arguments = {"place": "Rome"}
    async with (
        Client(server(1), mode="legacy") as bare,
        Client(guard_mcp(server(1)), mode="legacy") as guarded,
        Client(server(30), mode="legacy") as many,
        Client(guard_mcp(server(30)), mode="legacy") as many_guarded,
    ):
        call = await compare(
            "MCP tools/call",
            lambda: bare.call_tool("forecast_0", arguments),
            lambda: guarded.call_tool("forecast_0", arguments),
            50,
        )
        await compare(
            "MCP tools/list of 30 tools",
            lambda: many.list_tools(cache_mode="bypass"),
            lambda: many_guarded.list_tools(cache_mode="bypass"),
            5,
        )
    routes = [Route("/x", answer)]
    request = await compare(
        "ASGI request", visit(Starlette(routes=routes)), visit(guard_mcp_app(Starlette(routes=routes))), 100
    )
    message = await compare("A2A message", ask(agent()), ask(guard_a2a(agent())), 30)
    return int(max(call, request, message) > ALLOWED)


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

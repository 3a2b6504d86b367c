"""What a guard adds to a call, a listing, a request and a message: `make guards-cost`.

Bare and guarded take turns, one call each, and the median of how much longer the guarded one took counts: what else
runs slows both of a pair alike. It is told in the time of the quickest bare one, which is the machine's own speed. What
is found too slow is measured anew, three times in all. Time is the process's own (CPU), which is what a guard takes.
"""

import asyncio
import logging
import os
import statistics
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

PAIRS = 600
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


async def spent(once: Once) -> float:
    """Milliseconds of one."""
    began = time.process_time()
    await once()
    return (time.process_time() - began) * 1000


async def compare(what: str, bare: Once, guarded: Once, pairs: int = PAIRS) -> float:
    for _ in range(3):
        added = await measure(what, bare, guarded, pairs)
        if added <= ALLOWED:
            break
    return added


async def measure(what: str, bare: Once, guarded: Once, pairs: int) -> float:
    for _ in range(pairs // 10):
        await spent(bare)
        await spent(guarded)
    timed = []
    for number in range(pairs):
        if number % 2:  # what one leaves behind for the next is shared out evenly
            later = await spent(guarded)
            timed.append((await spent(bare), later))
        else:
            timed.append((await spent(bare), await spent(guarded)))
    quickest = min(first for first, _ in timed)
    added = (statistics.median(second / first for first, second in timed) - 1) * quickest
    print(f"{what:<34} bare {quickest:.3f} ms, guarded {added:+.3f} ms")
    return added


async def main() -> int:
    logging.disable()  # the SDK of A2A warns of this agent's card at each start, in the middle of the numbers
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
        )
        await measure(
            "MCP tools/list of 30 tools",
            lambda: many.list_tools(cache_mode="bypass"),
            lambda: many_guarded.list_tools(cache_mode="bypass"),
            PAIRS // 4,
        )
    routes = [Route("/x", answer)]
    request = await compare(
        "ASGI request", visit(Starlette(routes=routes)), visit(guard_mcp_app(Starlette(routes=routes)))
    )
    message = await compare("A2A message", ask(agent()), ask(guard_a2a(agent())))
    if max(call, request, message) <= ALLOWED:
        return 0
    print(f"more than {ALLOWED} ms, at a load of {os.getloadavg()[0]:.0f}: a machine with less to do tells for certain")
    return 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

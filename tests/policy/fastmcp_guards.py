"""The hostile handlers on servers of the package `fastmcp`, which the other tests do without: `make guards-fastmcp`.

A program, not a test of the suite: it prints what it tried and ends with 1 if a stranger was told what memory holds.
"""

import asyncio
import logging
import sys
from collections.abc import Callable
from typing import Any

from fastmcp import Client, FastMCP
from fastmcp.server.middleware import Middleware
from fastmcp.tools import Tool
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from tests.policy.hostile import KEPT, PLACES, WAYS, leaks, run

from exposure_policy import ExposureRefused
from exposure_policy.guards import guard_mcp


def made() -> Any:
    server: Any = FastMCP("helper")
    server.tool(lambda: str(KEPT), name="kept")
    return server


def with_tool(handler: Callable[[], Any]) -> Any:
    server = made()

    async def helper() -> str:
        found = handler()
        return str(await found if hasattr(found, "__await__") else found)

    server.tool(helper)
    return server


async def everything(server: Any) -> str:
    told: list[Any] = []

    async def ask(request: Any) -> Any:
        try:
            told.append(await request)
        except Exception as error:
            told.append(repr(error))
            return []
        return told[-1]

    async with Client(server) as client:
        for tool in await ask(client.list_tools()):
            await ask(client.call_tool(tool.name, {}))
        for prompt in await ask(client.list_prompts()):
            await ask(client.get_prompt(prompt.name))
        for resource in await ask(client.list_resources()):
            await ask(client.read_resource(resource.uri))
        await ask(client.list_resource_templates())
        await ask(client.read_resource("x://rome"))
        await ask(client.call_tool("kept", {}))
    return "\n".join(map(str, told))


def by_prompt(server: Any) -> None:
    server.prompt(lambda: run.call(), name="helper")


def by_resource(server: Any) -> None:
    server.resource("x://all", name="helper")(lambda: run.call())


def by_template(server: Any) -> None:
    server.resource("x://{topic}", name="helper")(lambda topic: topic and run.call())


def by_middleware(server: Any) -> None:
    class Leaks(Middleware):
        async def on_call_tool(self, context: Any, call_next: Any) -> Any:
            KEPT.append(run.call())
            return await call_next(context)

    server.add_middleware(Leaks())


def by_middleware_of_messages(server: Any) -> None:
    class Leaks(Middleware):
        async def on_message(self, context: Any, call_next: Any) -> Any:
            if context.method == "tools/list":
                KEPT.append(run.call())
            return await call_next(context)

    server.add_middleware(Leaks())


def by_mounting(server: Any) -> None:
    inner = with_tool(run.call)
    server.mount(inner)


def by_mounting_under_a_name(server: Any) -> None:
    server.mount(with_tool(run.call), namespace="inner")


def by_changed_tool(server: Any) -> None:
    original = Tool.from_function(lambda: run.call(), name="original")
    server.add_tool(Tool.from_tool(original, name="helper"))


REGISTERED = [way for name, way in sorted(globals().items()) if name.startswith("by_")]


def of_way(way: Callable[[Any], None]) -> Callable[[], Any]:
    def build() -> Any:
        server = made()
        way(server)
        return server

    return build


def of_route() -> tuple[str, str]:
    def visited(server: Any) -> str:
        async def page(request: Any) -> Any:
            return PlainTextResponse(run.call())

        server.custom_route("/x", methods=["GET"])(page)
        return TestClient(server.http_app(), raise_server_exceptions=False, base_url="http://localhost").get("/x").text

    return visited(made()), visited(guard_mcp(made()))


def refused_at_registration() -> list[str]:
    ways: dict[str, Callable[[Any], Any]] = {
        "a tool by its name": lambda server: server.tool(lambda key: key, name="memory_read"),
        "a prompt by its name": lambda server: server.prompt(lambda: "x", name="memory_list"),
        "a resource by its name": lambda server: server.resource("notes://memory_read")(lambda: "x"),
        "a mark": lambda server: server.tool(lambda: "x", name="helper", meta={"memory-sidecar/private": True}),
    }
    passed = []
    for name, way in ways.items():
        try:
            way(guard_mcp(made()))
        except ExposureRefused:
            continue
        passed.append(name)
    return passed


async def main() -> int:
    logging.disable(logging.CRITICAL)
    servers: dict[str, Callable[[], Any]] = {
        **{name: lambda way=way: with_tool(way) for name, way in WAYS.items()},
        **{place.__name__: lambda place=place: with_tool(place) for place in PLACES},
        **{way.__name__: of_way(way) for way in REGISTERED},
    }
    blunt, told = [], []
    for name, build in servers.items():
        KEPT.clear()
        if not leaks(await everything(build())):
            blunt.append(name)
        KEPT.clear()
        if leaks(await everything(guard_mcp(build()))):
            told.append(name)
    bare, guarded = await asyncio.to_thread(of_route)
    if leaks(guarded):
        told.append("a route")
    if not leaks(bare):
        blunt.append("a route")
    passed = refused_at_registration()
    print(f"{len(servers) + 1} handlers on fastmcp: {len(told)} told a stranger what memory holds: {told or 'none'}")
    print(f"without the guard, {len(blunt)} told nothing: {blunt or 'none'}")
    print(f"of 4 offers of memory, {len(passed)} were not refused at registration: {passed or 'none'}")
    return 1 if told or blunt or passed else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))

"""The hostile handlers on servers of the SDK's first version, `mcp` 1.x: `make guards-mcp-1`.

Such a server cannot be guarded itself and is refused with the remedy, which this tries: it is served over HTTP, behind
`guard_mcp_app`. A program, not a test of the suite: it prints what it tried and ends with 1 if a stranger was told what
memory holds.
"""

import itertools
import json
import logging
import sys
from collections.abc import Callable
from typing import Any

from mcp.server.fastmcp import FastMCP
from mcp.server.lowlevel import Server
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Mount
from starlette.testclient import TestClient
from tests.policy.hostile import KEPT, PLACES, WAYS, leaks, run

from exposure_policy import ExposureRefused
from exposure_policy.guards import guard_mcp, guard_mcp_app

_HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
_CLIENT = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "stranger", "version": "1"},
}


def made(**settings: Any) -> Any:
    server: Any = FastMCP("helper", **settings)
    server.tool(name="kept")(lambda: str(KEPT))
    return server


def with_tool(handler: Callable[[], Any], **settings: Any) -> Any:
    server = made(**settings)

    async def helper() -> str:
        found = handler()
        return str(await found if hasattr(found, "__await__") else found)

    server.tool()(helper)
    return server


def by_prompt(server: Any) -> None:
    server.prompt(name="helper")(lambda: run.call())


def by_resource(server: Any) -> None:
    server.resource("x://all", name="helper")(lambda: run.call())


def by_template(server: Any) -> None:
    server.resource("x://{topic}", name="helper")(lambda topic: topic and run.call())


def by_route(server: Any) -> None:
    async def page(request: Any) -> Any:
        return PlainTextResponse(run.call())

    server.custom_route("/x", methods=["GET"])(page)


REGISTERED = [way for name, way in sorted(globals().items()) if name.startswith("by_")]


def everything(app: Any) -> str:
    """All that a stranger is told who asks for each thing that the server lists."""
    told: list[str] = []
    numbers = itertools.count()
    headers = dict(_HEADERS)
    with TestClient(app, raise_server_exceptions=False, base_url="http://localhost:8000") as client:

        def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
            message = {"jsonrpc": "2.0", "id": next(numbers), "method": method, "params": params}
            answer = client.post("/mcp", json=message, headers=headers)
            told.append(answer.text)
            if session := answer.headers.get("mcp-session-id"):
                headers["mcp-session-id"] = session
            lines = [line.removeprefix("data:") for line in answer.text.splitlines() if line.startswith(("data:", "{"))]
            return (json.loads(lines[-1]) if lines and lines[-1].strip().startswith("{") else {}).get("result", {})

        ask("initialize", _CLIENT)
        client.post("/mcp", json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
        for tool in ask("tools/list", {}).get("tools", ()):
            ask("tools/call", {"name": tool["name"], "arguments": {}})
        for prompt in ask("prompts/list", {}).get("prompts", ()):
            ask("prompts/get", {"name": prompt["name"]})
        ask("resources/list", {})
        for uri in ("x://all", "x://rome"):
            ask("resources/read", {"uri": uri})
        ask("tools/call", {"name": "kept", "arguments": {}})
        told.append(client.get("/x").text)
    return "\n".join(told)


def of_way(way: Callable[[Any], None]) -> Callable[..., Any]:
    def build(**settings: Any) -> Any:
        server = made(**settings)
        way(server)
        return server

    return build


def unguarded_servers() -> list[str]:
    """The servers that `guard_mcp` did not refuse, or without the remedy."""
    passed = []
    for server in (Server("helper"), made()):
        try:
            guard_mcp(server)
        except ExposureRefused as refused:
            if "behind guard_mcp_app" in str(refused):
                continue
        passed.append(type(server).__name__)
    return passed


def served(server: Any) -> Any:
    return server.streamable_http_app()


def mounted(server: Any) -> Any:
    return Starlette(
        routes=[Mount("/", app=server.streamable_http_app())], lifespan=lambda _: server.session_manager.run()
    )


def main() -> int:
    logging.disable(logging.CRITICAL)
    builds: dict[str, Callable[..., Any]] = {
        **{name: lambda way=way, **settings: with_tool(way, **settings) for name, way in WAYS.items()},
        **{place.__name__: lambda place=place, **settings: with_tool(place, **settings) for place in PLACES},
        **{way.__name__: of_way(way) for way in REGISTERED},
    }
    kinds: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
        "without sessions": (served, {"stateless_http": True, "json_response": True}),
        "with sessions": (served, {}),
        "mounted": (mounted, {}),
    }
    blunt, told = [], []
    for (kind, (application, settings)), (name, build) in itertools.product(kinds.items(), builds.items()):
        KEPT.clear()
        if not leaks(everything(application(build(**settings)))):
            blunt.append(f"{name} {kind}")
        KEPT.clear()
        if leaks(everything(guard_mcp_app(application(build(**settings))))):
            told.append(f"{name} {kind}")
    passed = unguarded_servers()
    print(f"{len(builds)} handlers in {len(kinds)} kinds of application on mcp 1.x:")
    print(f"{len(told)} told a stranger what memory holds: {told or 'none'}")
    print(f"without the guard, {len(blunt)} told nothing: {blunt or 'none'}")
    print(f"of 2 servers, {len(passed)} were not refused with the remedy: {passed or 'none'}")
    return 1 if told or blunt or passed else 0


if __name__ == "__main__":
    sys.exit(main())

"""A small real MCP server on the official SDK. Its one argument says what it offers to strangers."""

import sys
from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer


def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b


def lookup(topic: str) -> str:
    """Looks a topic up."""
    return topic


def clean() -> Any:
    server: MCPServer[Any] = MCPServer("clean", instructions="Sums and topics.")
    server.add_tool(add)
    server.add_tool(lookup, name="read_memory_usage", description="Reports how much memory a process uses.")
    server.prompt()(greet)
    server.resource("city://{name}")(city)
    server.resource("time://now")(now)
    return server


def greet() -> str:
    return "hello"


def city(name: str) -> str:
    return name


def now() -> str:
    return "noon"


def as_is() -> Any:
    server = clean()
    server.add_tool(lookup, name="memory_read")
    return server


def renamed() -> Any:
    server = clean()
    server.add_tool(lookup, name="acme__MemoryWriteV2")
    return server


def described() -> Any:
    server = clean()
    server.add_tool(lookup, name="helper", description="Gives back what the agent stored in its memory.")
    return server


def prompt() -> Any:
    server = clean()
    server.prompt(name="memory-list")(greet)
    return server


def template() -> Any:
    server = clean()
    server.resource("notes://{name}", name="memory_read")(city)
    return server


def remembers() -> Any:
    server = clean()
    server.add_tool(lookup, name="recall", description="Recalls a memory.")
    return server


def addressed() -> Any:
    server = clean()
    server.resource("memory://notes", name="notes")(now)
    return server


def addressed_template() -> Any:
    server = clean()
    server.resource("memory://notes/{name}", name="one")(city)
    return server


def prompted() -> Any:
    server = clean()
    server.prompt(name="start", description="Loads relevant memories into the conversation.")(greet)
    return server


def calls_itself_memory() -> Any:
    server: MCPServer[Any] = MCPServer("memory-server")
    server.add_tool(lookup, name="read_graph", description="Reads the entire knowledge graph.")
    return server


def introduction() -> Any:
    return MCPServer("helper", instructions="<memory-index>\n- a: b\n</memory-index>")


def reexport() -> Any:
    from memory_sidecar.tools.catalog import Catalog

    return paged([Catalog(enabled=True, read_only=False).definitions()])


def second_page() -> Any:
    plain = {"name": "add", "inputSchema": {"type": "object"}}
    return paged([[plain], [{"name": "memory_delete", "inputSchema": {"type": "object"}}]])


def paged(pages: list[list[dict[str, Any]]], following: Callable[[int], str | None] | None = None) -> Any:
    def after(page: int) -> str | None:
        return str(page + 1) if page + 1 < len(pages) else None

    async def listed(ctx: Any, params: Any) -> Any:
        page = int(params.cursor or 0) if params else 0
        listing = {"tools": pages[page % len(pages)], "nextCursor": (following or after)(page)}
        return types.ListToolsResult.model_validate(listing)

    server: Server[Any] = Server("paged")
    server.add_request_handler("tools/list", types.PaginatedRequestParams, listed)
    return server


PLAIN = {"name": "add", "inputSchema": {"type": "object"}}


def repeats_cursors() -> Any:
    return paged([[PLAIN]], lambda _page: "7")


def endless_pages() -> Any:
    return paged([[PLAIN]], lambda page: str(page + 1))


def many_entries() -> Any:
    return paged([[{"name": f"t{n}", "inputSchema": {"type": "object"}} for n in range(400)]])


def leaks_then_repeats() -> Any:
    return paged([[PLAIN | {"name": "memory_read"}]], lambda _page: "7")


def lists_and_hangs() -> Any:
    import anyio

    async def listed(ctx: Any, params: Any) -> Any:
        await anyio.sleep_forever()

    server: Server[Any] = Server("hangs")
    server.add_request_handler("tools/list", types.PaginatedRequestParams, listed)
    return server


def lists_and_fails() -> Any:
    async def listed(ctx: Any, params: Any) -> Any:
        raise RuntimeError("no")

    server: Server[Any] = Server("fails")
    server.add_request_handler("tools/list", types.PaginatedRequestParams, listed)
    return server


def build(name: str) -> Any:
    return globals()[name]()


if __name__ == "__main__":
    import anyio
    from mcp.server.stdio import stdio_server

    server = build(sys.argv[1])

    async def main() -> None:
        low = getattr(server, "_lowlevel_server", server)
        async with stdio_server() as (read, write):
            await low.run(read, write, low.create_initialization_options())

    anyio.run(main)

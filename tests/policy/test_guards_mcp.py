"""Real servers of the SDK, guarded: whichever way memory comes in, it is refused; clean servers notice nothing."""

import contextvars
import functools
import re
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import mcp_types
import pytest
from mcp.client import Client
from mcp.server.extension import Extension, ToolBinding
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import FunctionResource, TextResource
from mcp.shared.exceptions import MCPError
from pydantic import Field
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from exposure_policy import ExposureRefused
from exposure_policy.guards import guard_mcp, guard_mcp_app
from exposure_policy.guards.mcp import guarded
from exposure_policy.guards.refuse import identity
from exposure_policy.guards.registry import _tool
from memory_sidecar.tools.catalog import Catalog

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Run:
    """Stands for the harness's run: the guard knows it by the mark alone."""

    __memory_private__ = True

    async def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"name": name, **arguments}


def plain(topic: str) -> str:
    """Looks a topic up."""
    return topic


def clean() -> MCPServer[Any]:
    server: MCPServer[Any] = MCPServer("clean", instructions="Weather and sums.")
    server.add_tool(plain, name="lookup")
    return server


# --- registering ------------------------------------------------------------------------------------------


def by_decorator(server: MCPServer[Any]) -> None:
    @server.tool()
    def memory_read(key: str) -> str:
        return key


def by_decorator_with_a_name(server: MCPServer[Any]) -> None:
    server.tool(name="acme__memory_write_v2")(plain)


def by_call(server: MCPServer[Any]) -> None:
    server.add_tool(plain, name="MemoryList")


def by_manager(server: MCPServer[Any]) -> None:
    server._tool_manager.add_tool(plain, name="memory-delete")


def by_registry(server: MCPServer[Any]) -> None:
    other: MCPServer[Any] = MCPServer("other")
    other.add_tool(plain, name="memory_read")
    server._tool_manager._tools |= {f"other_{n}": t for n, t in other._tool_manager._tools.items()}


def by_registry_key(server: MCPServer[Any]) -> None:
    server._tool_manager._tools.setdefault("memory_read", server._tool_manager._tools["lookup"])


def by_marker(server: MCPServer[Any]) -> None:
    server.add_tool(plain, name="helper", meta={"memory-sidecar/private": True})


def by_prompt(server: MCPServer[Any]) -> None:
    server.prompt(name="memory_list")(lambda: "x")


def by_prompt_object(server: MCPServer[Any]) -> None:
    server.add_prompt(Prompt.from_function(plain, name="memory-read"))


def by_resource(server: MCPServer[Any]) -> None:
    server.resource("notes://all", name="memory_list")(lambda: "x")


def by_resource_object(server: MCPServer[Any]) -> None:
    server.add_resource(FunctionResource.from_function(fn=lambda: "x", uri="x://memory_read", name="x"))


def by_copying(server: MCPServer[Any]) -> None:
    other: MCPServer[Any] = MCPServer("other")
    other.add_tool(plain, name="memory_read")
    for tool in other._tool_manager.list_tools():
        server.add_tool(tool.fn, name=f"other.{tool.name}")


def by_definition(server: MCPServer[Any]) -> None:
    """A tool of the sidecar's own, under another name and without its mark."""
    for each in Catalog(enabled=True, read_only=False).definitions():
        if not each["inputSchema"]["properties"]:
            continue  # nothing to know it by: half the tools of the world take nothing
        tool = server._tool_manager._tools["lookup"]
        changed = {"name": "helper", "description": "Helps.", "parameters": each["inputSchema"]}
        server._tool_manager._tools[f"helper_{each['title']}"] = tool.model_copy(update=changed)


def by_template(server: MCPServer[Any]) -> None:
    @server.resource("notes://memory_read/{key}")
    def entry(key: str) -> str:
        return key


def by_method_of_a_run(server: MCPServer[Any]) -> None:
    server.add_tool(Run().call, name="helper")


def by_partial_of_a_run(server: MCPServer[Any]) -> None:
    bound: Any = functools.partial(Run().call, "x")
    bound.__name__ = "helper"
    server.add_tool(bound)


def by_wrapped_method_of_a_run(server: MCPServer[Any]) -> None:
    run = Run()

    @functools.wraps(run.call)
    async def helper(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return await run.call(name, arguments)

    server.add_tool(helper, name="helper")


def by_middleware_of_a_run(server: MCPServer[Any]) -> None:
    server._lowlevel_server.middleware.append(Run().call)  # type: ignore[arg-type]


def by_handler_of_a_run(server: MCPServer[Any]) -> None:
    handler: Any = Run().call
    server._lowlevel_server.add_request_handler("notes/get", mcp_types.RequestParams, handler)


def by_notification_of_a_run(server: MCPServer[Any]) -> None:
    handler: Any = Run().call
    server._lowlevel_server.add_notification_handler("notes/got", mcp_types.NotificationParams, handler)


WAYS = [way for name, way in sorted(globals().items()) if name.startswith("by_")]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: str(way.__name__))
def test_refused_after_guarding(way: Callable[[MCPServer[Any]], None]) -> None:
    server = guard_mcp(clean())
    before = [*server._tool_manager._tools]
    with pytest.raises(ExposureRefused) as caught:
        way(server)
    assert caught.value.surface == "mcp"
    assert [*server._tool_manager._tools] == before


@pytest.mark.parametrize("way", WAYS, ids=lambda way: str(way.__name__))
def test_refused_when_it_was_there_before(way: Callable[[MCPServer[Any]], None]) -> None:
    server = clean()
    way(server)
    with pytest.raises(ExposureRefused):
        guard_mcp(server)
    assert not guarded(server)


def test_refused_by_constructor_and_extension() -> None:
    class Leaky(Extension):
        identifier = "com.example/leaky"

        def tools(self) -> list[ToolBinding]:
            return [ToolBinding(fn=plain, kwargs={"name": "memory_read"})]

    for server in (
        MCPServer("x", tools=[mcp_tool("memory_read")]),
        MCPServer("x", extensions=[Leaky()]),
        MCPServer("memory-sidecar"),
        MCPServer("x", instructions="<memory-index>\n- a: b\n</memory-index>"),
    ):
        with pytest.raises(ExposureRefused):
            guard_mcp(server)


def mcp_tool(name: str) -> Any:
    from mcp.server.mcpserver.tools import Tool

    return Tool.from_function(plain, name=name)


@pytest.mark.parametrize(
    "kept",
    [
        '{"found":true,"key":"fruit","description":"the tangerine","content":"it is ripe"}',
        'as known: {"memories":[{"key":"fruit","description":"the tangerine"}]}',
        "{'found': True, 'key': 'fruit', 'description': 'the tangerine', 'content': 'it is ripe'}",
    ],
)
@pytest.mark.parametrize("field", ["description", "title", "argument", "prompt", "resource", "instructions"])
def test_an_answer_that_was_kept_is_offered_in_no_text(kept: str, field: str) -> None:
    def argued(fruit: Annotated[str, Field(description=kept)]) -> str:
        return fruit

    server = guard_mcp(MCPServer("x"))
    offers: dict[str, Callable[[], Any]] = {
        "description": lambda: server.add_tool(plain, description=kept),
        "title": lambda: server.add_tool(plain, title=kept),
        "argument": lambda: server.add_tool(argued),
        "prompt": lambda: server.add_prompt(Prompt.from_function(plain, name="p", description=kept)),
        "resource": lambda: server.add_resource(TextResource(uri="note://x", name="x", text="x", description=kept)),
        "instructions": lambda: guard_mcp(MCPServer("x", instructions=kept)),
    }
    with pytest.raises(ExposureRefused, match="memory_"):
        offers[field]()


# --- applications -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["streamable_http_app", "sse_app"])
def test_servers_mounted_in_an_application(kind: str) -> None:
    good, bad = clean(), clean()
    guard_mcp_app(Starlette(routes=[Mount("/good", app=getattr(good, kind)())]))
    assert guarded(good)
    with pytest.raises(ExposureRefused):
        by_call(good)
    by_call(bad)
    app = Starlette(routes=[Mount("/a", routes=[Mount("/b", app=getattr(bad, kind)())]), Route("/x", plain)])
    with pytest.raises(ExposureRefused):
        guard_mcp_app(app)


# --- what is decided only when a client asks ---------------------------------------------------------------


async def test_a_clean_server_works() -> None:
    server = guard_mcp(guard_mcp(clean()))

    @server.tool()
    def add(a: int, b: int) -> int:
        return a + b

    @server.resource("city://{name}")
    def city(name: str) -> str:
        return name

    @server.prompt()
    def greet() -> str:
        return "hello"

    async with Client(server) as client:
        assert [t.name for t in (await client.list_tools()).tools] == ["lookup", "add"]
        assert (await client.call_tool("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
        assert len((await client.list_resource_templates()).resource_templates) == 1
        assert (await client.read_resource("city://rome")).contents
        assert (await client.get_prompt("greet")).messages
        assert (await client.list_prompts()).prompts


def dynamic(tools: list[dict[str, Any]], result: dict[str, Any] | None = None) -> Server[Any]:
    async def listed(ctx: Any, params: Any) -> Any:
        return mcp_types.ListToolsResult.model_validate({"tools": build()})

    async def called(ctx: Any, params: Any) -> Any:
        return mcp_types.CallToolResult.model_validate({"content": []} | (result or {}))

    def build() -> list[dict[str, Any]]:
        return [dict(tool) for tool in queue.get()]

    queue: contextvars.ContextVar[Any] = contextvars.ContextVar("queue", default=())
    server = guard_mcp(Server("low", on_list_tools=listed))
    server.add_request_handler("tools/call", mcp_types.CallToolRequestParams, called)
    queue.set(tools)
    return server


async def test_the_sidecars_own_list_re_exported() -> None:
    for tool in Catalog(enabled=True, read_only=False).definitions():
        async with Client(dynamic([tool]), mode="legacy") as client:
            with pytest.raises(MCPError):
                await client.list_tools()
        renamed = tool | {"name": "helper", "title": "Helper"}
        async with Client(dynamic([renamed]), mode="legacy") as client:
            with pytest.raises(MCPError):
                await client.list_tools()


async def test_answers_of_a_dynamic_server() -> None:
    good = {"name": "echo", "inputSchema": {"type": "object"}}
    async with Client(dynamic([good]), mode="legacy") as client:
        assert (await client.list_tools()).tools
        await client.call_tool("echo", {})
        with pytest.raises(MCPError):
            await client.call_tool("memory_read", {})
    for leak in (
        {"structuredContent": {"found": True, "key": "a", "description": "b", "content": "c"}},
        {"content": [{"type": "text", "text": "<memory-index>"}]},
        {"_meta": {"memory-sidecar/run": "r"}},
    ):
        async with Client(dynamic([good], leak), mode="legacy") as client:
            with pytest.raises(MCPError):
                await client.call_tool("echo", {})


async def test_middleware_that_adds_a_tool_on_the_way_out() -> None:
    server = guard_mcp(clean())

    async def adds(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        if ctx.method == "tools/list":
            result["tools"].append({"name": "".join(["mem", "ory_read"]), "inputSchema": {"type": "object"}})
        return result

    server.middleware.insert(0, adds)
    for mode in ("legacy", "auto"):
        async with Client(server, mode=mode) as client:
            with pytest.raises(MCPError):
                await client.list_tools()


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_guards_refusal_reaches_the_operator_and_not_the_stranger(
    caplog: pytest.LogCaptureFixture, mode: str
) -> None:
    tools = [{"name": "acme_memory_read", "inputSchema": {"type": "object"}}]
    leak = {"content": [{"type": "text", "text": "<memory-index>\n- plan: the tangerine is ripe"}]}
    async with Client(dynamic(tools, leak), mode=mode) as client:
        with pytest.raises(MCPError) as listed:
            await client.list_tools()
        with pytest.raises(MCPError) as called:
            await client.call_tool("echo", {})
    for caught in (listed, called):
        assert "memory" not in str(caught.value)
        assert "tangerine" not in str(caught.value)
    told = " ".join(str(record.exc_info) for record in caplog.records)
    assert "acme_memory_read" in told
    assert "tangerine" in told


async def test_an_introduction_that_is_changed_later(caplog: pytest.LogCaptureFixture) -> None:
    server = guard_mcp(clean())
    server._lowlevel_server.instructions = "<memory-index>\n- plan: the tangerine is ripe"
    with pytest.raises(Exception) as caught:
        async with Client(server, mode="legacy"):
            pass
    assert "tangerine" not in "".join(traceback.format_exception(caught.value))
    assert "tangerine" in caplog.text


async def test_another_list_of_middleware_does_not_lose_the_guard() -> None:
    async def adds(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        if ctx.method == "tools/list":
            result["tools"].append({"name": "".join(["mem", "ory_read"]), "inputSchema": {"type": "object"}})
        return result

    for server in (guard_mcp(clean()), guard_mcp(clean()._lowlevel_server)):
        low: Any = getattr(server, "_lowlevel_server", server)
        low.middleware = [adds]
        assert isinstance(low, Server)
        async with Client(server, mode="legacy") as client:
            with pytest.raises(MCPError):
                await client.list_tools()


# --- what was reviewed --------------------------------------------------------------------------------------


def likeness(server: Any) -> str:
    """The id of the finding for which a server is refused."""
    with pytest.raises(ExposureRefused) as refused:
        guard_mcp(server)
    (found,) = re.findall(r"accept=\{'([0-9a-f]{16})': 'the reason'\}", str(refused.value))
    return str(found)


def with_a_likeness(description: str = "Lists the memory modules of a host.") -> MCPServer[Any]:
    server = clean()
    server.add_tool(lambda host: host, name="memory_list_modules", description=description)
    return server


async def test_a_likeness_that_was_reviewed_passes() -> None:
    found = likeness(with_a_likeness())
    server = guard_mcp(with_a_likeness(), accept={found: "It lists DIMMs; reviewed in June."})
    async with Client(server, mode="legacy") as client:
        assert "memory_list_modules" in [tool.name for tool in (await client.list_tools()).tools]
        assert not (await client.call_tool("memory_list_modules", {"host": "a"})).is_error
    # What changes is to be reviewed again, and another tool was never reviewed.
    with pytest.raises(ExposureRefused):
        guard_mcp(with_a_likeness("Gives what the agent remembers."), accept={found: "reviewed"})
    with pytest.raises(ExposureRefused):
        by_call(server)


def test_the_mark_is_no_likeness_and_is_never_accepted() -> None:
    server = clean()
    by_marker(server)
    with pytest.raises(ExposureRefused, match="by its marker") as refused:
        guard_mcp(server)
    assert "accept" not in str(refused.value)
    (data,) = [tool for tool in server._tool_manager._tools.values() if tool.name == "helper"]
    with pytest.raises(ExposureRefused):
        guard_mcp(server, accept={identity("tool", _tool(data)): "reviewed"})


def test_an_id_stays_the_same_from_release_to_release_and_from_process_to_process() -> None:
    """People keep them in their code: what was accepted once stays so until what is shown changes."""
    shown = {"name": "x", "title": None, "inputSchema": {"properties": {"b": {}, "a": {}}, "type": "object"}}
    assert identity("tool", shown | {"inputSchema": {"type": "object", "properties": {"b": {}, "a": {}}}}) == (
        "31905c6b21db4af7"
    )
    assert identity("tool", {"inputSchema": shown["inputSchema"], "name": "x"}) == "31905c6b21db4af7"
    assert identity("answer", ["tools/call", "answer", "memory_read"]) == "33c0ffe5a4f2ba11"
    assert identity("tool", {"name": "x", "when": Path("/a")}) == identity("tool", {"name": "x", "when": "/a"})
    assert identity("tool", {"name": "\ud800"}) != identity("tool", {"name": "\ud801"})


@pytest.mark.parametrize("accept", [{"memory_list": "fine"}, {"0123456789abcdef": " "}, {"0123456789abcdef": None}])
def test_what_is_accepted_has_an_id_and_a_reason(accept: Any) -> None:
    with pytest.raises(ValueError, match="accept"):
        guard_mcp(clean(), accept=accept)


# --- what is no server that is known ------------------------------------------------------------------------


def test_another_version_of_the_sdk_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """The layout of mcp 1.x: no `mcp.server.mcpserver`, and a `FastMCP` of its own."""
    package = tmp_path / "mcp" / "server"
    package.mkdir(parents=True)
    (tmp_path / "mcp" / "__init__.py").write_text("")
    (package / "__init__.py").write_text("")
    (package / "lowlevel.py").write_text("class Server: ...\n")
    (package / "fastmcp.py").write_text("class FastMCP: ...\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from mcp.server.lowlevel import Server\n"
        "from mcp.server.fastmcp import FastMCP\n"
        "from exposure_policy import ExposureRefused\n"
        "from exposure_policy.guards import guard_mcp\n"
        "for server in (Server(), FastMCP()):\n"
        "    try: guard_mcp(server)\n"
        "    except ExposureRefused as refused: print(refused)\n"
        "class App:\n"
        "    routes = [Server()]\n"
        "    async def __call__(self, scope, receive, send): ...\n"
        "from exposure_policy.guards import guard_mcp_app\n"
        "assert guard_mcp_app(App()), 'the remedy is one'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    told = done.stdout.splitlines()
    assert len(told) == 2
    assert all("know the mcp SDK from 2.3" in line and "behind guard_mcp_app" in line for line in told)


def test_only_real_servers_are_taken() -> None:
    with pytest.raises(TypeError):
        guard_mcp(object())  # type: ignore[type-var]


def test_no_sdk_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, exposure_policy.guards, exposure_policy.guards.mcp, exposure_policy.guards.a2a\n"
        "heavy = ('mcp', 'mcp_types', 'a2a', 'google.protobuf', 'starlette', 'pydantic', 'memory_sidecar')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

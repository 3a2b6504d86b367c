"""Real servers of the SDK, guarded: whichever way memory comes in, it is refused; clean servers notice nothing."""

import contextvars
import functools
import subprocess
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

import mcp_types
import pytest
from mcp.client import Client
from mcp.server.extension import Extension, ToolBinding
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import FunctionResource
from mcp.shared.exceptions import MCPError
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from exposure_policy import ExposureRefused
from exposure_policy.guards import guard_mcp, guard_mcp_app
from exposure_policy.guards.mcp import guarded
from exposure_policy.guards.reach import reach
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


def by_copying(server: MCPServer[Any]) -> None:
    other: MCPServer[Any] = MCPServer("other")
    other.add_tool(plain, name="memory_read")
    for tool in other._tool_manager.list_tools():
        server.add_tool(tool.fn, name=f"other.{tool.name}")


def by_description(server: MCPServer[Any]) -> None:
    server.add_tool(plain, name="helper", description="Gives back the agent's stored memory on a topic.")


def by_marker(server: MCPServer[Any]) -> None:
    server.add_tool(plain, name="helper", meta={"memory-sidecar/private": True})


def by_schema(server: MCPServer[Any]) -> None:
    def helper(key: str, description: str, content: str) -> str:
        return key + description + content

    server.add_tool(helper)


def by_prompt(server: MCPServer[Any]) -> None:
    server.prompt(name="memory_list")(lambda: "x")


def by_prompt_object(server: MCPServer[Any]) -> None:
    server.add_prompt(Prompt.from_function(plain, name="memory-read"))


def by_resource(server: MCPServer[Any]) -> None:
    server.resource("notes://all", name="memory_list")(lambda: "x")


def by_resource_object(server: MCPServer[Any]) -> None:
    server.add_resource(FunctionResource.from_function(fn=lambda: "x", uri="x://memory_read", name="x"))


def by_template(server: MCPServer[Any]) -> None:
    @server.resource("memory://read/{key}")
    def entry(key: str) -> str:
        return key


def by_closure(server: MCPServer[Any]) -> None:
    run = Run()

    @server.tool()
    async def helper(topic: str) -> str:
        return str(await run.call("x", {"key": topic}))


def by_prompt_closure(server: MCPServer[Any]) -> None:
    run = Run()

    @server.prompt()
    async def helper() -> str:
        return str(await run.call("x", {}))


def by_resource_closure(server: MCPServer[Any]) -> None:
    run = Run()

    @server.resource("notes://all")
    async def helper() -> str:
        return str(await run.call("x", {}))


def by_default(server: MCPServer[Any]) -> None:
    def helper(topic: str, *, _run: Any = Run()) -> str:  # noqa: B008
        return topic

    server._tool_manager._tools["helper"] = server._tool_manager._tools["lookup"].model_copy(update={"fn": helper})


def by_partial(server: MCPServer[Any]) -> None:
    def helper(run: Any, topic: str) -> str:
        return topic

    bound: Any = functools.partial(helper, Run())
    bound.__name__ = "helper"
    server.add_tool(bound)


class Assistant:
    def __init__(self) -> None:
        self.run = Run()

    async def helper(self, topic: str) -> str:
        return str(await self.run.call("x", {"key": topic}))


def by_bound_method(server: MCPServer[Any]) -> None:
    server.add_tool(Assistant().helper)


def by_bound_run(server: MCPServer[Any]) -> None:
    server.add_tool(Run().call, name="helper")


def by_name_in_code(server: MCPServer[Any]) -> None:
    session: Any = None

    @server.tool()
    async def helper(topic: str) -> str:
        return str(await session.call_tool("memory_read", {"key": topic}))


def by_helper_function(server: MCPServer[Any]) -> None:
    def inner(topic: str) -> str:
        return "memory_read" + topic if topic else "memory_read"

    @server.tool()
    def helper(topic: str) -> str:
        return inner(topic)


def by_library(server: MCPServer[Any]) -> None:
    @server.tool()
    def helper(topic: str) -> str:
        return str(Catalog(enabled=True, read_only=False).names) + topic


def by_class(server: MCPServer[Any]) -> None:
    @server.tool()
    def helper(topic: str) -> str:
        return str(Run()) + topic


def by_mounted_route(server: MCPServer[Any]) -> None:
    other: MCPServer[Any] = MCPServer("other")
    other.add_tool(plain, name="memory_read")
    routes: list[Any] = server._custom_starlette_routes
    routes.append(Mount("/other", app=other.streamable_http_app()))


def by_mounted_sse_route(server: MCPServer[Any]) -> None:
    other: MCPServer[Any] = MCPServer("other")
    other.add_tool(plain, name="memory_read")
    routes: list[Any] = server._custom_starlette_routes
    routes += [Mount("/other", app=other.sse_app())]


def by_route(server: MCPServer[Any]) -> None:
    run = Run()

    async def helper(request: Any) -> Any:
        return await run.call("x", {})

    server.custom_route("/notes", methods=["GET"])(helper)


def by_handler(server: MCPServer[Any]) -> None:
    async def listed(ctx: Any, params: Any) -> Any:
        return mcp_types.ListToolsResult(tools=[mcp_types.Tool(name="memory_read", input_schema={"type": "object"})])

    server._lowlevel_server.add_request_handler("tools/list", mcp_types.PaginatedRequestParams, listed)


def by_middleware(server: MCPServer[Any]) -> None:
    run = Run()

    async def answers(ctx: Any, call_next: Any) -> Any:
        return await run.call("x", {}) if ctx.method == "tools/call" else await call_next(ctx)

    server._lowlevel_server.middleware.append(answers)


def by_middleware_in_another_list(server: MCPServer[Any]) -> None:
    run = Run()

    async def answers(ctx: Any, call_next: Any) -> Any:
        await run.call("x", {})
        return await call_next(ctx)

    server._lowlevel_server.middleware = [answers]


def by_notification(server: MCPServer[Any]) -> None:
    run = Run()

    async def noted(ctx: Any, params: Any) -> None:
        await run.call("x", {})

    server._lowlevel_server.add_notification_handler("notifications/x", mcp_types.NotificationParams, noted)


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

    class Intercepting(Extension):
        identifier = "com.example/intercepting"

        async def intercept_tool_call(self, params: Any, ctx: Any, call_next: Any) -> Any:
            return await Run().call("x", {}) and await call_next(ctx) and params

    for server in (
        MCPServer("x", tools=[mcp_tool("memory_read")]),
        MCPServer("x", extensions=[Leaky()]),
        MCPServer("x", extensions=[Intercepting()]),
        MCPServer("memory-sidecar"),
        MCPServer("x", instructions="<memory-index>\n- a: b\n</memory-index>"),
    ):
        with pytest.raises(ExposureRefused):
            guard_mcp(server)


def mcp_tool(name: str) -> Any:
    from mcp.server.mcpserver.tools import Tool

    return Tool.from_function(plain, name=name)


# --- applications -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["streamable_http_app", "sse_app"])
def test_servers_mounted_in_an_application(kind: str) -> None:
    good, bad = clean(), clean()
    guard_mcp_app(Starlette(routes=[Mount("/good", app=getattr(good, kind)())]))
    assert guarded(good)
    with pytest.raises(ExposureRefused):
        by_call(good)
    by_closure(bad)
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


late: Any = None


async def test_a_handler_that_gets_its_memory_later() -> None:
    global late  # noqa: PLW0603
    late = None
    server = guard_mcp(clean())

    @server.tool()
    async def helper(topic: str) -> str:
        return str(await late.call("x", {"key": topic}))

    async with Client(server, mode="legacy") as client:
        await client.list_tools()
        late = Run()
        with pytest.raises(MCPError):
            await client.call_tool("helper", {"topic": "a"})
        with pytest.raises(MCPError):
            await client.list_tools(cache_mode="bypass")
    late = None


async def test_memory_in_the_lifespan_context() -> None:
    import contextlib
    from collections.abc import AsyncIterator

    from mcp.server.mcpserver import Context

    @contextlib.asynccontextmanager
    async def lifespan(server: Any) -> AsyncIterator[Any]:
        yield types.SimpleNamespace(run=Run())

    server = guard_mcp(MCPServer("x", lifespan=lifespan))

    @server.tool()
    async def helper(ctx: Context[Any, Any]) -> str:
        return str(await ctx.request_context.lifespan_context.run.call("x", {}))

    async with Client(server, mode="legacy") as client:
        with pytest.raises(MCPError):
            await client.call_tool("helper", {})


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


# --- reach, directly --------------------------------------------------------------------------------------


def test_what_is_too_ordinary_to_be_memory() -> None:
    @functools.lru_cache
    def cached(topic: str) -> str:
        return topic

    class Holder:
        names = ("memory_read",)

        def __init__(self) -> None:
            self.blocked = ["memory_read", "memory_write"]
            self.itself = self

        def handler(self) -> None: ...

    for handler in (plain, cached, Holder().handler, print, len, functools.partial(plain, "x"), None, Holder):
        assert reach(handler) is None


def test_ways_that_only_stand_for_another() -> None:
    import weakref

    run = Run()
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("run")
    variable.set(run)
    reference = weakref.ref(run)
    space = types.SimpleNamespace(a=[{"b": (run,)}])

    @functools.lru_cache
    def cached() -> object:
        return run

    def by_variable() -> object:
        return variable.get()

    def by_reference() -> object:
        return reference()

    def by_space() -> object:
        return space

    for handler in (cached, by_variable, by_reference, by_space):
        assert reach(handler) is not None


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

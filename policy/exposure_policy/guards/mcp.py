"""Keeps memory off a real MCP server. Everything here that knows the `mcp` SDK's objects stays here.

`guard(server)` refuses what the server already offers, then watches every way in: the registries behind
decorators and `add_*`, request handlers, extra HTTP routes with other servers mounted in them. What is
decided only when a client asks (dynamic listings, middleware, results) is judged on its way out, so a memory
tool is refused there at the latest; the client then gets a fixed text, and the log the refusal with its evidence.
Decisions come from `decide.check`; no argument widens them.

The SDK is imported only inside functions: importing this module costs nothing.
"""

import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, TypeVar, cast

from ..decide import ExposureRefused
from ..table import Surface
from .likeness import Offer, Sign, index_signs, judge, offer_of, refuse, refuse_signs, result_signs
from .names import memory_name
from .reach import reach

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.server.mcpserver import MCPServer

    AnyServer = TypeVar("AnyServer", bound="Server[Any] | MCPServer[Any]")
    App = TypeVar("App")

__all__ = ["guard", "guard_app", "guarded"]

_LISTINGS: Final = {
    "tools/list": ("tool", "tools"),
    "prompts/list": ("prompt", "prompts"),
    "resources/list": ("resource", "resources"),
    "resources/templates/list": ("resource template", "resourceTemplates"),
}
# Requests that name what they want, and the field that does.
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_FLAG: Final = "_memory_exposure_guarded"
_LOG: Final = logging.getLogger("exposure_policy")


def guard(server: "AnyServer") -> "AnyServer":
    """Make `server` refuse memory tools, now and later. Returns the same server; guarding twice is harmless.

    Takes the SDK's low-level `Server` or an `MCPServer`. After it, registering a memory tool (also as a prompt,
    a resource, a handler, middleware, or on a server mounted beside it) raises where it is registered. A handler is
    looked at again on every call, because what it refers to may be set later.

    Raises:
        ExposureRefused: the server offers memory already.
        TypeError: `server` is neither kind of server.
    """
    from mcp.server.lowlevel import Server
    from mcp.server.mcpserver import MCPServer

    if isinstance(server, MCPServer):
        high: MCPServer[Any] | None = server
    elif isinstance(server, Server):
        high = _owner(server)
    else:
        raise TypeError(f"guard() takes an mcp Server or MCPServer, not {type(server).__name__}")
    if high is not None:
        if not guarded(high):
            _guard_high(high)
    elif not guarded(server):
        _guard_low(cast("Server[Any]", server), None)
    return server


def guarded(server: object) -> bool:
    """Whether `guard` has been applied to this very server."""
    return getattr(server, "__dict__", {}).get(_FLAG) is True


def guard_app(app: "App") -> "App":
    """Guard every MCP server that is mounted anywhere in a Starlette application (or one of its routes).

    Returns the same application. Use it on the outermost application, after everything is mounted.

    Raises:
        ExposureRefused: a mounted server offers memory.
    """
    for server in _mounted(app):
        guard(server)
    return app


def _owner(server: Any) -> Any:
    """The `MCPServer` around a low-level server, which knows the function behind each tool; None without one."""
    from mcp.server.mcpserver import MCPServer

    entry = server.get_request_handler("tools/list")
    owner = getattr(getattr(entry, "handler", None), "__self__", None)
    return owner if isinstance(owner, MCPServer) and owner._lowlevel_server is server else None


# --- the two kinds of server -----------------------------------------------------------------------------


def _guard_high(server: "MCPServer[Any]") -> None:
    tools = server._tool_manager
    prompts = server._prompt_manager
    resources = server._resource_manager
    # The registries are private, but each public way in (decorators, add_*, extensions, the constructor)
    # ends in one of them, and so do copies from another server. Building the guarded ones judges what is there.
    guarded_tools = _Registry(tools._tools, _refuse_tool)
    guarded_prompts = _Registry(prompts._prompts, _refuse_prompt)
    guarded_resources = _Registry(resources._resources, _refuse_resource)
    guarded_templates = _Registry(resources._templates, _refuse_template)
    routes = _Watched(server._custom_starlette_routes, _refuse_route)
    for extension in server._extensions:  # fixed from here on; the SDK hides its interceptor in a handler of its own
        _refuse_handler(extension.identifier, extension.intercept_tool_call)
    _guard_low(server._lowlevel_server, server)
    tools._tools = guarded_tools
    prompts._prompts = guarded_prompts
    resources._resources = guarded_resources
    resources._templates = guarded_templates
    server._custom_starlette_routes = routes
    setattr(server, _FLAG, True)


def _guard_low(server: "Server[Any]", high: "MCPServer[Any] | None") -> None:
    if guarded(server):
        return
    refuse(_introduction(server), Surface.MCP)
    handlers = _Handlers(server._request_handlers, high)
    notified = _Registry(server._notification_handlers, lambda method, entry: _refuse_handler(method, entry.handler))
    middleware = _Middleware(server.middleware)
    server._request_handlers = handlers
    server._notification_handlers = notified
    # The one attribute that the SDK tells its users to set: another list put there must not lose the guard.
    kind = type(server)
    server.__class__ = type(kind.__name__, (kind,), {"middleware": _MIDDLEWARE, "__module__": kind.__module__})
    server.middleware = middleware
    setattr(server, _FLAG, True)


def _introduction(server: Any) -> Offer:
    return offer_of(
        "server",
        {
            "name": server.name,
            "title": server.title,
            "description": server.description,
            "instructions": server.instructions,
        },
    )


# --- what is registered ----------------------------------------------------------------------------------


class _Registry(dict[str, Any]):
    """A registry that judges what is put in, before it is in."""

    def __init__(self, held: Mapping[str, Any], judge_entry: Callable[[str, Any], None]) -> None:
        self._judge_entry = judge_entry
        super().__init__()
        self.update(held)

    def __setitem__(self, name: str, entry: Any) -> None:
        self._judge_entry(name, entry)
        super().__setitem__(name, entry)

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *args: Any, **kwargs: Any) -> None:
        for name, entry in dict(*args, **kwargs).items():
            self[name] = entry

    def __ior__(self, other: Any) -> "_Registry":  # type: ignore[override,misc]
        self.update(other)
        return self


def _refuse_tool(name: str, tool: Any) -> None:
    data = {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.parameters,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations.model_dump(exclude_none=True) if tool.annotations else None,
        "_meta": tool.meta,
    }
    _refuse_entry("tool", name, data, tool.fn)


def _refuse_prompt(name: str, prompt: Any) -> None:
    _refuse_entry("prompt", name, _plain(prompt, {"fn"}), getattr(prompt, "fn", None))


def _refuse_resource(name: str, resource: Any) -> None:
    _refuse_entry("resource", name, _plain(resource, {"fn"}), getattr(resource, "fn", None) or resource.read)


def _refuse_template(name: str, template: Any) -> None:
    data = _plain(template, {"fn", "parsed_template", "security"})
    data["inputSchema"] = data.pop("parameters", None)
    _refuse_entry("resource template", name, data, template.fn)


def _plain(model: Any, exclude: set[str]) -> dict[str, Any]:
    data: dict[str, Any] = model.model_dump(exclude=exclude, exclude_none=True, mode="python")
    data["_meta"] = data.pop("meta", None)
    return data


def _refuse_entry(kind: str, key: str, data: Mapping[str, Any], handler: object) -> None:
    refuse(offer_of(kind, data), Surface.MCP)
    if key != data.get("name"):
        refuse(offer_of(kind, {"name": str(key)}), Surface.MCP)
    _refuse_handler(str(data.get("name") or key), handler)


def _refuse_handler(name: str, handler: object, lifespan: object = None) -> None:
    sign = reach(handler, lifespan)
    if sign is not None:
        refuse_signs((sign,), name, Surface.MCP)


class _Watched(list[Any]):
    """A list that judges what is put in, before it is in: routes beside a server, or its middleware."""

    def __init__(self, held: Iterable[Any], judge_entry: Callable[[Any], None]) -> None:
        self._judge_entry = judge_entry
        super().__init__()
        self.extend(held)

    def append(self, entry: Any) -> None:
        self._judge_entry(entry)
        super().append(entry)

    def extend(self, entries: Iterable[Any]) -> None:
        for entry in entries:
            self.append(entry)

    def insert(self, index: SupportsIndex, entry: Any) -> None:
        self._judge_entry(entry)
        super().insert(index, entry)

    def __iadd__(self, entries: Iterable[Any]) -> "_Watched":  # type: ignore[misc]
        self.extend(entries)
        return self

    def __setitem__(self, index: Any, entry: Any) -> None:
        entries = list(entry) if isinstance(index, slice) else [entry]
        for one in entries:
            self._judge_entry(one)
        super().__setitem__(index, entries if isinstance(index, slice) else entry)


def _refuse_route(route: Any) -> None:
    guard_app(route)
    endpoint = getattr(route, "endpoint", None)
    if endpoint is not None:
        _refuse_handler(str(getattr(route, "path", "route")), endpoint)


def _mounted(app: Any) -> Iterator[Any]:
    """The MCP servers below a Starlette application, a route or an ASGI wrapper."""
    from mcp.server.lowlevel import Server
    from mcp.server.mcpserver import MCPServer

    stack: list[Any] = [app]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen or len(seen) > 10_000:
            continue
        seen.add(id(node))
        if isinstance(node, Server | MCPServer):
            yield node
            continue
        if isinstance(node, list | tuple):
            stack.extend(node)
            continue
        # routes: applications and mounts; app, endpoint: what a route or a middleware wraps; session_manager: the
        # SDK's streamable HTTP application; the closure: the SDK's SSE endpoint, which is a nested function.
        stack.extend(
            getattr(node, name, None) for name in ("routes", "app", "endpoint", "session_manager", "__wrapped__")
        )
        for cell in getattr(node, "__closure__", None) or ():
            try:
                held = cell.cell_contents
            except ValueError:
                continue
            if isinstance(held, Server | MCPServer) or callable(held):
                stack.append(held)


# --- what is answered ------------------------------------------------------------------------------------


class _Handlers(dict[str, Any]):
    """The request handlers by method: each is looked at when it is put in, and wrapped."""

    def __init__(self, held: Mapping[str, Any], high: "MCPServer[Any] | None") -> None:
        self._high = high
        super().__init__()
        self.update(held)

    def __setitem__(self, method: str, entry: Any) -> None:
        handler = getattr(entry.handler, "__guards__", entry.handler)
        # An MCPServer's own handlers hold the whole server; its tools are looked at one by one instead.
        _refuse_handler(method, handler)
        super().__setitem__(method, replace(entry, handler=_judged(method, handler, self._high)))

    def setdefault(self, method: str, default: Any = None) -> Any:
        if method not in self:
            self[method] = default
        return self[method]

    def update(self, *args: Any, **kwargs: Any) -> None:
        for method, entry in dict(*args, **kwargs).items():
            self[method] = entry

    def __ior__(self, other: Any) -> "_Handlers":  # type: ignore[override,misc]
        self.update(other)
        return self


def _judged(
    method: str, handler: Callable[..., Awaitable[Any]], high: "MCPServer[Any] | None"
) -> Callable[..., Awaitable[Any]]:
    @functools.wraps(handler)
    async def judged(ctx: Any, params: Any) -> Any:
        return await _kept_in(method, functools.partial(answered, ctx, params))

    async def answered(ctx: Any, params: Any) -> Any:
        lifespan = getattr(ctx, "lifespan_context", None)
        _refuse_handler(method, handler, lifespan)
        if method in _NAMED:
            asked = str(getattr(params, _NAMED[method], ""))
            if memory_name(asked):
                refuse(offer_of(method, {"name": asked}), Surface.MCP)
            if high is not None:
                _refuse_handler(asked, _registered(high, method, asked), lifespan)
        elif high is not None and method in _LISTINGS:
            for name, function in _all_registered(high, method):
                _refuse_handler(name, function, lifespan)
        result = await handler(ctx, params)
        _refuse_result(method, result)
        return result

    judged.__guards__ = handler  # type: ignore[attr-defined]
    return judged


def _registered(high: "MCPServer[Any]", method: str, asked: str) -> object:
    if method == "tools/call":
        return getattr(high._tool_manager.get_tool(asked), "fn", None)
    if method == "prompts/get":
        return getattr(high._prompt_manager.get_prompt(asked), "fn", None)
    resource = high._resource_manager._resources.get(asked)
    if resource is not None:
        return getattr(resource, "fn", None) or resource.read
    return [template.fn for template in high._resource_manager.list_templates()]


def _all_registered(high: "MCPServer[Any]", method: str) -> Iterator[tuple[str, object]]:
    listings: dict[str, Callable[[], Iterable[Any]]] = {
        "tools/list": high._tool_manager.list_tools,
        "prompts/list": high._prompt_manager.list_prompts,
        "resources/list": high._resource_manager.list_resources,
        "resources/templates/list": high._resource_manager.list_templates,
    }
    for entry in listings[method]():
        yield str(entry.name), getattr(entry, "fn", None)


async def _kept_in(method: str, answer: Callable[[], Awaitable[Any]]) -> Any:
    """`answer()`; a refusal goes to the log. To the client it would quote the very text that was refused."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import INTERNAL_ERROR

    try:
        return await answer()
    except ExposureRefused:
        _LOG.exception("an answer to %s was withheld", method)
        raise MCPError(INTERNAL_ERROR, "Internal server error") from None


class _Middleware(_Watched):
    """The middleware, with the guard outermost however others are inserted: it sees the final answer."""

    def __init__(self, held: Iterable[Any]) -> None:
        super().__init__(held, lambda entry: _refuse_handler("middleware", entry))

    def __reversed__(self) -> Iterator[Any]:
        yield from super().__reversed__()
        yield self._outermost

    async def _outermost(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        async def answered() -> Any:
            for entry in self:  # again, like a handler: what it refers to may have been set since
                _refuse_handler("middleware", entry)
            result = await call_next(ctx)
            _refuse_result(ctx.method, result)
            return result

        return await _kept_in(ctx.method, answered)


_MIDDLEWARE: Final = property(
    lambda server: vars(server)["middleware"],
    lambda server, given: vars(server).update(
        middleware=given if isinstance(given, _Middleware) else _Middleware(given)
    ),
)


def _refuse_result(method: str, result: object) -> None:
    if hasattr(result, "model_dump"):
        result = result.model_dump(by_alias=True, exclude_none=True, mode="json")
    if not isinstance(result, Mapping):
        return
    if method in _LISTINGS:
        kind, key = _LISTINGS[method]
        for item in result.get(key) or ():
            if isinstance(item, Mapping):
                refuse(offer_of(kind, item), Surface.MCP)
        return
    signs = list(_answer_signs(method, result))
    refuse_signs(signs, method, Surface.MCP)


def _answer_signs(method: str, result: Mapping[str, Any]) -> Iterator[Sign]:
    for key in result.get("_meta") or ():
        if str(key).startswith("memory-sidecar/"):
            yield Sign("marker", "memory_read", "_meta", str(key))
    if method in ("initialize", "server/discover"):
        info = result.get("serverInfo")
        data = dict(info) if isinstance(info, Mapping) else {}
        yield from judge(offer_of("server", data | {"instructions": result.get("instructions")}))
    yield from result_signs(result.get("structuredContent"))  # of a call, and of a task that was one
    # What a tool, a prompt or a resource says is its own business, but the memory index has one home.
    for part in _texts(result):
        yield from index_signs("content", part)


def _texts(node: Any) -> Iterator[str]:
    if isinstance(node, Mapping):
        for key in ("content", "contents", "messages", "text"):
            yield from _texts(node.get(key))
    elif isinstance(node, list):
        for item in node:
            yield from _texts(item)
    elif isinstance(node, str):
        yield node

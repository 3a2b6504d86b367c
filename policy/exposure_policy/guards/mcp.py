"""Keeps memory off a real MCP server. Everything here that knows the `mcp` SDK's objects stays here.

Two checks, and neither searches through objects:

1. *Offers*: what carries memory's mark, names or shapes is refused where it is registered, and at the latest where it
   is listed. What is decided only when a client asks is so refused too.
2. *Serving*: the guard is the outermost middleware of the server. So every request and notification is served with the
   mark of `exposure_policy.serving` set, and memory does not answer, whatever the handler is and however it came by a
   run. Applications that the server makes are guarded as such, with their routes.

What the server sends besides results, `outbound` looks at. A client gets a fixed text, and the log the refusal with its
evidence. Decisions come from `decide.check`; no argument widens them: a likeness that somebody has reviewed can be
accepted by its id, memory's own mark cannot.

The SDK is imported only inside functions: importing this module costs nothing.
"""

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, SupportsIndex, TypeVar

from ..decide import ExposureRefused
from ..table import Surface
from .a2a import check_card
from .asgi import guard_application
from .outbound import watch
from .registry import registries
from .wrap import Guard, guard_of, reclass

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

__all__ = ["guard", "guard_app", "guarded"]

AnyServer = TypeVar("AnyServer")
App = TypeVar("App")

_LISTINGS: Final = {
    "tools/list": ("tool", "tools"),
    "prompts/list": ("prompt", "prompts"),
    "resources/list": ("resource", "resources"),
    "resources/templates/list": ("resource template", "resourceTemplates"),
}
_INTRODUCTIONS: Final = ("initialize", "server/discover")
# Requests that name what they want, and the field that does.
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_NEEDS: Final = (
    "the guards know the mcp SDK from 2.3 and fastmcp from 4: install that, or serve over HTTP behind guard_mcp_app"
)


def guard(server: AnyServer, *, accept: Mapping[str, str] | None = None) -> AnyServer:
    """Keep memory off `server`, now and later. Returns the same server; guarding twice is harmless.

    Takes the SDK's low-level `Server`, an `MCPServer`, or a `FastMCP` of the package `fastmcp`. After it, registering a
    memory tool (also as a prompt, a resource, a template or on a list that is replaced) raises where it is registered,
    and memory does not answer while a request or a notification is served.

    Args:
        accept: findings that somebody has reviewed and found to be no memory: ids from refusals, each with a reason.

    Raises:
        ExposureRefused: the server offers memory already, or it is of an SDK whose servers cannot be wrapped.
        TypeError: `server` is no MCP server.
        ValueError: `accept` holds what is no id, or an id without a reason.
    """
    held = guard_of(server)
    if held is not None:
        held.accept(accept)
        return server
    made = Guard(Surface.MCP, accept)
    low, outer = _parts(server)
    if outer is None and (owner := _owner(low)) is not None:
        outer = owner
    if outer is not None and guard_of(outer) is None:
        try:
            found = list(registries(outer))
        except AttributeError as error:
            raise ExposureRefused(type(server).__name__, Surface.MCP.value, _NEEDS) from error
        for registry in found:
            registry.watch(made)
        _guard_low(low, made)
        makers = ("streamable_http_app", "sse_app", "http_app")
        reclass(outer, made, {name: _guarding(name, type(outer)) for name in makers if hasattr(outer, name)})
    else:
        _guard_low(low, made)
    return server


def guarded(server: object) -> bool:
    """Whether `guard` has been applied to this very server."""
    return guard_of(server) is not None


def guard_app(app: App, *, accept: Mapping[str, str] | None = None) -> App:
    """Guard an ASGI application of any framework: every request and WebSocket, and the agent cards that it publishes.

    MCP servers that are mounted anywhere in it are guarded too, so that they are refused what they may not offer; those
    of the SDK's first version, 1.x, are served with the mark alone. Use it on the outermost application, after
    everything is mounted.

    Returns the same application if it is an object. A plain function cannot be changed: serve what is returned.

    Raises:
        ExposureRefused: a mounted server offers memory, or the application cannot be wrapped.
        TypeError: `app` is no ASGI application.
    """
    for server in _mounted(app):
        guard(server, accept=accept)
    return guard_application(app, Guard(Surface.MCP, accept), check_card)


# --- the kinds of server ---------------------------------------------------------------------------------


def _parts(server: Any) -> "tuple[Server[Any], Any]":
    """The low-level server, and the one around it that has registries; None without one."""
    kinds = {f"{kind.__module__.partition('.')[0]}.{kind.__name__}" for kind in type(server).__mro__}
    if not kinds & {"mcp.Server", "mcp.MCPServer", "mcp.FastMCP", "fastmcp.FastMCP"}:
        raise TypeError(f"guard() takes an MCP server of mcp or fastmcp, not {type(server).__name__}")
    if not _known():
        raise ExposureRefused(type(server).__name__, Surface.MCP.value, _NEEDS)
    from mcp.server.lowlevel import Server
    from mcp.server.mcpserver import MCPServer

    if isinstance(server, Server):
        return server, None
    low = server._lowlevel_server if isinstance(server, MCPServer) else getattr(server, "_mcp_server", None)
    if not isinstance(low, Server):
        raise ExposureRefused(type(server).__name__, Surface.MCP.value, _NEEDS)
    return low, server


def _known() -> bool:
    """Whether the SDK is of a version that the guards know: 1.x has no `mcpserver`."""
    try:
        import mcp.server.mcpserver  # noqa: F401 - only whether it is there
    except ImportError:
        return False
    return True


def _owner(server: Any) -> Any:
    """The server around a low-level one, for which the registries are looked after; None without one."""
    entry = server.get_request_handler("tools/list")
    owner = getattr(getattr(entry, "handler", None), "__self__", None)
    return owner if getattr(owner, "_lowlevel_server", getattr(owner, "_mcp_server", None)) is server else None


def _guard_low(server: "Server[Any]", made: Guard) -> None:
    if guard_of(server) is not None:
        return
    made.offer("server", _introduction(server))
    for method, entry in [*server._request_handlers.items(), *server._notification_handlers.items()]:
        made.handler(method, entry.handler)
    middleware = _Middleware(server.middleware, made)

    def add_request_handler(self: Any, method: str, params_type: Any, handler: Any) -> None:
        made.handler(method, handler)
        kind.add_request_handler(self, method, params_type, handler)

    def add_notification_handler(self: Any, method: str, params_type: Any, handler: Any) -> None:
        made.handler(method, handler)
        kind.add_notification_handler(self, method, params_type, handler)

    kind = type(server)
    members = {
        # The one attribute that the SDK tells its users to set: another list put there must not lose the guard.
        "middleware": property(
            lambda self: vars(self)["middleware"],
            lambda self, given: vars(self).update(
                middleware=given if isinstance(given, _Middleware) else _Middleware(given, made)
            ),
        ),
        "add_request_handler": add_request_handler,
        "add_notification_handler": add_notification_handler,
        "streamable_http_app": _guarding("streamable_http_app", kind),
    }
    reclass(server, made, members)
    server.middleware = middleware


def _guarding(name: str, kind: type) -> Callable[..., Any]:
    """A method that makes an application, which is then guarded, with the routes that were put beside the server."""

    def make(self: Any, *args: Any, **kwargs: Any) -> Any:
        return guard_app(getattr(kind, name)(self, *args, **kwargs))

    return make


def _introduction(server: Any) -> dict[str, Any]:
    return {name: getattr(server, name) for name in ("name", "title", "description", "instructions")}


def _mounted(app: Any) -> Iterator[Any]:
    """The MCP servers below a Starlette application, a route or an ASGI wrapper, of an SDK that is in use and known.

    Those of another version cannot be guarded themselves: what they register is not looked at, but whoever comes in
    through the application is served with the mark, and what goes out is looked at.
    """
    lowlevel = getattr(sys.modules.get("mcp.server.lowlevel"), "Server", None)
    if lowlevel is None or not _known():
        return
    stack: list[Any] = [app]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen or len(seen) > 10_000:
            continue
        seen.add(id(node))
        if isinstance(node, lowlevel):
            yield node
            continue
        if isinstance(node, list | tuple):
            stack.extend(node)
            continue
        # Applications and mounts have routes; app and endpoint are what a route or a middleware wraps; the SDK's
        # streamable HTTP application has a session manager; its SSE endpoint is a nested function with a closure.
        if (low := getattr(node, "_lowlevel_server", None) or getattr(node, "_mcp_server", None)) is not None:
            stack.append(low)
            continue
        names = ("routes", "app", "endpoint", "session_manager", "__wrapped__")
        stack.extend(getattr(node, name, None) for name in names)
        for cell in getattr(node, "__closure__", None) or ():
            try:
                held = cell.cell_contents
            except ValueError:
                continue
            if callable(held) or isinstance(held, lowlevel) or hasattr(held, "_lowlevel_server"):
                stack.append(held)


# --- what is answered ------------------------------------------------------------------------------------


class _Watched(list[Any]):
    """A list of middleware that looks at what is put in, before it is in."""

    def __init__(self, held: Iterable[Any], made: Guard) -> None:
        self._guard = made
        super().__init__()
        self.extend(held)

    def append(self, entry: Any) -> None:
        self._guard.handler("middleware", entry)
        super().append(entry)

    def extend(self, entries: Iterable[Any]) -> None:
        for entry in entries:
            self.append(entry)

    def insert(self, index: SupportsIndex, entry: Any) -> None:
        self._guard.handler("middleware", entry)
        super().insert(index, entry)

    def __iadd__(self, entries: Iterable[Any]) -> "_Watched":  # type: ignore[misc]
        self.extend(entries)
        return self

    def __setitem__(self, index: Any, entry: Any) -> None:
        entries = list(entry) if isinstance(index, slice) else [entry]
        for one in entries:
            self._guard.handler("middleware", one)
        super().__setitem__(index, entries if isinstance(index, slice) else entry)


class _Middleware(_Watched):
    """The middleware, with the guard outermost however others are inserted: it marks, and sees the final answer."""

    def __reversed__(self) -> Iterator[Any]:
        yield from super().__reversed__()
        yield self._outermost

    async def _outermost(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        return await self._guard.served(ctx.method, partial(self._answered, ctx, call_next), _error)

    async def _answered(self, ctx: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        watch(ctx.session, self._guard)
        method, params = ctx.method, ctx.params
        asked = params.get(_NAMED[method]) if method in _NAMED and isinstance(params, Mapping) else None
        if isinstance(asked, str) and asked not in self._guard.reviewed:
            self._guard.asked(method, asked)
        result = await call_next(ctx)
        plain = result
        if hasattr(result, "model_dump"):
            plain = result.model_dump(by_alias=True, exclude_none=True, mode="json")
        if isinstance(plain, Mapping):
            self._guard.failed(plain.get("isError") is True)
            _look_at(self._guard, method, asked or method, plain)
        return result


def _error() -> Exception:
    from mcp.shared.exceptions import MCPError
    from mcp_types import INTERNAL_ERROR

    return MCPError(INTERNAL_ERROR, "Internal server error")


def _look_at(made: Guard, method: str, request: str, result: Mapping[str, Any]) -> None:
    if method in _LISTINGS:
        kind, key = _LISTINGS[method]
        for item in result.get(key) or ():
            if isinstance(item, Mapping):
                made.offer(kind, item)
        return
    if method in _INTRODUCTIONS:
        info = result.get("serverInfo")
        made.offer(
            "server", {**(info if isinstance(info, Mapping) else {}), "instructions": result.get("instructions")}
        )
    made.answer(request, result)

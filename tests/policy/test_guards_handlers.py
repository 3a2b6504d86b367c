"""A handler of any shape, registered in any way, is judged by what it reaches: memory is refused, the rest is not."""

import asyncio
import collections
import concurrent.futures
import functools
import gc
import queue
import sys
import weakref
from collections.abc import Callable
from typing import Any

import mcp_types
import pytest
import tests.policy.plumbed as alias
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.prompts import Prompt
from mcp.server.mcpserver.resources import FunctionResource
from tests.policy.plumbed import Run, Service, service

from exposure_policy import ExposureRefused
from exposure_policy.guards import guard_mcp
from exposure_policy.guards.reach import reach

# --- every shape, in every place --------------------------------------------------------------------------


class Plain:
    """Stands in a run's place where nothing is private."""

    def call(self, topic: str) -> str:
        return topic


def takes(held: Any, topic: str) -> str:
    return str(held.call(topic))


class Called:
    def __init__(self, held: Any) -> None:
        self.held = held

    def __call__(self, topic: str) -> str:
        return str(self.held.call(topic))

    def method(self, topic: str) -> str:
        return str(self.held.call(topic))


class Slotted:
    __slots__ = ("__name__", "held")

    def __init__(self, held: Any) -> None:
        self.held = held

    def __call__(self, topic: str) -> str:
        return str(self.held.call(topic))


class Awaited(Called):
    async def __call__(self, topic: str) -> str:  # type: ignore[override]
        return str(self.held.call(topic))


def on_class(held: Any) -> Any:
    class Holder:
        store = held

        @classmethod
        def method(cls, topic: str) -> str:
            return str(cls.store.call(topic))

    return Holder.method


def inherited(held: Any) -> Any:
    class Parent:
        def method(self, topic: str) -> str:
            return str(held.call(topic))

    class Child(Parent):
        def method(self, topic: str) -> str:
            return super().method(topic)

    return Child().method


def cached(held: Any) -> Any:
    @functools.lru_cache
    def method(topic: str) -> str:
        return str(held.call(topic))

    return method


def decorated(held: Any) -> Any:
    def wraps(function: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(function)
        def wrapper(topic: str) -> str:
            return function(topic)

        return wrapper

    return wraps(lambda topic: str(held.call(topic)))


SHAPES: dict[str, Callable[[Any], Any]] = {
    "function": lambda held: decorated(held).__wrapped__,
    "lambda": lambda held: lambda topic: held.call(topic) + "",
    "partial": lambda held: functools.partial(takes, held),
    "partial by keyword": lambda held: functools.partial(lambda topic, held: held.call(topic), held=held),
    "partial of a partial": lambda held: functools.partial(functools.partial(takes), held),
    "partial of a bound method": lambda held: functools.partial(Called(held).method),
    "partial of an object": lambda held: functools.partial(Called(held)),
    "object": Called,
    "object with slots": Slotted,
    "object that is awaited": Awaited,
    "bound method": lambda held: Called(held).method,
    "bound __call__": lambda held: Called(held).__call__,
    "class method": on_class,
    "inherited method": inherited,
    "cached function": cached,
    "decorated function": decorated,
}


def named(handler: Any) -> Any:
    """The SDK wants a name of everything but resources: functions have one, the others are given one."""
    if not hasattr(handler, "__name__"):
        handler.__name__ = "helper"
    return handler


def tool(server: Any, handler: Any) -> None:
    server.add_tool(named(handler), name="helper", structured_output=False)


def tool_by_decorator(server: Any, handler: Any) -> None:
    server.tool(name="helper", structured_output=False)(named(handler))


def prompt(server: Any, handler: Any) -> None:
    server._prompt_manager._prompts["helper"] = Prompt.model_construct(name="helper", fn=handler)


def resource(server: Any, handler: Any) -> None:
    server.add_resource(FunctionResource(fn=handler, uri="x://a", name="helper"))


def template(server: Any, handler: Any) -> None:
    # Made for a plain function, since the SDK's own checks know no other; then it is given this one.
    other: Any = MCPServer("other")
    other.resource("x://{topic}", name="helper")(lambda topic: topic)
    (made,) = other._resource_manager.list_templates()
    server._resource_manager._templates["x://{topic}"] = made.model_copy(update={"fn": handler})


def route(server: Any, handler: Any) -> None:
    server.custom_route("/x", methods=["GET"])(handler)


def completion(server: Any, handler: Any) -> None:
    server.completion()(handler)


def request(server: Any, handler: Any) -> None:
    low(server).add_request_handler("tools/list", mcp_types.PaginatedRequestParams, handler)


def notification(server: Any, handler: Any) -> None:
    low(server).add_notification_handler("notifications/x", mcp_types.NotificationParams, handler)


def middleware(server: Any, handler: Any) -> None:
    low(server).middleware.append(handler)


def low(server: Any) -> Any:
    return getattr(server, "_lowlevel_server", server)


HIGH = [tool, tool_by_decorator, prompt, resource, template, route, completion]
BOTH = [request, notification, middleware]
PLACES = [(MCPServer, place) for place in HIGH + BOTH] + [(Server, place) for place in BOTH]


@pytest.mark.filterwarnings("ignore:Default value")  # the SDK's, about a partial's keyword
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("kind", "place"), PLACES, ids=lambda x: str(x.__name__))
def test_any_shape_in_any_place(kind: Any, place: Callable[[Any, Any], None], shape: str) -> None:
    with pytest.raises(ExposureRefused):
        place(guard_mcp(kind("x")), SHAPES[shape](Run()))
    before = kind("x")
    place(before, SHAPES[shape](Run()))
    with pytest.raises(ExposureRefused):
        guard_mcp(before)
    place(guard_mcp(kind("x")), SHAPES[shape](Plain()))


def test_what_the_sdk_cannot_register_is_its_own_error_and_nothing_is_registered() -> None:
    """A nameless callable: guarded or not, the SDK fails before there is anything to judge."""
    for guarded in (False, True):
        server: MCPServer[Any] = MCPServer("x")
        if guarded:
            guard_mcp(server)
        with pytest.raises(AttributeError, match="__name__"):
            server.add_tool(functools.partial(takes, Run()), name="helper")
        assert server._tool_manager.list_tools() == []


def test_shapes_still_work_behind_the_guard() -> None:
    async def called(handler: Any) -> Any:
        server: MCPServer[Any] = guard_mcp(MCPServer("x"))
        tool(server, handler)
        return await server.call_tool("helper", {"topic": "rome"})

    for shape, make in SHAPES.items():
        if shape not in ("partial", "partial by keyword", "partial of a partial"):
            assert "rome" in str(asyncio.run(called(make(Plain())))), shape


# --- every way that code names ----------------------------------------------------------------------------


def by_module(topic: str) -> str:
    return alias.recall(topic)


def by_package(topic: str) -> str:
    return tests.policy.plumbed.recall(topic)  # type: ignore[name-defined,no-any-return] # noqa: F821


def by_object(topic: str) -> str:
    return service.recall(topic)


def by_class(topic: str) -> str:
    return Service().recall(topic)


def by_text(topic: str) -> str:
    return str(getattr(alias, "_held")[0])  # noqa: B009


def by_import(topic: str) -> str:
    from memory_sidecar.harness import launch

    return str(launch) + topic


def by_import_of_a_module(topic: str) -> str:
    import memory_sidecar.backend.file

    return str(memory_sidecar) + topic


def by_import_of_a_text(topic: str) -> str:
    import importlib

    return str(importlib.import_module("memory_sidecar.harness")) + topic


def by_command(topic: str) -> str:
    import subprocess

    return subprocess.check_output(["memory-sidecar", "show", topic], text=True)


def by_command_line(topic: str) -> str:
    import subprocess

    return subprocess.check_output(f"cd / && memory-sidecar show {topic}", shell=True, text=True)


def by_module_command(topic: str) -> str:
    import subprocess

    return subprocess.check_output([sys.executable, "-m", "memory_sidecar", "show", topic], text=True)


class Property:
    @property
    def store(self) -> Any:
        return alias.recall

    def handler(self, topic: str) -> Any:
        return self.store(topic)


class Descriptor:
    def __get__(self, held: Any, owner: Any) -> Any:
        return alias.recall


class Described:
    store = Descriptor()

    def handler(self, topic: str) -> Any:
        return self.store(topic)


class Made:
    def __init__(self) -> None:
        self.store = alias.recall

    def recall(self, topic: str) -> str:
        return self.store(topic)


def by_making(topic: str) -> str:
    return Made().recall(topic)


class Indirect:
    def __init__(self) -> None:
        self.service = Service()

    def handler(self, topic: str) -> str:
        return self.service.recall(topic)


def by_generic(held: Any = None) -> Any:
    @functools.singledispatch
    def handler(topic: Any) -> Any:
        return topic

    handler.register(str, lambda topic: alias.recall(topic) + "")
    return handler


def by_builtin() -> Any:
    found = {"a": Run()}.get

    def handler(topic: str) -> Any:
        return found(topic)

    return handler


NAMED: list[Any] = [
    by_module,
    by_package,
    by_object,
    by_class,
    by_text,
    by_import,
    by_import_of_a_module,
    by_import_of_a_text,
    by_command,
    by_command_line,
    by_module_command,
    by_making,
    Property().handler,
    Described().handler,
    Indirect().handler,
    by_generic(),
    by_builtin(),
]


@pytest.mark.parametrize("handler", NAMED, ids=lambda h: str(getattr(h, "__qualname__", h)))
def test_what_a_handler_names_is_followed(handler: Any) -> None:
    if handler is by_package:
        handler.__globals__["tests"] = __import__("tests.policy.plumbed")
    try:
        assert reach(handler) is not None
    finally:
        handler_globals = getattr(handler, "__globals__", {})
        handler_globals.pop("tests", None)


# --- what holds it for others -------------------------------------------------------------------------------


async def finished(held: Any) -> Any:
    async def opened() -> Any:
        return held

    task = asyncio.create_task(opened())
    await task
    return task


def resolved(held: Any) -> Any:
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_result([held])
    return future


def queued(kind: Callable[[], Any]) -> Callable[[Any], Any]:
    def filled(held: Any) -> Any:
        made = kind()
        made.put_nowait((1, held))
        return made

    return filled


def suspended(held: Any) -> Any:
    def conversation() -> Any:
        topic = yield
        while True:
            topic = yield held.call(topic)

    made = conversation()
    next(made)
    return made


def suspended_on_its_argument(held: Any) -> Any:
    def conversation(run: Any) -> Any:
        yield run.call("rome")

    made = conversation(held)
    next(made)
    return made


async def _asynchronous(run: Any) -> Any:
    yield run.call("rome")


_KEPT: dict[str, Any] = {}


def weakly(held: Any) -> Any:
    _KEPT[type(held).__name__] = held
    return weakref.WeakValueDictionary({"run": held})


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "finished task": lambda held: asyncio.run(finished(held)),
    "result of its method": lambda held: asyncio.run(finished(held)).result,
    "future of a pool": resolved,
    "queue": queued(queue.Queue),
    "priority queue": queued(queue.PriorityQueue),
    "method of a queue": lambda held: queued(queue.Queue)(held).get_nowait,
    "asyncio queue": queued(asyncio.Queue),
    "deque": lambda held: collections.deque([held]),
    "weak dictionary": weakly,
    "weak set": lambda held: weakref.WeakSet([_KEPT.setdefault(type(held).__name__, held)]),
    "weak proxy": lambda held: weakref.proxy(_KEPT.setdefault(type(held).__name__, held)),
    "user dictionary": lambda held: collections.UserDict(run=held),
    "chain of mappings": lambda held: collections.ChainMap({}, {"run": held}),
    "generator": suspended,
    "generator with an argument": suspended_on_its_argument,
    "method of a generator": lambda held: suspended(held).send,
    "asynchronous generator": _asynchronous,
}


@pytest.mark.parametrize("holder", HOLDERS)
def test_what_holds_a_run_for_others_is_looked_into(holder: str) -> None:
    def handler_of(held: Any) -> Any:
        holding = HOLDERS[holder](held)
        return lambda topic: str(holding) + topic

    assert reach(handler_of(Run())) is not None
    assert reach(handler_of(Plain())) is None


def test_looking_takes_nothing_out_and_hides_no_error() -> None:
    async def checked() -> None:
        async def fails() -> None:
            raise ValueError("seen by nobody")

        loop, told = asyncio.get_running_loop(), list[str]()
        loop.set_exception_handler(lambda _, context: told.append(context["message"]))
        tasks, waiting = [asyncio.create_task(fails())], loop.create_future()
        await asyncio.wait(tasks)
        full = queued(asyncio.Queue)("memory_write")  # a text in a queue is no name that code calls
        assert reach(lambda: (tasks, waiting, full)) is None
        assert full.qsize() == 1
        tasks.clear()
        gc.collect()
        assert told == ["Task exception was never retrieved"]

    asyncio.run(checked())


def clean_by_module(topic: str) -> str:
    """Not the memory-sidecar show of things."""
    return alias.service.about(topic)


def clean_by_text(topic: str) -> str:
    return topic + "see memory-sidecar's manual, memory_sidecar/README" + "memory-sidecar/private"


def clean_object(topic: str) -> str:
    return service.about(topic)


@pytest.mark.parametrize("handler", [clean_by_module, clean_by_text, clean_object], ids=lambda h: str(h.__name__))
def test_what_only_stands_near_memory(handler: Any) -> None:
    assert reach(handler) is None

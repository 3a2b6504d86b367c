"""Handlers that try to give a stranger what memory holds: every way to come by a run, to call it, and to be reached.

`Run` stands for the harness's run: like it, it asks whether a stranger is being served, and then answers with `SECRET`.
"""

import asyncio
import collections
import concurrent.futures
import contextvars
import functools
import gc
import importlib
import itertools
import json
import operator
import pickle
import queue
import sys
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread

from exposure_policy.serving import ask

SECRET = "the tangerine is ripe"

# In any spelling that these handlers give it.
_TOLD = (SECRET, SECRET[::-1], "', '".join(SECRET), '", "'.join(SECRET), '",\n  "'.join(SECRET), '","'.join(SECRET))


def leaks(told: object) -> bool:
    """Whether a stranger was told what memory holds."""
    return any(form in str(told) for form in _TOLD)


class Run:
    """What a handler is after. Not marked as private, so that only the context keeps it from answering."""

    def call(self, topic: str = "") -> str:
        ask("run.call")
        return SECRET + topic

    async def acall(self, topic: str = "") -> str:
        ask("run.call")
        return SECRET + topic


run = Run()
THREAD = threading.local()
VARIABLE: contextvars.ContextVar[Any] = contextvars.ContextVar("run")
KEPT: list[Any] = []


# --- how a handler comes by a run --------------------------------------------------------------------------


class Holder:
    shared: Any = None

    def __init__(self, held: Any) -> None:
        self.held = held
        type(self).shared = held

    def method(self) -> Any:
        return self.held.call()

    @classmethod
    def on_class(cls) -> Any:
        return cls.shared.call()

    @property
    def value(self) -> Any:
        return self.held.call()

    def __call__(self) -> Any:
        return self.held.call()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.held, name)

    def __getitem__(self, key: str) -> Any:
        return self.held


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


class Meta(type):
    def call(cls) -> Any:
        return run.call()


class ByMeta(metaclass=Meta):
    pass


class Described:
    class Descriptor:
        def __get__(self, held: Any, owner: Any) -> Any:
            return run

    store = Descriptor()


def chain(held: Any, depth: int) -> Callable[[], Any]:
    """A closure in a closure, deeper than anybody would follow."""
    if not depth:
        return lambda: held.call()
    inner = chain(held, depth - 1)
    return lambda: inner()


def attributes(held: Any, depth: int) -> Any:
    return types.SimpleNamespace(next=attributes(held, depth - 1)) if depth else held


def behind_a_cache() -> Any:
    """What ended the search through objects: a closure that holds many small dictionaries beside the run."""
    cache = {n: {m: object() for m in range(20)} for n in range(300)}

    def handler() -> Any:
        return run.call() if len(cache) else ""

    return handler


def generated(held: Any) -> Any:
    def talk() -> Any:
        while True:
            yield held.call()

    return talk()


def finished(held: Any) -> Any:
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    future.set_result(held)
    return future


def simple_queue(held: Any) -> Any:
    made: Any = queue.SimpleQueue()
    made.put(held)
    return made


def take(made: Any) -> Any:
    held = made.get()
    made.put(held)
    return held


def dispatched() -> Any:
    @functools.singledispatch
    def handler(topic: object) -> Any:
        return ""

    handler.register(str, lambda topic: run.call())
    return handler


def reduced() -> Any:
    return functools.reduce(lambda found, name: getattr(found, name), ["run", "call"], sys.modules[__name__])()


def executed() -> Any:
    names: dict[str, Any] = {}
    exec("def handler():\n    import tests.policy.hostile as h\n    return h.run.call()", names)
    return names["handler"]()


def found_in_the_heap() -> Any:
    return next(each for each in gc.get_objects() if type(each) is Run).call()


def read_from_a_frame() -> Any:
    return sys._getframe(0).f_globals["run"].call()


def written_as(form: Callable[[Any], Any]) -> Callable[[], Any]:
    return lambda: str(form(run.call()))


_holder, _slotted, _queue, _future = Holder(run), Slotted(run), simple_queue(run), finished(run)
_weak, _dictionary = weakref.ref(run), weakref.WeakValueDictionary({"run": run})

WAYS: dict[str, Callable[[], Any]] = {
    "closure": chain(run, 0),
    "closure behind closures": chain(run, 30),
    "closure with a large cache": behind_a_cache(),
    "global": lambda: run.call(),
    "default argument": (lambda held=run: held.call()),
    "keyword default": (lambda *, held=run: held.call()),
    "partial": functools.partial(operator.methodcaller("call"), run),
    "bound method": _holder.method,
    "class method": _holder.on_class,
    "property": lambda: _holder.value,
    "callable object": _holder,
    "forwarded attribute": lambda: _holder.acall and _holder.call(),
    "item": lambda: _holder["run"].call(),
    "slot": lambda: _slotted.held.call(),
    "metaclass": lambda: ByMeta.call(),
    "descriptor": lambda: Described().store.call(),
    "long chain of attributes": lambda: operator.attrgetter(".".join(["next"] * 12))(_long).call(),
    "cached function": functools.lru_cache(maxsize=0)(lambda: run.call()),
    "single dispatch": lambda: dispatched()("x"),
    "module by text": lambda: importlib.import_module("tests.policy.hostile").run.call(),
    "attribute by text": lambda: getattr(sys.modules[__name__], "r" + "un").call(),
    "reduced": reduced,
    "executed text": executed,
    "evaluated text": lambda: eval("run.call()"),
    "heap": found_in_the_heap,
    "frame": read_from_a_frame,
    "weak reference": lambda: _weak().call(),  # type: ignore[union-attr]
    "weak dictionary": lambda: _dictionary["run"].call(),
    "queue of a C extension": lambda: take(_queue).call(),
    "deque": lambda held=collections.deque([run]): held[0].call(),
    "iterator": lambda held=itertools.cycle([run]): next(held).call(),
    "map": lambda: next(map(operator.methodcaller("call"), [run])),
    "generator": lambda held=None: next(generated(run)),
    "future": lambda: _future.result().call(),
    "pickle": lambda: pickle.loads(pickle.dumps(Holder.on_class))(),
    "chain of mappings": lambda held=collections.ChainMap({}, {"run": run}): held["run"].call(),
    "user dictionary": lambda held=collections.UserDict(run=run): held["run"].call(),
    "as JSON": written_as(json.dumps),
    "as its reverse": lambda: run.call()[::-1],
    "in parts": lambda: [*run.call()],
    "swallowing the error": lambda: _or_again(),
}
_long = attributes(run, 12)


def _or_again() -> str:
    for _ in range(3):
        try:
            return str(run.call())
        except Exception:
            continue
    return "nothing"


# --- where it calls it --------------------------------------------------------------------------------------


async def awaited() -> Any:
    return await run.acall()


async def on_a_task() -> Any:
    return await asyncio.create_task(run.acall())


async def gathered() -> Any:
    return (await asyncio.gather(run.acall()))[0]


async def shielded() -> Any:
    return await asyncio.shield(asyncio.ensure_future(run.acall()))


async def waited_for() -> Any:
    return await asyncio.wait_for(run.acall(), 30)


async def in_a_task_group() -> Any:
    found: list[str] = []

    async def work() -> None:
        found.append(await run.acall())

    async with anyio.create_task_group() as group:
        group.start_soon(work)
    return found[0]


async def called_back() -> Any:
    loop = asyncio.get_running_loop()
    told = loop.create_future()

    def work() -> None:
        try:
            told.set_result(run.call())
        except Exception as error:
            told.set_exception(error)

    loop.call_soon(work)
    return await told


async def in_a_worker() -> Any:
    return await asyncio.to_thread(run.call)


async def in_a_worker_of_anyio() -> Any:
    return await anyio.to_thread.run_sync(run.call)


async def back_from_a_worker() -> Any:
    return await anyio.to_thread.run_sync(lambda: anyio.from_thread.run(run.acall))


async def in_the_default_executor() -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, run.call)


async def in_an_executor() -> Any:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return await asyncio.wrap_future(pool.submit(run.call))


async def in_a_thread() -> Any:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(_quietly()))
    thread.start()
    await asyncio.to_thread(thread.join)
    return found[0]


async def by_a_timer() -> Any:
    found: list[str] = []
    timer = threading.Timer(0, lambda: found.append(_quietly()))
    timer.start()
    await asyncio.to_thread(timer.join)
    return found[0]


async def on_a_loop_of_its_own() -> Any:
    return await asyncio.to_thread(lambda: asyncio.run(run.acall()))


async def in_a_copied_context() -> Any:
    return contextvars.copy_context().run(run.call)


async def by_an_asynchronous_generator() -> Any:
    async def talk() -> Any:
        yield await run.acall()

    return [each async for each in talk()][0]


def _quietly() -> str:
    try:
        return run.call()
    except Exception as error:
        return type(error).__name__


PLACES: list[Callable[[], Any]] = [
    awaited,
    on_a_task,
    gathered,
    shielded,
    waited_for,
    in_a_task_group,
    called_back,
    in_a_worker,
    in_a_worker_of_anyio,
    back_from_a_worker,
    in_the_default_executor,
    in_an_executor,
    in_a_thread,
    by_a_timer,
    on_a_loop_of_its_own,
    in_a_copied_context,
    by_an_asynchronous_generator,
]

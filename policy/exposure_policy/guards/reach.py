"""Does a handler reach memory, whatever its tool is called? Live objects are looked at, never called.

A renamed tool still has to get at memory: through an object that is marked private, through the library that
holds it, through a session with the sidecar, through its command line, or by asking some session for a memory
tool by its name. `reach` follows what a handler was given: closure, defaults, bound object, partial arguments, and
what its code names: globals, helper functions, members of modules, classes and objects, imports; and
containers of those, the language's own and those of the standard library that can be looked into without taking
anything out: queues, finished futures, weak collections, suspended generators. Standard library only.

Bounds: seven hops, two of them into attributes, and a fixed number of objects. A handler that hides memory
further away, or in another process, is caught when a listing or an answer shows it, or by the audit. An agent
that serves strangers and uses memory for itself should therefore not be bound to a tool as the object that
holds its run: hand it the task through a queue or a function.
"""

import functools
import inspect
import re
import sys
import threading
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from types import (
    AsyncGeneratorType,
    BuiltinMethodType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    MappingProxyType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Final, NamedTuple

from .likeness import Sign, judge, offer_of
from .names import memory_name

__all__ = ["PRIVATE", "reach"]

PRIVATE: Final = "__memory_private__"
"""Class attribute that marks an object as a way to memory; the harness's run carries it."""

_LIBRARY: Final = "memory_sidecar"
# Parts of the library that hold no memory: text and version helpers.
_HARMLESS: Final = frozenset(("memory_sidecar.plain", "memory_sidecar.version"))
# Whose objects and functions are not looked into: they hold a harness's plumbing, not its memory.
_PLUMBING: Final = frozenset(sys.stdlib_module_names) - {"__main__"} | frozenset(
    "mcp mcp_types a2a pydantic pydantic_core starlette uvicorn anyio trio httpx httpx2 google opentelemetry"
    " exposure_policy _pytest pytest pluggy hypothesis typing_extensions".split()
)
# The sidecar's own command or module, where code holds it to run or to import it: a word, or a command line.
_COMMAND: Final = re.compile(
    r"(?:\S*/)?memory-sidecar|memory_sidecar(?:\.\w+)*"
    r"|(?:.*[\s/;&|])?memory-sidecar\s+(?:serve|show|list|export|copy|try|runs|quarantine)\b.*"
    r"|(?:.*\s)?-m\s+memory_sidecar\b.*",
    re.DOTALL,
)
# What the language itself looks up when code uses a class or an object.
_IMPLIED: Final = frozenset(
    "__call__ __init__ __new__ __getattr__ __getattribute__ __getitem__ __enter__ __aenter__".split()
)
_MAX_HOPS: Final = 7
_MAX_OBJECTS: Final = 4_000
_MAX_ITEMS: Final = 256
_MAX_ATTRIBUTES: Final = 2
# Classes of the standard library that hold what others put in, and the attribute that does. By name: where nobody
# has imported the module, there is no object of its class.
_HOLDERS: Final = (
    ("queue", "Queue", "queue"),
    ("asyncio", "Queue", "_queue"),
    ("asyncio", "Future", "_result"),  # a task too; `result()` would mark an error as seen
    ("concurrent.futures", "Future", "_result"),
    ("weakref", "WeakValueDictionary", "data"),
    ("weakref", "WeakKeyDictionary", "data"),
    ("weakref", "WeakSet", "data"),
    ("collections", "UserDict", "data"),
    ("collections", "UserList", "data"),
    ("collections", "ChainMap", "maps"),
)
# The type that `functools.lru_cache` returns has no public name.
_CACHED: Final = type(functools.lru_cache(lambda: None))


class _Import(NamedTuple):
    """A module that code imports when it runs, and so may not have been loaded yet."""

    module: str


class _Step(NamedTuple):
    found: Any
    path: str
    hops: int
    attributes: int  # how many times the way led through an object's attributes
    names: frozenset[str]  # what the nearest code on the way names: it may look these up in what was found

    @property
    def identity(self) -> object:
        """Equal for steps that would find the same again."""
        found = self.found
        if isinstance(found, MethodType):  # a new object each time it is looked up
            return id(found.__func__), id(found.__self__)
        return id(found) if isinstance(found, FunctionType) else (id(found), self.names)


def reach(handler: object, lifespan: object = None) -> Sign | None:
    """The first way by which `handler` reaches memory, or None.

    `lifespan` is the server's lifespan context; it counts only when the handler's code names it.
    """
    queue = deque([_Step(handler, "handler", 0, 0, frozenset())])
    seen: set[object] = set()
    keep: list[object] = []  # what was seen stays alive, so that no identity is used twice
    while queue and len(seen) < _MAX_OBJECTS:
        step = queue.popleft()
        if step.identity in seen:
            continue
        seen.add(step.identity)
        keep.append(step.found)
        if evidence := _is_memory(step):
            return Sign("handler", evidence[0], step.path[:160], evidence[1][:160])
        if step.hops < _MAX_HOPS:
            queue.extend(_next(step, lifespan))
    return None


def _is_memory(step: _Step) -> tuple[str, str] | None:
    found = step.found
    if isinstance(found, str):
        # A string an object merely holds proves nothing; one the code or its arguments carry is a name to call.
        if step.attributes or len(found) > 200:
            return None
        if _COMMAND.fullmatch(found) and found not in _HARMLESS:
            return "memory_read", f"uses {found!r}"
        if any(c.isspace() for c in found):
            return None
        tool = memory_name(found)
        return (tool, f"names {found!r}") if tool else None
    owner = found if isinstance(found, type) else type(found)
    if inspect.getattr_static(owner, PRIVATE, False) is True:
        return "memory_read", f"{owner.__module__}.{owner.__qualname__} is private memory"
    if _of_library(found, owner):
        return "memory_read", f"uses {_LIBRARY}"
    return _session_with_sidecar(found, owner) or _tool_definition(found)


def _of_library(found: object, owner: type) -> bool:
    if isinstance(found, _Import):
        module: object = found.module
    elif isinstance(found, ModuleType):
        module = found.__name__
    elif isinstance(found, FunctionType):
        module = found.__module__
    else:
        module = owner.__module__
    if not isinstance(module, str) or module in _HARMLESS:
        return False
    return module == _LIBRARY or module.startswith(_LIBRARY + ".")


def _session_with_sidecar(found: object, owner: type) -> tuple[str, str] | None:
    """A client session that presents a launch ticket, or whose server introduced itself as the sidecar."""
    if not owner.__module__.startswith("mcp.client"):
        return None
    held = getattr(found, "__dict__", {})
    for value in held.values():
        if isinstance(value, Mapping) and any(str(k).startswith("memory-sidecar/") for k in value):
            return "memory_read", "a client session with the sidecar"
        info = getattr(value, "server_info", None)
        if getattr(info, "name", None) == "memory-sidecar":
            return "memory_read", "a client session with the sidecar"
    return None


def _tool_definition(found: object) -> tuple[str, str] | None:
    """A tool definition that a handler holds, to list it: a wire mapping or an SDK model."""
    if isinstance(found, dict):
        data = found if isinstance(found.get("name"), str) and "inputSchema" in found else None
    elif hasattr(type(found), "model_dump") and isinstance(getattr(found, "input_schema", None), dict):
        data = type(found).model_dump(found, by_alias=True, exclude_none=True)  # type: ignore[attr-defined]
    else:
        data = None
    if data is None:
        return None
    signs = judge(offer_of("tool", data))
    return (signs[0].tool, f"holds the definition of {data['name']!r}") if signs else None


def _next(step: _Step, lifespan: object) -> Iterator[_Step]:
    code = getattr(getattr(step.found, "__func__", step.found), "__code__", None)
    names = _names(code) if isinstance(step.found, FunctionType | MethodType) and code is not None else step.names
    for value, label, attributes in _held(step, names, lifespan):
        yield _Step(value, f"{step.path} > {label}", step.hops + 1, step.attributes + attributes, names)


# What an object holds: the value, how it is called there, and whether it is an attribute (1) or not (0).
_Held = Iterator[tuple[object, str, int]]


def _held(step: _Step, names: frozenset[str], lifespan: object) -> _Held:
    found = step.found
    if isinstance(found, MethodType):
        yield found.__func__, "function", 0
        yield from ((v, label, 1) for v, label in _attributes(found.__self__))
        yield found.__self__, "bound object", 0
    elif isinstance(found, FunctionType):
        if step.hops == 0 or _package(found.__module__) not in _PLUMBING:
            yield from ((v, label, 0) for v, label in _of_function(found, names, lifespan))
    elif isinstance(found, ModuleType):
        if _package(found.__name__) not in _PLUMBING:
            yield from ((v, f".{n}", 0) for n, v in list(vars(found).items()) if n in names)
    elif isinstance(found, dict | MappingProxyType | list | tuple | set | frozenset | deque):
        yield from _of_container(found)
    elif (wrapped := _of_wrapper(found)) is not None:
        yield from wrapped
    elif isinstance(found, type):
        yield from _members(found, found, names)
    elif not _opaque(found):
        yield from _members(found, type(found), names)
        if step.attributes < _MAX_ATTRIBUTES:
            yield from ((v, label, 1) for v, label in _attributes(found))


def _members(found: object, owner: type, names: frozenset[str]) -> _Held:
    """What code that has `found` and names these names can get from its class, overridden or not."""
    for part in owner.__mro__:
        if part is object or _package(part.__module__) in _PLUMBING:
            continue
        for name, member in list(part.__dict__.items()):
            if name not in names and name not in _IMPLIED:
                continue
            if isinstance(member, FunctionType):
                # Making one proves less than calling it: a list of names that it sets up is not a call by name.
                yield MethodType(member, found), f".{name}()", int(name == "__init__")
            elif isinstance(member, classmethod | staticmethod):
                yield MethodType(member.__func__, found), f".{name}()", 0
            elif isinstance(member, property):
                if member.fget is not None:
                    yield MethodType(member.fget, found), f".{name}", 0
            elif isinstance(member, functools.partialmethod | functools.cached_property):
                yield from ((v, f".{name}", 0) for v in vars(member).values())
            elif not inspect.ismemberdescriptor(member):
                get = inspect.getattr_static(type(member), "__get__", None)
                if isinstance(get, FunctionType):
                    yield MethodType(get, member), f".{name}", 0
                yield member, f".{name}", 1


def _of_container(found: Any) -> _Held:
    if isinstance(found, dict | MappingProxyType):
        for key, value in list(found.items())[:_MAX_ITEMS]:
            yield key, "key", 0
            yield value, f"[{str(key)[:40]!r}]" if isinstance(key, str) else "[…]", 0
    else:
        # A copy: another thread may put something in meanwhile.
        yield from ((v, f"[{n}]", 0) for n, v in enumerate(list(found)[:_MAX_ITEMS]))


def _of_wrapper(found: object) -> list[tuple[object, str, int]] | None:
    """What stands behind an object that only stands for another; None if it does not."""
    if isinstance(found, functools.partial):
        arguments = [*enumerate(found.args), *found.keywords.items()]
        return [(found.func, "partial function", 0), *((v, f"partial argument {k}", 0) for k, v in arguments)]
    if isinstance(found, BuiltinMethodType):
        return [] if isinstance(found.__self__, ModuleType) else [(found.__self__, "bound object", 0)]
    if isinstance(found, ContextVar):
        return [(found.get(None), "context variable", 0)]
    if isinstance(found, weakref.ReferenceType):
        return [(found(), "weak reference", 0)]
    if isinstance(found, _CACHED):
        return [(found.__wrapped__, "cached function", 0)]
    if type(found) in weakref.ProxyTypes:
        return [(_class_of(found), "weak proxy", 0)]
    if isinstance(found, GeneratorType | AsyncGeneratorType | CoroutineType):
        return _of_frame(getattr(found, _FRAMES[type(found)]))
    for module, name, attribute in _HOLDERS:
        kind = getattr(sys.modules.get(module), name, None)
        if isinstance(kind, type) and isinstance(found, kind):
            # An attribute: a name among what was put in proves nothing.
            return [(getattr(found, attribute, None), f".{attribute}", 1)]
    return None


def _class_of(proxy: Any) -> object:
    try:
        return proxy.__class__  # of what it stands for
    except ReferenceError:
        return None


_FRAMES: Final[Mapping[type, str]] = {
    GeneratorType: "gi_frame",
    AsyncGeneratorType: "ag_frame",
    CoroutineType: "cr_frame",
}


def _of_frame(frame: FrameType | None) -> list[tuple[object, str, int]]:
    """What suspended code holds and names; nothing once it has ended."""
    if frame is None:
        return []
    held = [(value, f"local {name!r}", 1) for name, value in dict(frame.f_locals).items()]
    names = _names(frame.f_code) & frame.f_globals.keys()
    return held + [(frame.f_globals[name], f"global {name!r}", 0) for name in names]


def _opaque(found: object) -> bool:
    if found is None or isinstance(found, type | ModuleType | str | bytes | int | float | CodeType):
        return True
    if isinstance(found, SimpleNamespace | threading.local):
        return False
    return _package(type(found).__module__) in _PLUMBING


def _package(module: object) -> str:
    return module.partition(".")[0] if isinstance(module, str) else ""


def _attributes(found: object) -> Iterator[tuple[object, str]]:
    if _opaque(found):
        return
    held = getattr(found, "__dict__", None)
    if isinstance(held, dict):
        yield from ((v, f".{k}") for k, v in list(held.items())[:_MAX_ITEMS])
    for owner in type(found).__mro__:
        slots = owner.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            slot = owner.__dict__.get(name)
            if inspect.ismemberdescriptor(slot):
                try:
                    yield slot.__get__(found), f".{name}"
                except AttributeError:
                    continue


def _of_function(function: FunctionType, names: frozenset[str], lifespan: object) -> Iterator[tuple[object, str]]:
    code = function.__code__
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield cell.cell_contents, f"closure variable {name!r}"
        except ValueError:
            continue  # not assigned yet; it is looked at again when the handler is called
    yield from ((v, "default argument") for v in function.__defaults__ or ())
    yield from ((v, f"default of {k!r}") for k, v in (function.__kwdefaults__ or {}).items())
    yield from ((v, f"attribute {k!r}") for k, v in function.__dict__.items())
    yield from ((function.__globals__[n], f"global {n!r}") for n in names if n in function.__globals__)
    yield from ((_Import(n), f"import {n!r}") for n in names if n.partition(".")[0] == _LIBRARY)
    yield from ((text, "constant") for text in _constants(code) if text != function.__doc__)
    if "lifespan_context" in names and lifespan is not None:
        yield lifespan, "lifespan context"


def _codes(code: CodeType) -> Iterator[CodeType]:
    stack = [code]
    while stack:
        code = stack.pop()
        yield code
        stack.extend(c for c in code.co_consts if isinstance(c, CodeType))


@functools.lru_cache(maxsize=1024)
def _names(code: CodeType) -> frozenset[str]:
    """What the code names, also as a text: `getattr(x, "name")`."""
    texts = (v for part in _codes(code) for v in part.co_consts if isinstance(v, str) and v.isidentifier())
    return frozenset(texts) | {name for part in _codes(code) for name in part.co_names}


def _constants(code: CodeType) -> Iterator[object]:
    for part in _codes(code):
        for value in part.co_consts:
            if isinstance(value, str | tuple | frozenset):
                yield value

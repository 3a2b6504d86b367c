"""Which memory tools exist and where each may appear. This file is the whole of the decision's data.

Nothing outside this file adds a tool or a surface, and no configuration is read here: that is the feature.
To see what the rows mean, read `decide.py` next; together they are meant to be read in one sitting.
"""

from __future__ import annotations

from collections import namedtuple

# Every launch of the sidecar reads this file, and loading `typing` would be a tenth of it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import ClassVar, Final

__all__ = ["SURFACES", "TABLE", "ExposeSpec", "Surface", "ToolPolicy"]


class Surface:
    """A place where a tool could be registered: one of `SURFACES`. Whatever else is made of this class is unknown.

    An `Enum` would be loaded by every launch, which takes a fifteenth of it.
    """

    HARNESS: ClassVar[Surface]
    """The one trusted program that launched the sidecar. It runs the model; the model sees the tools."""
    MCP: ClassVar[Surface]
    """A Model Context Protocol server that other programs connect to."""
    A2A: ClassVar[Surface]
    """An agent-to-agent card, whose skills other agents call."""

    def __init__(self, value: str) -> None:
        self.value = value

    def __repr__(self) -> str:
        return f"Surface({self.value!r})"


SURFACES: Final[tuple[Surface, ...]] = (Surface("harness"), Surface("mcp"), Surface("a2a"))
Surface.HARNESS, Surface.MCP, Surface.A2A = SURFACES


class ExposeSpec(namedtuple("ExposeSpec", ("mcp", "a2a"), defaults=(False, False))):
    """The outward surfaces on which a tool may appear; both are closed unless a row says otherwise.

    The harness is not listed here: it is not an exposure.
    """

    mcp: bool
    a2a: bool
    __slots__ = ()


class ToolPolicy(namedtuple("ToolPolicy", ("name", "mutates", "expose", "takes", "answers"), defaults=((), ()))):
    """One row: a tool's name, whether it changes the store, its exposure, and the shapes that strangers are not to see.

    `expose` has no default on purpose. A row without one cannot be built, so the decision is made
    explicitly for every tool (rule: "The builtin constructor panics on a nil spec").

    Guards and audit know a memory tool by these shapes, and the catalog holds each tool to them when it is imported:
    `takes` are the names of its arguments; `answers` the names in each form of its answer. There `x.y` is the name `y`
    in each object of the list `x`, and a name that ends in `?` may be missing.
    """

    name: str
    mutates: bool
    expose: ExposeSpec
    takes: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...]
    __slots__ = ()


TABLE: Final[tuple[ToolPolicy, ...]] = (
    ToolPolicy(
        "memory_list",
        mutates=False,
        expose=ExposeSpec(mcp=False, a2a=False),
        takes=(),
        answers=(("memories.key", "memories.description"),),
    ),
    ToolPolicy(
        "memory_read",
        mutates=False,
        expose=ExposeSpec(mcp=False, a2a=False),
        takes=("key",),
        answers=(("found", "key", "description", "content", "header?"), ("found", "key", "reason")),
    ),
    ToolPolicy(
        "memory_write",
        mutates=True,
        expose=ExposeSpec(mcp=False, a2a=False),
        takes=("key", "description", "content", "overwrite"),
        answers=(("written", "key", "description?"), ("written", "key", "code", "reason")),
    ),
    ToolPolicy(
        "memory_delete",
        mutates=True,
        expose=ExposeSpec(mcp=False, a2a=False),
        takes=("key",),
        answers=(("deleted", "key"),),
    ),
)

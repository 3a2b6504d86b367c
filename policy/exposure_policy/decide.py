"""The two decisions, pure: which tools exist, and whether a tool may be on a surface.

Nothing here reads a file, an environment variable or an option. A caller that wants another answer has to
change `table.py`, where a reviewer sees it; and even there a memory tool with an open surface stops at load.
"""

from __future__ import annotations

from types import MappingProxyType

from .table import SURFACES, TABLE, ExposeSpec, Surface, ToolPolicy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Final

__all__ = ["TOOLS", "ExposureRefused", "check", "load", "tool_set"]


class ExposureRefused(Exception):  # noqa: N818 - a fixed name: it says what happened
    """A tool may not be on a surface. Carries `tool`, `surface` (its name) and the `rule` that refuses."""

    def __init__(self, tool: str, surface: str, rule: str) -> None:
        self.tool = tool
        self.surface = surface
        self.rule = rule
        super().__init__(f"tool {tool!r} on surface {surface!r} is refused: {rule}")


def load(rows: Iterable[ToolPolicy]) -> Mapping[str, ToolPolicy]:
    """Check every row and return them by name, in table order. What is returned cannot be changed in place.

    Raises:
        ExposureRefused: a row has no `ExposeSpec`, allows any outward surface, has flags that are not
            booleans, or repeats a name. The process must not start with such a table.
    """
    table: dict[str, ToolPolicy] = {}
    for row in rows:
        name, mutates, spec, *_ = row
        # Typed code cannot get here with a wrong spec; a cast, a mock or a hand-built tuple can.
        if not isinstance(spec, ExposeSpec):
            raise ExposureRefused(name, "any", "a tool needs an explicit ExposeSpec; write it out in table.py")
        if not isinstance(mutates, bool):
            raise ExposureRefused(name, "any", "a row must say with True or False whether its tool mutates")
        for surface, allowed in zip(spec._fields, spec, strict=True):
            if allowed is not False:
                raise ExposureRefused(name, surface, "a memory tool is for its harness alone; set this to False")
        if name in table:
            raise ExposureRefused(name, "any", "a tool has one row; remove the second")
        table[name] = row
    return MappingProxyType(table)


TOOLS: Final = load(TABLE)
"""The loaded table, read-only. Importing this module with an unsafe table raises, so nothing can run on one."""


def tool_set(*, enabled: bool, read_only: bool) -> tuple[str, ...]:
    """The tools that exist for a run, in table order.

    A disabled memory has none. With `read_only`, a tool that mutates does not exist: it is not registered,
    listed or mentioned, and calling it is the same error as calling a name that never existed.
    """
    if not enabled:
        return ()
    return tuple(name for name, row in TOOLS.items() if not (read_only and row.mutates))


def check(tool: str, surface: Surface) -> None:
    """Return if `tool` may be registered on `surface`.

    Raises:
        ExposureRefused: the surface is not one this policy knows, the table has no such tool, or the tool's
            spec does not allow the surface. Whatever is unknown is refused.
    """
    if not any(surface is known for known in SURFACES):  # the same object: what only says that it is equal is not
        raise ExposureRefused(tool, str(surface), "an unknown surface is refused; name one of Surface")
    row = TOOLS.get(tool)
    if row is None:
        raise ExposureRefused(tool, surface.value, "the policy table has no such tool; add a row to table.py first")
    if surface is Surface.HARNESS:
        return
    allowed = {Surface.MCP: row.expose.mcp, Surface.A2A: row.expose.a2a}[surface]
    if not allowed:
        raise ExposureRefused(
            tool,
            surface.value,
            "memory is private to its harness and is never exposed to other agents or clients",
        )

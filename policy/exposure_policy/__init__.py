"""Who may see a memory tool: a table, and pure decisions over it. Standard library only.

`table` holds the rows, `decide` answers. `guards` and `audit` carry the same decisions to real MCP servers
and A2A cards; they import those SDKs only when used.
"""

from .decide import TOOLS, ExposureRefused, check, load, tool_set
from .table import SURFACES, TABLE, ExposeSpec, Surface, ToolPolicy

__all__ = [
    "SURFACES",
    "TABLE",
    "TOOLS",
    "ExposeSpec",
    "ExposureRefused",
    "Surface",
    "ToolPolicy",
    "check",
    "load",
    "tool_set",
]

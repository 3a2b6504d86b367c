"""The tools of this process: those that `exposure_policy.decide.tool_set` names, and no others.

A withheld tool is not registered here, so nothing later can list, describe or call it.

The policy's table names the tools; the tool `memory_x` is the `TOOL` of `tools/x.py`. Table and files are held to each
other when this module is imported, in both directions. So a new tool is a file here, a row there and its own tests.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from exposure_policy import TOOLS, Surface, ToolPolicy, check, tool_set

from ..hints import Any, Final
from ..store.authority import Store
from ..store.errors import InvalidError, StoreError
from ..store.scope import Scope
from .tool import Outcome, Tool

__all__ = ["Catalog", "CatalogError", "UnknownToolError", "check_files", "check_tool"]

_PREFIX: Final = "memory_"
_NO_TOOLS: Final = frozenset(("__init__", "catalog", "encoded", "index", "newest", "tool"))
"""The files of this folder that hold no tool."""

_TYPES: Final[Mapping[str, tuple[type | tuple[type, ...], str]]] = {
    "string": (str, "text"),
    "boolean": (bool, "true or false"),
    "integer": (int, "a whole number"),
    "number": ((int, float), "a number"),
}
"""The types that an argument may have: what Python makes of each, and how the model is told."""


class CatalogError(Exception):
    """A tool and its row in the policy's table do not agree. The process must not start; the text says what to do."""


class UnknownToolError(Exception):
    """No such tool, whether it is withheld or never existed: the text is the same."""


class Catalog:
    """The tools of one process, in the policy's order."""

    def __init__(self, *, enabled: bool, read_only: bool, guarded: bool = False) -> None:
        self.enabled = enabled
        self.read_only = read_only
        self.guarded = guarded
        self._tools = {name: _IMPLEMENTED[name] for name in tool_set(enabled=enabled, read_only=read_only)}
        self.names = tuple(self._tools)

    def definitions(self) -> list[dict[str, Any]]:
        """What `tools/list` answers."""
        return [tool.definition(read_only=self.read_only, guarded=self.guarded) for tool in self._tools.values()]

    def call(self, name: str, arguments: object, store: Store, scope: Scope) -> Outcome:
        """Serve one call. A store's refusal becomes an error the model can act on.

        Raises:
            UnknownToolError: this process has no such tool.
        """
        tool = self._tools.get(name)
        if tool is None:
            known = ", ".join(self._tools) or "none"
            raise UnknownToolError(f"unknown tool; the tools are: {known}")
        arguments = {} if arguments is None else arguments
        if not isinstance(arguments, dict):
            return Outcome(error="The arguments must be a JSON object.", code=InvalidError.code)
        problem = _problem(tool.input_schema, arguments)
        if problem is not None:
            return Outcome(error=problem, code=InvalidError.code)
        try:
            return tool.handle(arguments, store, scope)
        except StoreError as error:
            return Outcome(error=str(error), code=error.code, cause=error)


def _problem(schema: dict[str, Any], arguments: dict[str, Any]) -> str | None:
    """What is wrong with the arguments in the terms of their schema, or None.

    Only names and types: what makes a key or a description legal is the store's to say, with a better text.
    """
    properties = schema["properties"]
    for name in schema.get("required", ()):
        if name not in arguments:
            return f"The argument {name} is missing. {_takes(properties)}"
    for name, value in arguments.items():
        if name not in properties:
            return f"There is an argument that this tool does not know. {_takes(properties)}"
        kind, shown = _TYPES[properties[name]["type"]]
        # In Python true and false are numbers; in JSON they are not.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            return f"The argument {name} must be {shown}."
    return None


def _takes(properties: Mapping[str, Any]) -> str:
    return f"This tool takes: {', '.join(properties) or 'no arguments'}."


# --- table and files, held to each other -----------------------------------------------------------------


def check_files(files: Iterable[str], rows: Iterable[str]) -> None:
    """Raise `CatalogError` for a file in this folder whose tool has no row in the policy's table.

    `files` are names of modules, `rows` names of tools. The other direction is `_implemented`'s.
    """
    for module in sorted(set(files) - _NO_TOOLS - {row.removeprefix(_PREFIX) for row in rows}):
        raise CatalogError(
            f"tools/{module}.py has no row in the policy's table; add one for {_PREFIX}{module} to "
            "exposure_policy/table.py, or name the file in _NO_TOOLS of tools/catalog.py if it holds no tool"
        )


def check_tool(row: ToolPolicy, tool: Tool) -> None:
    """Raise `CatalogError` unless the tool is what its row says, and one whose arguments this module can check."""
    where = f"{row.name} in exposure_policy/table.py"
    schema = tool.input_schema
    properties = schema.get("properties", {})
    if tool.name != row.name:
        raise CatalogError(f"the TOOL of {where} calls itself {tool.name}; give both the same name")
    if tool.annotations.get("readOnlyHint") is not (not row.mutates):
        raise CatalogError(f"mutates of {where} and readOnlyHint of its TOOL contradict each other; correct one")
    if schema.get("type") != "object" or schema.get("additionalProperties") is not False:
        raise CatalogError(f"the input schema of {row.name} must be a closed object: additionalProperties is False")
    if unknown := set(schema.get("required", ())) - set(properties):
        raise CatalogError(f"{row.name} requires {', '.join(sorted(unknown))}, which its properties do not have")
    for name, described in properties.items():
        if described.get("type") not in tuple(_TYPES):  # a type may be a list of types, which has no hash
            raise CatalogError(
                f"the argument {name} of {row.name} has the type {described.get('type')!r}, which the catalog cannot "
                f"check; use one of {', '.join(_TYPES)}, or add it to _TYPES of tools/catalog.py"
            )
    for field, shapes in (("takes", tuple(properties)), ("answers", tuple(_answers(tool.output_schema)))):
        if getattr(row, field) != shapes:
            raise CatalogError(f"{field} of {where} is not what its TOOL has; write there: {field}={shapes!r}")


def _answers(schema: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """The names in each form of an answer, written as the policy's table writes them."""
    for form in schema.get("oneOf", (schema,)):
        yield tuple(_names(form))


def _names(form: Mapping[str, Any]) -> Iterator[str]:
    required = form.get("required", ())
    for name, described in form.get("properties", {}).items():
        inner = tuple(_names(described.get("items", {})))
        ending = "" if name in required else "?"
        yield from (f"{name}.{part}{ending}" for part in inner) if inner else (f"{name}{ending}",)


def _implemented() -> Mapping[str, Tool]:
    """Every tool of the policy's table, in its order.

    Raises:
        CatalogError: a row has no tool, a tool no row, or the two disagree.
        ExposureRefused: a row keeps its tool from the harness.
    """
    try:
        found = os.listdir(os.path.dirname(__file__))
    except OSError:  # imported from an archive, which has what the wheel had
        found = []
    check_files((file.removesuffix(".py") for file in found if file.endswith(".py")), TOOLS)
    tools = {}
    for name, row in TOOLS.items():
        check(name, Surface.HARNESS)
        module = f"{__package__}.{name.removeprefix(_PREFIX)}"
        try:
            tool: Tool = __import__(module, fromlist=("TOOL",)).TOOL  # `importlib` is one module more for a launch
        except (ModuleNotFoundError, AttributeError) as error:
            if isinstance(error, ModuleNotFoundError) and error.name != module:
                raise
            file = f"tools/{name.removeprefix(_PREFIX)}.py"
            raise CatalogError(f"{name} has a row in the policy's table and no TOOL in {file}; write it") from error
        check_tool(row, tool)
        tools[name] = tool
    return MappingProxyType(tools)


_IMPLEMENTED: Final = _implemented()

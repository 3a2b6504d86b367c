"""The gate: which tools exist for this process, by the exposure policy's word and nobody else's.

A withheld tool is not registered here, so nothing later can list, describe or call it.
"""

from typing import Any, Final

from exposure_policy import Surface, check, tool_set

from ..store.contract import Store
from ..store.errors import InvalidError, StoreError
from ..store.scope import Scope
from .delete import TOOL as DELETE
from .list import TOOL as LIST
from .read import TOOL as READ
from .tool import Outcome, Tool
from .write import TOOL as WRITE

__all__ = ["Catalog", "UnknownToolError"]

_IMPLEMENTED: Final[dict[str, Tool]] = {tool.name: tool for tool in (LIST, READ, WRITE, DELETE)}

for _name in _IMPLEMENTED:
    # A tool without a row in the policy's table stops the process here, at import.
    check(_name, Surface.HARNESS)


class UnknownToolError(Exception):
    """No such tool, whether it is withheld or never existed: the text is the same."""


class Catalog:
    """The tools of one process, in the policy's order."""

    def __init__(self, *, enabled: bool, read_only: bool) -> None:
        self.enabled = enabled
        self.read_only = read_only
        self._tools = {name: _IMPLEMENTED[name] for name in tool_set(enabled=enabled, read_only=read_only)}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._tools)

    def definitions(self) -> list[dict[str, Any]]:
        """What `tools/list` answers."""
        return [tool.definition(read_only=self.read_only) for tool in self._tools.values()]

    async def call(self, name: str, arguments: object, store: Store, scope: Scope) -> Outcome:
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
            return await tool.handle(arguments, store, scope)
        except StoreError as error:
            return Outcome(error=str(error), code=error.code, cause=error)


_TYPES: Final = {"string": (str, "text"), "boolean": (bool, "true or false")}


def _problem(schema: dict[str, Any], arguments: dict[str, Any]) -> str | None:
    """What is wrong with the arguments in the terms of their schema, or None.

    Only names and types: what makes a key or a description legal is the store's to say, with a better text.
    """
    properties = schema["properties"]
    takes = f"This tool takes: {', '.join(properties) or 'no arguments'}."
    for name in schema.get("required", ()):
        if name not in arguments:
            return f"The argument {name} is missing. {takes}"
    for name, value in arguments.items():
        if name not in properties:
            return f"There is an argument that this tool does not know. {takes}"
        kind, shown = _TYPES[properties[name]["type"]]
        if not isinstance(value, kind):
            return f"The argument {name} must be {shown}."
    return None

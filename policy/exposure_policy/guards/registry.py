"""The registries of MCP servers, each looking at what is registered before it is in. Of `mcp` and of `fastmcp`.

Whichever public way something is registered, it ends in one of these; they have no public name in the SDKs.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from .wrap import Guard

__all__ = ["Registry", "registries"]


class Registry(dict[Any, Any]):
    """A registry that looks at what is put in, before it is in."""

    def __init__(self, owner: Any, attribute: str, kind: str, data: Callable[[Any], Mapping[str, Any]]) -> None:
        super().__init__()
        self._owner = owner
        self._attribute = attribute
        self._kind = kind
        self._data = data
        self._guard: Guard | None = None

    def watch(self, made: Guard) -> None:
        """Look at what the registry holds already, then stand in its place."""
        self._guard = made
        self.update(getattr(self._owner, self._attribute))
        setattr(self._owner, self._attribute, self)

    def __setitem__(self, name: Any, entry: Any) -> None:
        assert self._guard is not None  # noqa: S101 - nothing is put in before it watches
        data = self._data(entry)
        self._guard.offer(self._kind, data)
        if str(name) not in (data.get("name"), data.get("uri"), data.get("uriTemplate")):
            self._guard.offer(self._kind, {"name": str(name).partition(":")[2] or str(name)})
        self._guard.handler(str(data.get("name") or name), getattr(entry, "fn", None))
        super().__setitem__(name, entry)

    def setdefault(self, name: Any, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def update(self, *args: Any, **kwargs: Any) -> None:
        for name, entry in dict(*args, **kwargs).items():
            self[name] = entry

    def __ior__(self, other: Any) -> "Registry":  # type: ignore[misc]
        self.update(other)
        return self


def registries(server: Any) -> Iterator[Registry]:
    """Where everything that is registered ends, whichever public way it came: these have no public name."""
    if (provider := getattr(server, "_local_provider", None)) is not None:  # of the package fastmcp
        yield Registry(provider, "_components", "tool", _component)
        return
    tools, prompts, resources = server._tool_manager, server._prompt_manager, server._resource_manager
    yield Registry(tools, "_tools", "tool", _tool)
    yield Registry(prompts, "_prompts", "prompt", partial(_model, exclude={"fn"}))
    yield Registry(resources, "_resources", "resource", partial(_model, exclude={"fn"}))
    yield Registry(resources, "_templates", "resource template", _template)


def _tool(tool: Any) -> dict[str, Any]:
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "inputSchema": tool.parameters,
        "outputSchema": tool.output_schema,
        "annotations": tool.annotations.model_dump(exclude_none=True) if tool.annotations else None,
        "_meta": tool.meta,
    }


def _template(template: Any) -> dict[str, Any]:
    data = _model(template, {"fn", "parsed_template", "security"})
    data["inputSchema"] = data.pop("parameters", None)
    return data


def _component(component: Any) -> dict[str, Any]:
    """A tool, a prompt, a resource or a template of fastmcp, in its wire form."""
    for name in ("to_mcp_tool", "to_mcp_prompt", "to_mcp_template", "to_mcp_resource"):
        if (wire := getattr(component, name, None)) is not None:
            data: dict[str, Any] = wire().model_dump(by_alias=True, exclude_none=True, mode="json")
            return data
    return {"name": str(getattr(component, "name", ""))}


def _model(model: Any, exclude: set[str]) -> dict[str, Any]:
    data: dict[str, Any] = model.model_dump(exclude=exclude, exclude_none=True, mode="json", fallback=str)
    data["_meta"] = data.pop("meta", None)
    return data

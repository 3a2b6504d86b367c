"""The run's tools as plain Python functions, for frameworks that make tools of functions.

    agent = Agent(tools=functions(run), instructions=run.instructions)

Each has the name, the parameters with their types and defaults, and the docstring that the tool's own definition tells,
and returns what the model is to be shown. Functions of a run of `memory_sidecar.harness.sync` are ordinary ones, the
others are coroutine functions.
"""

import inspect
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, overload

from . import sync
from .answer import answer
from .result import ToolResult, for_model
from .sidecar import Run

__all__ = ["functions"]

_TYPES: Final[dict[str, type]] = {
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": float,
    "array": list,
    "object": dict,
}


@overload
def functions(run: Run) -> list[Callable[..., Awaitable[str]]]: ...


@overload
def functions(run: sync.Run) -> list[Callable[..., str]]: ...


def functions(run: Run | sync.Run) -> list[Callable[..., Any]]:
    """A function for each tool of `run`, to be used while the run is open.

    What the model can mend (a key that is not legal) is returned as JSON with the member `error`.

    Raises:
        ExposureRefused: a stranger is being served (`exposure_policy.serving`). The functions themselves raise it too,
            and what `Run.call` raises.
    """
    return [_function(run, tool) for tool in run.tools]


def _function(run: Run | sync.Run, tool: Mapping[str, Any]) -> Callable[..., Any]:
    name: str = tool["name"]
    signature = _signature(tool["inputSchema"])

    def given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        # A framework fills what its model left out with the default, which says the same.
        return signature.bind(*args, **kwargs).arguments

    if isinstance(run, sync.Run):
        ordinary: sync.Run = run

        def function(*args: Any, **kwargs: Any) -> str:
            try:
                arguments = given(args, kwargs)
            except TypeError as error:  # the model left something out, or made it up
                return _text(for_model(f"{error}."))
            return _text(ordinary.call(name, arguments))

        return _dressed(function, tool, signature)

    awaited: Run = run

    async def coroutine_function(*args: Any, **kwargs: Any) -> str:
        try:
            arguments = given(args, kwargs)
        except TypeError as error:
            return _text(for_model(f"{error}."))
        return _text(await answer(awaited, name, arguments))

    return _dressed(coroutine_function, tool, signature)


def _text(result: ToolResult) -> str:
    return json.dumps({"error": result.text}, ensure_ascii=False) if result.is_error else result.text


def _dressed(function: Callable[..., Any], tool: Mapping[str, Any], signature: inspect.Signature) -> Callable[..., Any]:
    """`function` with all that frameworks read from one."""
    dressed: Any = function
    dressed.__name__ = dressed.__qualname__ = tool["name"]
    dressed.__doc__ = _docstring(tool)
    dressed.__signature__ = signature
    dressed.__annotations__ = {name: parameter.annotation for name, parameter in signature.parameters.items()}
    dressed.__annotations__["return"] = str
    dressed.__memory_private__ = True  # the guards of exposure_policy know by it what would publish memory
    result: Callable[..., Any] = dressed
    return result


def _signature(schema: Mapping[str, Any]) -> inspect.Signature:
    required = schema.get("required", ())
    properties: dict[str, Any] = schema["properties"]
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            annotation=_TYPES[said["type"]],
            default=inspect.Parameter.empty if name in required else said.get("default", _TYPES[said["type"]]()),
        )
        for name, said in sorted(properties.items(), key=lambda one: one[0] not in required)
    ]
    return inspect.Signature(parameters, return_annotation=str)


def _docstring(tool: Mapping[str, Any]) -> str:
    """The tool's description, and its parameters in the form that most frameworks parse (Google's)."""
    said = {name: one.get("description", "") for name, one in tool["inputSchema"]["properties"].items()}
    if not said:
        return str(tool["description"])
    lines = [f"    {name}: {' '.join(text.split())}" for name, text in said.items()]
    return "\n".join([tool["description"], "", "Args:", *lines])

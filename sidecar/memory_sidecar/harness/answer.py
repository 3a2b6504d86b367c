"""How every adapter serves a model's call: what a model can mend is told to the model, the rest is raised."""

import json
from collections.abc import Mapping
from typing import Any

from .errors import RequestRefusedError
from .sidecar import Run, ToolResult

__all__ = ["answer"]


async def answer(run: Run, name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
    """Serve the call of `name`. Arguments that arrive as text are the model's JSON, which need not be JSON.

    Raises:
        RequestRefusedError: the run has ended.
        SidecarDiedError: the sidecar's process ended.
    """
    if isinstance(arguments, str):
        parsed = _parse(arguments or "{}")
        if parsed is None:
            return _error("The arguments must be a JSON object.")
        arguments = parsed
    try:
        return await run.call(name, arguments)
    except RequestRefusedError as error:
        if any(tool["name"] == name for tool in run.tools):
            raise
        return _error(str(error))  # a tool that the model made up


def _parse(text: str) -> dict[str, Any] | None:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _error(text: str) -> ToolResult:
    return ToolResult({"content": [{"type": "text", "text": text}], "isError": True})

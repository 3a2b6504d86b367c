"""How every adapter serves a model's call: what a model can mend is told to the model, the rest is raised."""

import json
from collections.abc import Mapping
from typing import Any

from .errors import RequestRefusedError
from .result import NO_OBJECT, NOT_JSON, ToolResult, for_model
from .sidecar import Run

__all__ = ["answer"]


async def answer(run: Run, name: str, arguments: Mapping[str, Any] | str) -> ToolResult:
    """Serve the call of `name`. Arguments that arrive as text are the model's JSON, which need not be JSON.

    Raises:
        RequestRefusedError: the run has ended.
        SidecarDiedError: the sidecar's process ended.
        SidecarError: this process was forked from the one that launched.
        ExposureRefused: a stranger is being served (`exposure_policy.serving`).
    """
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments or "{}")
        except json.JSONDecodeError:
            return for_model(NO_OBJECT)
        except (ValueError, RecursionError):  # too many digits, or too deep
            return for_model(NOT_JSON)
    if not isinstance(arguments, Mapping):
        return for_model(NO_OBJECT)
    try:
        return await run.call(name, arguments)
    except RequestRefusedError as error:
        if any(tool["name"] == name for tool in run.tools):
            raise
        return for_model(str(error))  # a tool that the model made up

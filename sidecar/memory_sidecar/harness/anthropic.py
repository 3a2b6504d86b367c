"""Memory for the Anthropic Messages API (`anthropic`): as runnable tools, or by hand.

    runner = client.beta.messages.tool_runner(..., system=run.instructions, tools=memory_tools(run))

    reply = await client.messages.create(..., system=run.instructions, tools=memory_tool_params(run))
    results = [await memory_tool_result(run, block) for block in reply.content if block.type == "tool_use"]

Both work on asyncio and on trio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from .answer import answer

if TYPE_CHECKING:
    from anthropic.lib.tools import BetaAsyncFunctionTool
    from anthropic.types import ToolParam, ToolResultBlockParam, ToolUseBlock
    from anthropic.types.beta import BetaToolUseBlock

    from .sidecar import Run

__all__ = ["memory_tool_params", "memory_tool_result", "memory_tools"]


def memory_tools(run: Run) -> list[BetaAsyncFunctionTool[Any]]:
    """The run's tools for `AsyncAnthropic().beta.messages.tool_runner`, which calls them by itself.

    Raises:
        ExposureRefused: a stranger is being served (`exposure_policy.serving`).
    """
    return [_runnable(run, tool) for tool in run.tools]


def _runnable(run: Run, tool: dict[str, Any]) -> BetaAsyncFunctionTool[Any]:
    from anthropic import beta_async_tool
    from anthropic.lib.tools import ToolError

    async def call(**arguments: Any) -> str:
        result = await answer(run, tool["name"], arguments)
        if result.is_error:
            raise ToolError(result.text)
        return result.text

    return beta_async_tool(call, name=tool["name"], description=tool["description"], input_schema=tool["inputSchema"])


def memory_tool_params(run: Run) -> list[ToolParam]:
    """The run's tools for `messages.create(tools=...)`.

    Raises:
        ExposureRefused: a stranger is being served (`exposure_policy.serving`).
    """
    return [
        {"name": tool["name"], "description": tool["description"], "input_schema": tool["inputSchema"]}
        for tool in run.tools
    ]


async def memory_tool_result(run: Run, tool_use: ToolUseBlock | BetaToolUseBlock) -> ToolResultBlockParam:
    """Serve a `tool_use` block; the answer goes into the next user message.

    A name that is no tool of the run is answered as an error, so a harness with tools of its own looks there first.

    Raises:
        SidecarError: the run has ended, or the sidecar's process has.
        ExposureRefused: a stranger is being served (`exposure_policy.serving`).
    """
    result = await answer(run, tool_use.name, cast("dict[str, Any]", tool_use.input))
    return {"type": "tool_result", "tool_use_id": tool_use.id, "content": result.text, "is_error": result.is_error}

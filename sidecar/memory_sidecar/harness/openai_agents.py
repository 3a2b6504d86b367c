"""Memory for the OpenAI Agents SDK (`openai-agents`): function tools for an agent.

    agent = Agent(name=..., instructions=run.instructions, tools=[*memory_tools(run), ...])

The SDK sends traces to OpenAI unless told otherwise, and with them what its tools are given and answer. To keep
memories out of them, run with `RunConfig(trace_include_sensitive_data=False)` or `RunConfig(tracing_disabled=True)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .answer import answer

if TYPE_CHECKING:
    from agents import Tool
    from agents.tool_context import ToolContext

    from .sidecar import Run

__all__ = ["memory_tools"]


def memory_tools(run: Run) -> list[Tool]:
    """The run's tools, not strict: strict mode would make the model always send the optional `overwrite`.

    Raises:
        ExposureRefused: a stranger is being served (`exposure_policy.serving`).
    """
    return [_function_tool(run, tool) for tool in run.tools]


def _function_tool(run: Run, tool: dict[str, Any]) -> Tool:
    from agents import FunctionTool

    async def invoke(_context: ToolContext[Any], arguments: str) -> str:
        # An error goes back as text: an exception here would end the agent's run.
        return (await answer(run, tool["name"], arguments)).text

    return FunctionTool(
        name=tool["name"],
        description=tool["description"],
        params_json_schema=tool["inputSchema"],
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )

"""Memory for Pydantic AI (`pydantic-ai`): a toolset, instructions included.

    result = await agent.run("...", toolsets=[MemoryToolset(run)])

A toolset serves one run of memory, so it is given to the agent's run rather than to the agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

try:
    from pydantic_ai import AbstractToolset, InstructionPart, ToolDefinition, ToolFailed, ToolsetTool
    from pydantic_core import SchemaValidator, core_schema
except ImportError as error:
    raise ImportError("MemoryToolset needs Pydantic AI: pip install 'memory-sidecar[pydantic-ai]'") from error

from .answer import answer

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from .sidecar import Run

__all__ = ["MemoryToolset"]

_ARGUMENTS: Final = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
"""An object. Whether it is a legal one the sidecar says, in words that a model can act on."""


class MemoryToolset(AbstractToolset[Any]):
    """The run's tools and its system text. It lives as long as the run's block does.

    While a stranger is served (`exposure_policy.serving`) each of its methods raises ExposureRefused; a call raises
    besides what `Run.call` does.
    """

    __memory_private__: Final = True

    def __init__(self, run: Run, *, id: str | None = None) -> None:  # noqa: A002 - the SDK's word
        self._run = run
        self._id = id

    @property
    def id(self) -> str | None:
        return self._id

    async def get_instructions(self, ctx: RunContext[Any]) -> InstructionPart | None:  # noqa: ARG002
        """The run's system text. It does not change while the run is open, so a prompt cache may keep it."""
        return InstructionPart(self._run.instructions, dynamic=False) if self._run.instructions else None

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        return {
            tool["name"]: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool["name"],
                    description=tool["description"],
                    parameters_json_schema=tool["inputSchema"],
                    return_schema=tool["outputSchema"],
                    metadata={"annotations": tool["annotations"], "meta": tool["_meta"]},
                ),
                max_retries=ctx.max_retries,
                args_validator=_ARGUMENTS,
            )
            for tool in self._run.tools
        }

    async def call_tool(
        self,
        name: str,
        tool_args: dict[str, Any],
        ctx: RunContext[Any],  # noqa: ARG002
        tool: ToolsetTool[Any],  # noqa: ARG002
    ) -> dict[str, Any] | None:
        """Serve a call.

        An error is a `ToolFailed` and no `ModelRetry`: the text tells the model what to do, and a note that could
        not be kept is no reason to use up the retries that end an agent's run.
        """
        result = await answer(self._run, name, tool_args)
        if result.is_error:
            raise ToolFailed(result.text)
        return result.structured

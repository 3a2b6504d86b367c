"""The real program `claude` while its process serves a stranger: the model's calls reach memory where the harness says
that they are for its own thinking, and nowhere else."""

import runpy
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, create_sdk_mcp_server, query
from mcp import Client, MCPError

from exposure_policy import Surface
from exposure_policy.guards import guard_mcp
from exposure_policy.serving import Serving, memory_for_my_own_thinking
from memory_sidecar.harness import MemorySidecar

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "adapters" / "claude_agent.py"
memory_tool: Any = runpy.run_path(str(EXAMPLE), run_name="example")["memory_tool"]


@asynccontextmanager
async def opened() -> AsyncIterator[tuple[ClaudeAgentOptions, Any]]:
    async with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        server = create_sdk_mcp_server("memory", tools=[memory_tool(run, tool) for tool in run.tools])
        yield (
            ClaudeAgentOptions(
                system_prompt=run.instructions, mcp_servers={"memory": server}, allowed_tools=["mcp__memory"], tools=[]
            ),
            server,
        )


async def ask(options: ClaudeAgentOptions, question: str) -> str:
    said = [message async for message in query(prompt=question, options=options)]
    return str(next(message.result for message in said if isinstance(message, ResultMessage)))


async def main() -> None:
    async with opened() as (options, _):
        with Serving(Surface.MCP), memory_for_my_own_thinking(reason="the agent notes what it was told"):
            print(await ask(options, "We deploy on Tuesdays. Please note that."))
    async with opened() as (options, server):
        with Serving(Surface.MCP) as stranger:
            refused = await ask(options, "When do we deploy?")
        assert "memory is private to its harness" in refused, refused
        assert stranger.refused == ["run.call"]
        print(await ask(options, "When do we deploy?"))
        # Who publishes that server all the same, under a guard, publishes nothing of memory.
        async with Client(guard_mcp(server["instance"])) as client:
            try:
                print(await client.list_tools())
            except MCPError as error:
                assert error.code == -32603, error  # noqa: PT017 - the SDK's; the refusal itself is in the server's log
            else:
                raise AssertionError("memory's tools were listed")


sys.exit(anyio.run(main))

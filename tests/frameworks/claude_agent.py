"""The tool server of the Claude Agent SDK's example, asked as the SDK's own loop asks it. The program `claude` has no
part in this."""

import runpy
import sys
from pathlib import Path
from typing import Any

import anyio
from claude_agent_sdk import create_sdk_mcp_server
from mcp import Client

from memory_sidecar.harness import MemorySidecar

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "adapters" / "claude_agent.py"
NOTE = {"key": "deploy", "description": "When we deploy", "content": "We deploy on Tuesdays."}


async def main() -> None:
    memory_tool: Any = runpy.run_path(str(EXAMPLE))["memory_tool"]
    for call in (("memory_write", NOTE), ("memory_read", {"key": "deploy"})):
        async with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
            made: Any = create_sdk_mcp_server("memory", tools=[memory_tool(run, tool) for tool in run.tools])
            async with Client(made["instance"]) as client:
                assert [tool.name for tool in (await client.list_tools()).tools] == [tool["name"] for tool in run.tools]
                result: Any = await client.call_tool(*call)
                assert not result.is_error
                assert (await client.call_tool("memory_read", {"key": "../etc"})).is_error
    print(result.content[0].text)


sys.exit(anyio.run(main))

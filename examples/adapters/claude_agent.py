"""Memory for an agent of the Claude Agent SDK: tools in a server of this process that only its own loop reaches."""

import asyncio
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, SdkMcpTool, create_sdk_mcp_server, query

from memory_sidecar.harness import MemorySidecar, Run
from memory_sidecar.harness.answer import answer


def memory_tool(run: Run, tool: dict[str, Any]) -> SdkMcpTool[Any]:
    async def handler(arguments: dict[str, Any]) -> dict[str, Any]:
        result = await answer(run, tool["name"], arguments)
        return {"content": [{"type": "text", "text": result.text}], "is_error": result.is_error}

    return SdkMcpTool(tool["name"], tool["description"], tool["inputSchema"], handler)


async def ask(question: str) -> str:
    async with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        server = create_sdk_mcp_server("memory", tools=[memory_tool(run, tool) for tool in run.tools])
        options = ClaudeAgentOptions(
            system_prompt=run.instructions,
            mcp_servers={"memory": server},
            allowed_tools=["mcp__memory"],
            tools=[],  # with tools of its own the model has to search for the others before it sees them
        )
        said = [message async for message in query(prompt=question, options=options)]
        return str(next(message.result for message in said if isinstance(message, ResultMessage)))


if __name__ == "__main__":
    print(asyncio.run(ask("We deploy on Tuesdays. Please note that.")))
    print(asyncio.run(ask("When do we deploy?")))

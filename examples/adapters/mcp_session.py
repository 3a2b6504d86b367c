"""Memory for a harness that is built on the official MCP SDK: an initialized session, its run suspended at the end.

pip install 'memory-sidecar[mcp]'
"""

import asyncio

from memory_sidecar.harness.mcp import memory_session


async def main() -> None:
    async with memory_session(identity="assistant", store_dir="state", run="monday") as session:
        tools = await session.list_tools()
        print(f"Tools: {', '.join(tool.name for tool in tools.tools)}")
        note = {"key": "deploy", "description": "When we deploy", "content": "We deploy on Tuesdays."}
        result = await session.call_tool("memory_write", arguments=note)
        print(f"Monday: {result.structured_content}")

    async with memory_session(identity="assistant", store_dir="state", run="friday") as session:
        print(f"Friday: {(session.instructions or '').partition('<memory-index>')[2].splitlines()[1]}")
        result = await session.call_tool("memory_read", arguments={"key": "deploy"})
        print(f"Friday: {result.structured_content['content']}")


asyncio.run(main())

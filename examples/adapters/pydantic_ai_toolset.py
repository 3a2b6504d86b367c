"""Memory for Pydantic AI: a toolset that brings its instructions along.

pip install 'memory-sidecar[pydantic-ai]' 'pydantic-ai-slim[openai]'; set OPENAI_API_KEY.
"""

import asyncio

from pydantic_ai import Agent

from memory_sidecar.harness import MemorySidecar
from memory_sidecar.harness.pydantic_ai import MemoryToolset

agent = Agent("openai:gpt-5.5", instructions="Be concise.")


async def ask(question: str) -> None:
    async with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        result = await agent.run(question, toolsets=[MemoryToolset(run)])
        print(result.output)
        await run.finish("completed")


async def main() -> None:
    await ask("Please note that we deploy on Tuesdays.")
    await ask("On which day do we deploy?")


asyncio.run(main())

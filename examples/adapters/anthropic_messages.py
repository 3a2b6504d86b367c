"""Memory for the Anthropic Messages API: the SDK's tool runner calls the memory tools by itself.

pip install 'memory-sidecar[anthropic]'; set ANTHROPIC_API_KEY.
"""

import asyncio

from anthropic import AsyncAnthropic

from memory_sidecar.harness import MemorySidecar
from memory_sidecar.harness.anthropic import memory_tools

client = AsyncAnthropic()


async def ask(question: str) -> None:
    async with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        runner = client.beta.messages.tool_runner(
            model="claude-sonnet-5-5",
            max_tokens=1024,
            system=run.instructions,
            tools=memory_tools(run),
            messages=[{"role": "user", "content": question}],
        )
        message = await runner.until_done()
        print("".join(block.text for block in message.content if block.type == "text"))
        await run.finish("completed")


async def main() -> None:
    await ask("Please note that we deploy on Tuesdays.")
    await ask("On which day do we deploy?")


asyncio.run(main())

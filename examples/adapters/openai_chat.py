"""Memory for the OpenAI Chat Completions API, and for the many servers that speak it.

pip install 'memory-sidecar[openai]'; set OPENAI_API_KEY, and OPENAI_BASE_URL for another server.
"""

import asyncio
from typing import Any

from openai import AsyncOpenAI

from memory_sidecar.harness import MemorySidecar
from memory_sidecar.harness.openai import memory_chat_message, memory_chat_tools

create = AsyncOpenAI().chat.completions.create


async def ask(question: str) -> None:
    async with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        messages: list[Any] = [
            {"role": "developer", "content": run.instructions},
            {"role": "user", "content": question},
        ]
        while True:
            completion = await create(model="gpt-5.5", messages=messages, tools=memory_chat_tools(run))
            message = completion.choices[0].message
            messages.append(message)
            if not message.tool_calls:
                break
            messages += [await memory_chat_message(run, call) for call in message.tool_calls]
        print(message.content)
        await run.finish("completed")


async def main() -> None:
    await ask("Please note that we deploy on Tuesdays.")
    await ask("On which day do we deploy?")


asyncio.run(main())

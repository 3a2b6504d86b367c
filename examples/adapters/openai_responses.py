"""Memory for the OpenAI Responses API.

pip install 'memory-sidecar[openai]'; set OPENAI_API_KEY.
"""

import asyncio
from typing import Any

from openai import AsyncOpenAI

from memory_sidecar.harness import MemorySidecar
from memory_sidecar.harness.openai import memory_call_output, memory_tools

client = AsyncOpenAI()


async def ask(question: str) -> None:
    async with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        input_list: list[Any] = [{"role": "user", "content": question}]
        while True:
            response = await client.responses.create(
                model="gpt-5.5", instructions=run.instructions, tools=memory_tools(run), input=input_list
            )
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                break
            input_list += response.output
            input_list += [await memory_call_output(run, call) for call in calls]
        print(response.output_text)
        await run.finish("completed")


async def main() -> None:
    await ask("Please note that we deploy on Tuesdays.")
    await ask("On which day do we deploy?")


asyncio.run(main())

"""Memory for an agent of LlamaIndex: the run's tools as functions, its text as system prompt."""

import asyncio
import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

from memory_sidecar.harness import MemorySidecar
from memory_sidecar.harness.functions import functions


async def ask(question: str) -> str:
    llm = OpenAILike(
        model="gpt-5.2",
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key=os.environ["OPENAI_API_KEY"],
        is_chat_model=True,
        is_function_calling_model=True,
    )
    async with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        tools = [FunctionTool.from_defaults(async_fn=function) for function in functions(run)]
        agent = FunctionAgent(tools=tools, llm=llm, system_prompt=run.instructions)
        return str(await agent.run(question))


print(asyncio.run(ask("We deploy on Tuesdays. Please note that.")))
print(asyncio.run(ask("When do we deploy?")))

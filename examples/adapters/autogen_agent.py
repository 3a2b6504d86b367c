"""Memory for an agent of AutoGen: the run's tools as functions, its text as system message."""

import asyncio

from autogen_agentchat.agents import AssistantAgent
from autogen_core.models import ModelFamily, ModelInfo
from autogen_core.tools import FunctionTool
from autogen_ext.models.openai import OpenAIChatCompletionClient

from memory_sidecar.harness import MemorySidecar
from memory_sidecar.harness.functions import functions

MODEL = ModelInfo(
    vision=False, function_calling=True, json_output=True, family=ModelFamily.UNKNOWN, structured_output=False
)


async def ask(question: str) -> str:
    client = OpenAIChatCompletionClient(model="gpt-5.2", model_info=MODEL)
    async with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        agent = AssistantAgent(
            "assistant",
            client,
            tools=[FunctionTool(function, function.__doc__ or "") for function in functions(run)],
            system_message=run.instructions,
            max_tool_iterations=9,
        )
        return str((await agent.run(task=question)).messages[-1].to_text())


print(asyncio.run(ask("We deploy on Tuesdays. Please note that.")))
print(asyncio.run(ask("When do we deploy?")))

"""Memory for an agent of Google's ADK: the run's tools as functions, its text as instruction."""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner

from memory_sidecar.harness import MemorySidecar
from memory_sidecar.harness.functions import functions


async def ask(question: str) -> str:
    async with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        agent = LlmAgent(
            name="assistant",
            model=LiteLlm("openai/gpt-5.2"),
            static_instruction=run.instructions,  # `instruction` would fill in what stands in braces
            tools=list(functions(run)),
        )
        runner = InMemoryRunner(agent, app_name="assistant")
        events = await runner.run_debug(question, quiet=True)
        answer = events[-1].content
        return "".join(part.text or "" for part in answer.parts or ()) if answer else ""


print(asyncio.run(ask("We deploy on Tuesdays. Please note that.")))
print(asyncio.run(ask("When do we deploy?")))

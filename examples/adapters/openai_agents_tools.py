"""Memory for the OpenAI Agents SDK: function tools for an agent.

pip install 'memory-sidecar[openai-agents]'; set OPENAI_API_KEY.
"""

import asyncio

from agents import Agent, RunConfig, Runner

from memory_sidecar.harness import MemorySidecar
from memory_sidecar.harness.openai_agents import memory_tools

private = RunConfig(tracing_disabled=True)  # traces go to OpenAI, and would take memories with them


async def ask(question: str) -> None:
    async with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        agent = Agent(
            name="Assistant",
            instructions=f"Be concise.\n\n{run.instructions}",
            tools=memory_tools(run),
            model="gpt-5.5",
        )
        result = await Runner.run(agent, question, run_config=private)
        print(result.final_output)
        await run.finish("completed")


async def main() -> None:
    await ask("Please note that we deploy on Tuesdays.")
    await ask("On which day do we deploy?")


asyncio.run(main())

"""Memory for an agent of smolagents: the run's tools as functions, its text as instructions."""

import os

from smolagents import OpenAIModel, ToolCallingAgent, tool

from memory_sidecar.harness.functions import functions
from memory_sidecar.harness.sync import MemorySidecar


def ask(question: str) -> str:
    model = OpenAIModel("gpt-5.2", api_base=os.environ.get("OPENAI_BASE_URL"))
    with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        tools = [tool(function) for function in functions(run)]
        agent = ToolCallingAgent(tools=tools, model=model, instructions=run.instructions, verbosity_level=0)
        return str(agent.run(question))


print(ask("We deploy on Tuesdays. Please note that."))
print(ask("When do we deploy?"))

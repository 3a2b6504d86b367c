"""Memory for an agent of Strands: the run's tools as functions, its text as system prompt."""

from strands import Agent, tool
from strands.models.openai import OpenAIModel

from memory_sidecar.harness.functions import functions
from memory_sidecar.harness.sync import MemorySidecar


def ask(question: str) -> str:
    with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        agent = Agent(
            model=OpenAIModel(model_id="gpt-5.2"),
            tools=[tool(function) for function in functions(run)],
            system_prompt=run.instructions,
            callback_handler=None,
        )
        return str(agent(question)).strip()


print(ask("We deploy on Tuesdays. Please note that."))
print(ask("When do we deploy?"))

"""Memory for an agent of Agno: the run's tools as functions, its text among the instructions."""

from agno.agent import Agent
from agno.models.openai import OpenAIChat

from memory_sidecar.harness.functions import functions
from memory_sidecar.harness.sync import MemorySidecar


def ask(question: str) -> str:
    with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        agent = Agent(model=OpenAIChat(id="gpt-5.2"), tools=functions(run), instructions=run.instructions)
        return str(agent.run(question).content)


print(ask("We deploy on Tuesdays. Please note that."))
print(ask("When do we deploy?"))

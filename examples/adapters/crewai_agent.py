"""Memory for an agent of CrewAI: the run's tools as functions, its text as backstory."""

from crewai import LLM, Agent
from crewai.tools import tool

from memory_sidecar.harness.functions import functions
from memory_sidecar.harness.sync import MemorySidecar


def ask(question: str) -> str:
    with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        agent = Agent(
            role="assistant",
            goal="Answer the question.",
            backstory=run.instructions,
            llm=LLM(model="openai/gpt-5.2"),
            tools=[tool(function.__name__)(function) for function in functions(run)],
        )
        return str(agent.kickoff(question))


print(ask("We deploy on Tuesdays. Please note that."))
print(ask("When do we deploy?"))

"""Memory for an agent of LangChain (LangGraph underneath): the run's tools as functions, its text as system prompt."""

from langchain.agents import create_agent
from langchain.tools import tool
from langchain_openai import ChatOpenAI

from memory_sidecar.harness.functions import functions
from memory_sidecar.harness.sync import MemorySidecar


def ask(question: str) -> str:
    with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        tools = [tool(function, parse_docstring=True) for function in functions(run)]
        agent = create_agent(ChatOpenAI(model="gpt-5.2"), tools, system_prompt=run.instructions)
        said = agent.invoke({"messages": [{"role": "user", "content": question}]})
        return str(said["messages"][-1].content)


print(ask("We deploy on Tuesdays. Please note that."))
print(ask("When do we deploy?"))

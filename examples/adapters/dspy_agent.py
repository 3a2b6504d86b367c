"""Memory for a DSPy program: the run's tools as functions, its text as the signature's instructions."""

import dspy

from memory_sidecar.harness.functions import functions
from memory_sidecar.harness.sync import MemorySidecar


def ask(question: str) -> str:
    with MemorySidecar.launch(identity="assistant", store_dir="state") as memory, memory.run() as run:
        signature = dspy.make_signature("question -> answer", run.instructions)
        with dspy.context(lm=dspy.LM("openai/gpt-5.2")):
            return str(dspy.ReAct(signature, tools=functions(run))(question=question).answer)


print(ask("We deploy on Tuesdays. Please note that."))
print(ask("When do we deploy?"))

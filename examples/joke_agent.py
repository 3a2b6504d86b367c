"""An agent that never repeats a joke: it keeps the jokes it told in one note. Its prompt and its memory are set in
joke_agent.yaml.

Without an API key a scripted model plays its part, offline. With ANTHROPIC_API_KEY set (and `pip install anthropic`)
the real model takes its place; the loop below is the same for both.
"""

import asyncio
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from memory_sidecar.harness import MemorySidecar, Run

CONFIG = Path(__file__).with_suffix(".yaml")
SYSTEM_PROMPT = yaml.safe_load(CONFIG.read_text())["system_prompt"]

COW_TOOL = {
    "name": "cow_say",
    "description": "Render a cow that says a short sentence.",
    "input_schema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


COW = r"""   \  ^__^
    \ (oo)\_______
      (__)\       )\/\
          ||----w |
          ||     ||"""


def cow_say(text: str) -> str:
    bar = "-" * (len(text) + 2)
    return f" {bar}\n< {text} >\n {bar}\n{COW}"


async def converse(model: Any, run: Run, request: str) -> None:
    """The agent loop: give the model its tools and text, serve what it calls, until it has no more calls."""
    tools = [COW_TOOL] + [
        {"name": tool["name"], "description": tool["description"], "input_schema": tool["inputSchema"]}
        for tool in run.tools
    ]
    messages: list[dict[str, Any]] = [{"role": "user", "content": request}]
    while True:
        reply = await asyncio.to_thread(
            lambda: model.messages.create(
                model=os.environ.get("ANTHROPIC_MODEL", "claude-sonnet-5-5"),
                max_tokens=1000,
                system=f"{SYSTEM_PROMPT}\n{run.instructions}",
                tools=tools,
                messages=messages,
            )
        )
        messages.append({"role": "assistant", "content": reply.content})
        results = []
        for block in reply.content:
            if block.type == "text":
                print(block.text)
            elif block.type == "tool_use":
                results.append(await serve(run, block))
        if not results:
            return
        messages.append({"role": "user", "content": results})


async def serve(run: Run, call: Any) -> dict[str, Any]:
    if call.name == "cow_say":
        drawing = cow_say(call.input["text"])
        print(drawing)
        return {"type": "tool_result", "tool_use_id": call.id, "content": drawing}
    result = await run.call(call.name, call.input)
    print(f"  [{call.name}] {result.text[:100]}")
    return {"type": "tool_result", "tool_use_id": call.id, "content": result.text, "is_error": result.is_error}


@dataclass
class Block:
    type: str
    text: str = ""
    name: str = ""
    id: str = "call"
    input: dict[str, Any] = field(default_factory=dict)


@dataclass
class Reply:
    content: list[Block]


class ScriptedModel:
    """Plays a model that follows the prompt: looks for past jokes, tells a new one, saves it, makes a quip."""

    JOKES = (
        "What do you call a cow with no legs? Ground beef!",
        "Where do cows go on Friday nights? To the moo-vies!",
        "Why do cows wear bells? Because their horns don't work!",
        "What do you call a cow that twitches? Beef jerky!",
    )

    def __init__(self) -> None:
        self.messages = self
        self.told: list[str] | None = None
        self.joke = ""

    def create(self, *, system: str, messages: list[dict[str, Any]], **_: Any) -> Reply:
        step = sum(message["role"] == "assistant" for message in messages)
        if step == 0:
            if "- cow-jokes:" in system:  # the index says that there is a note of past jokes
                return Reply([Block("tool_use", name="memory_read", input={"key": "cow-jokes"})])
            self.told = []
            step = 1
        told = self.told
        if told is None:
            told = self.told = json.loads(messages[-1]["content"][0]["content"])["content"].splitlines()
        if not self.joke:
            self.joke = next((joke for joke in self.JOKES if joke not in told), "")
            if not self.joke:
                return Reply([Block("text", text="I have told every cow joke I know. They have been milked dry.")])
            return Reply([Block("tool_use", name="cow_say", input={"text": self.joke})])
        if "cow_say" in str(messages[-2]["content"]):
            note = {
                "key": "cow-jokes",
                "description": "All cow jokes told so far, one a line",
                "content": "\n".join([*told, self.joke]),
                "overwrite": bool(told),
            }
            return Reply([Block("tool_use", name="memory_write", input=note)])
        return Reply([Block("text", text="I could go on, but I would only be milking it.")])


def choose_model() -> Any:
    if not os.environ.get("ANTHROPIC_API_KEY"):
        return ScriptedModel()
    try:
        import anthropic
    except ImportError:
        sys.exit("ANTHROPIC_API_KEY is set, but the SDK is not installed: pip install anthropic")
    return anthropic.Anthropic()


async def main(state: str) -> None:
    async with MemorySidecar.launch(config=CONFIG, store_dir=state) as memory, memory.run() as run:
        await converse(choose_model(), run, "Tell me a joke!")
        await run.finish("completed")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "state"))

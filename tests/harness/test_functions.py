"""The tools as plain functions: what a framework reads from them, and what it gets from calling them."""

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from tests.support.scripted_model import Call, scripted_model
from tests.support.sidecar import environment

from memory_sidecar.harness import MemorySidecar, sync
from memory_sidecar.harness.functions import functions

NOTE = {"key": "deploy", "description": "When we deploy", "content": "We deploy on Tuesdays."}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # what these SDKs run on


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    return {"identity": "tester", "store_dir": tmp_path / "state", "env": environment()}


@pytest.fixture
def run(options: dict[str, Any]) -> Iterator[sync.Run]:
    with sync.MemorySidecar.launch(**options) as memory, memory.run() as opened:
        yield opened


def test_a_function_tells_what_its_tool_does(run: sync.Run) -> None:
    made = functions(run)
    assert [function.__name__ for function in made] == [tool["name"] for tool in run.tools]
    for function, tool in zip(made, run.tools, strict=True):
        schema = tool["inputSchema"]
        parameters = inspect.signature(function).parameters
        assert set(parameters) == set(schema["properties"])
        required = {name for name, one in parameters.items() if one.default is inspect.Parameter.empty}
        assert required == set(schema.get("required", ()))
        hints = get_type_hints(function)
        assert hints.pop("return") is str
        kinds = {"string": str, "boolean": bool}
        assert hints == {name: kinds[one["type"]] for name, one in schema["properties"].items()}
        text = inspect.getdoc(function)
        assert text is not None
        assert text.startswith(tool["description"].splitlines()[0])
        assert all(f"{name}:" in text for name in parameters)
        assert not inspect.iscoroutinefunction(function)


def test_a_function_serves_a_call(run: sync.Run) -> None:
    made = {function.__name__: function for function in functions(run)}
    assert json.loads(made["memory_write"](**NOTE)) == {"written": True, "key": "deploy"}
    assert json.loads(made["memory_write"](*NOTE.values(), overwrite=False))["code"] == "exists"
    assert json.loads(made["memory_read"]("deploy"))["content"] == NOTE["content"]
    assert "not legal" in json.loads(made["memory_read"]("../etc"))["error"]
    assert "missing" in json.loads(made["memory_read"]())["error"]
    assert "unexpected" in json.loads(made["memory_read"](key="deploy", depth=1))["error"]


@pytest.mark.anyio
async def test_pydantic_ai_takes_the_functions(options: dict[str, Any]) -> None:
    from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    answers: list[Any] = []
    script = [[ToolCallPart("memory_write", NOTE)], [ToolCallPart("memory_read", {"key": "deploy"})]]

    def respond(messages: list[Any], info: AgentInfo) -> ModelResponse:
        answers.extend(json.loads(part.content) for part in messages[-1].parts if isinstance(part, ToolReturnPart))
        assert {tool.name for tool in info.function_tools} >= {"memory_list", "memory_write"}
        return ModelResponse(parts=script.pop(0) if script else [TextPart("Done.")])

    async with MemorySidecar.launch(**options) as memory, memory.run() as run:
        agent = Agent(FunctionModel(respond), tools=functions(run), instructions=run.instructions)
        await agent.run("Go.")
    assert answers == [{"written": True, "key": "deploy"}, {"found": True, **NOTE}]


@pytest.mark.anyio
async def test_the_openai_agents_sdk_takes_the_functions(options: dict[str, Any]) -> None:
    from agents import Agent, OpenAIChatCompletionsModel, RunConfig, Runner, function_tool
    from openai import AsyncOpenAI

    with scripted_model([Call("memory_write", NOTE)], [Call("memory_read", {"key": "deploy"})], "Done.") as model:
        async with MemorySidecar.launch(**options) as memory, memory.run() as run:
            tools = [function_tool(function, strict_mode=False) for function in functions(run)]
            async with AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none") as client:
                chat = OpenAIChatCompletionsModel(model="scripted", openai_client=client)
                agent = Agent(name="Tester", model=chat, instructions=run.instructions, tools=list(tools))
                result = await Runner.run(agent, "Go.", run_config=RunConfig(tracing_disabled=True))
    assert result.final_output == "Done."
    assert [json.loads(one.text) for one in model.results[-1:]] == [{"found": True, **NOTE}]


@pytest.mark.anyio
async def test_anthropic_takes_the_functions(options: dict[str, Any]) -> None:
    from anthropic import AsyncAnthropic, beta_async_tool

    with scripted_model([Call("memory_write", NOTE)], [Call("memory_read", {"key": "deploy"})], "Done.") as model:
        async with (
            MemorySidecar.launch(**options) as memory,
            memory.run() as run,
            AsyncAnthropic(base_url=model.url, api_key="none") as client,
        ):
            runner = client.beta.messages.tool_runner(
                model="scripted",
                max_tokens=100,
                tools=[beta_async_tool(function) for function in functions(run)],
                messages=[{"role": "user", "content": "Go."}],
            )
            await runner.until_done()
    assert json.loads(model.results[-1].text) == {"found": True, **NOTE}

"""The adapters, each with its real SDK: against a scripted API on 127.0.0.1, or the SDK's own test model."""

import json
import os
import runpy
import signal
import subprocess
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.processes import children
from tests.support.scripted_model import Call, Request, ScriptedModel, scripted_model

import exposure_policy
from memory_sidecar.harness import MemorySidecar, RequestRefusedError, Run, StartError

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "adapters"
TOOLS = list(exposure_policy.TOOLS)
NOTE = {"key": "deploy", "description": "When we deploy", "content": "We deploy on Tuesdays."}
WRITE = Call("memory_write", NOTE)
READ = Call("memory_read", {"key": "deploy"})
BAD_KEY = Call("memory_read", {"key": "../etc"})
NO_JSON = [
    Call("memory_read", f'{{"key": {value}}}')
    for value in ("NaN", "-Infinity", "1e999", "9" * 8000, "[" * 5000 + "]" * 5000)
]
"""Arguments that Python's parser takes for JSON, or cannot read though they are."""
NO_NUMBERS: list[Any] = [float("nan"), float("-inf"), 10**8000]
MADE_UP = Call("memory_forget_everything", {})

pytestmark = pytest.mark.anyio

OpenRun = Callable[[], AbstractAsyncContextManager[Run]]


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])


@pytest.fixture
def open_run(tmp_path: Path) -> OpenRun:
    """A run of its own process each time, over one store."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Run]:
        async with MemorySidecar.launch(identity="tester", store_dir=tmp_path) as memory, memory.run() as run:
            yield run

    return opened


# --- the examples, as a reader would run them ------------------------------------------------------------------------


def quote(request: Request) -> str:
    """What the model says on Friday: the note, as the tool's answer told it."""
    return json.loads(request.results[0].text)["content"]


@pytest.mark.parametrize(
    "name",
    ["anthropic_messages", "openai_responses", "openai_chat", "pydantic_ai_toolset", "openai_agents_tools"],
)
def test_example(name: str, example: Callable[..., str]) -> None:
    with scripted_model([WRITE], "Noted.", [READ], quote) as model:
        assert example(name, **model.environment).splitlines() == ["Noted.", "We deploy on Tuesdays."]
    first, _, second, _ = model.requests
    assert [tool["name"] for tool in first.tools] == TOOLS
    assert "(no notes yet)" in first.system
    assert "- deploy: When we deploy" in second.system
    assert [json.loads(result.text) for result in model.results] == [
        {"written": True, "key": "deploy"},
        {"found": True, **NOTE},
    ]


def test_mcp_example(example: Callable[..., str]) -> None:
    assert example("mcp_session").splitlines() == [
        f"Tools: {', '.join(TOOLS)}",
        "Monday: {'written': True, 'key': 'deploy'}",
        "Friday: - deploy: When we deploy",
        "Friday: We deploy on Tuesdays.",
    ]


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_an_example_is_short(example: Path) -> None:
    assert len(example.read_text().splitlines()) < 40


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs an example as the program of this process, in which the SDKs are loaded already; what it prints."""

    def run(name: str, **environment: str) -> str:
        path = str(EXAMPLES / f"{name}.py")
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", [path])
        for variable, value in environment.items():
            monkeypatch.setenv(variable, value)
        runpy.run_path(path, run_name="__main__")
        said = capfd.readouterr()
        assert not said.err
        return said.out

    return run


# --- no SDK is needed where none is used -----------------------------------------------------------------------------


def test_the_library_imports_no_sdk() -> None:
    code = """
import sys
import memory_sidecar.harness, memory_sidecar.harness.anthropic, memory_sidecar.harness.openai
import memory_sidecar.harness.openai_agents, memory_sidecar.harness.mcp
print(sorted({"anthropic", "openai", "agents", "mcp", "pydantic_ai", "pydantic"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("module", "extra", "code"),
    [
        ("pydantic_ai", "pydantic-ai", "import memory_sidecar.harness.pydantic_ai"),
        ("mcp", "mcp", "from memory_sidecar.harness.mcp import memory_session as m; asyncio.run(m().__aenter__())"),
        ("mcp", "mcp", "from memory_sidecar.harness.mcp import memory_transport as m; asyncio.run(m().__aenter__())"),
    ],
)
def test_a_missing_sdk_is_named_with_its_extra(module: str, extra: str, code: str) -> None:
    code = f"import asyncio, sys; sys.modules[{module!r}] = None; {code}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"pip install 'memory-sidecar[{extra}]'" in done.stderr.splitlines()[-1]


# --- Anthropic -------------------------------------------------------------------------------------------------------


def check_errors(model: ScriptedModel, flagged: bool) -> None:
    bad_key, made_up = model.results
    assert "key is not legal" in bad_key.text
    assert not bad_key.text.startswith("ToolError")
    assert bad_key.is_error is (True if flagged else None)
    assert made_up.is_error is (True if flagged else None)


async def test_anthropic_by_hand(open_run: OpenRun) -> None:
    from anthropic import AsyncAnthropic

    from memory_sidecar.harness.anthropic import memory_tool_params, memory_tool_result

    async def ask(question: str) -> str:
        messages: list[Any] = [{"role": "user", "content": question}]
        async with open_run() as run, AsyncAnthropic(base_url=model.url, api_key="none") as client:
            while True:
                reply = await client.messages.create(
                    model="scripted",
                    max_tokens=100,
                    system=run.instructions,
                    messages=messages,
                    tools=memory_tool_params(run),
                )
                messages.append({"role": "assistant", "content": reply.content})
                results = [await memory_tool_result(run, block) for block in reply.content if block.type == "tool_use"]
                if not results:
                    return reply.content[0].text
                messages.append({"role": "user", "content": results})

    with scripted_model([WRITE], "Noted.", [READ, WRITE], quote) as model:
        assert await ask("Note it.") == "Noted."
        assert await ask("When?") == "We deploy on Tuesdays."
    assert '"code":"exists"' in model.results[-1].text
    assert model.results[-1].is_error is False  # a refusal that the model can act on is no error
    with scripted_model([BAD_KEY, MADE_UP], "Oh.") as model:
        await ask("Break it.")
    check_errors(model, flagged=True)
    assert model.results[1].text.startswith("unknown tool; the tools are: memory_list")


async def test_anthropic_input_that_json_cannot_carry(open_run: OpenRun) -> None:
    from anthropic.types import ToolUseBlock

    from memory_sidecar.harness.anthropic import memory_tool_result, memory_tools

    async with open_run() as run:
        read = next(tool for tool in memory_tools(run) if tool.name == "memory_read")
        for value in NO_NUMBERS:
            block = ToolUseBlock.model_construct(id="1", name="memory_read", input={"key": value}, type="tool_use")
            with anyio.fail_after(60):
                result = await memory_tool_result(run, block)
                assert result.get("is_error") is True
                assert "what JSON cannot carry" in str(result.get("content"))
                with pytest.raises(Exception, match="what JSON cannot carry"):
                    await read.call({"key": value})


async def test_anthropic_tool_runner(open_run: OpenRun) -> None:
    from anthropic import AsyncAnthropic

    from memory_sidecar.harness.anthropic import memory_tools

    with scripted_model([BAD_KEY, MADE_UP], "Oh.") as model:
        async with open_run() as run, AsyncAnthropic(base_url=model.url, api_key="none") as client:
            runner = client.beta.messages.tool_runner(
                model="scripted",
                max_tokens=100,
                tools=memory_tools(run),
                messages=[{"role": "user", "content": "Break it."}],
            )
            with pytest.warns(UserWarning, match="memory_forget_everything"):  # the SDK's own word on such tools
                message = await runner.until_done()
    assert message.content[0].text == "Oh."
    check_errors(model, flagged=True)


# --- OpenAI ----------------------------------------------------------------------------------------------------------


async def test_openai_responses(open_run: OpenRun) -> None:
    from openai import AsyncOpenAI

    from memory_sidecar.harness.openai import memory_call_output, memory_tools

    calls = [
        BAD_KEY,
        MADE_UP,
        Call("memory_read", '{"key": '),
        Call("memory_read", '["deploy"]'),
        Call("memory_list", ""),
        *NO_JSON,
    ]
    with scripted_model(calls, "Oh.") as model:
        async with open_run() as run, AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none") as client:
            items: list[Any] = [{"role": "user", "content": "Break it."}]
            response = await client.responses.create(model="scripted", tools=memory_tools(run), input=items)
            items += response.output
            items += [await memory_call_output(run, item) for item in response.output if item.type == "function_call"]
            await client.responses.create(model="scripted", tools=memory_tools(run), input=items)
    check_texts(model)


async def test_openai_chat(open_run: OpenRun) -> None:
    from openai import AsyncOpenAI

    from memory_sidecar.harness.openai import memory_chat_message, memory_chat_tools

    calls = [
        BAD_KEY,
        MADE_UP,
        Call("memory_read", '{"key": '),
        Call("memory_read", '["deploy"]'),
        Call("memory_list", ""),
        *NO_JSON,
    ]
    with scripted_model(calls, "Oh.") as model:
        async with open_run() as run, AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none") as client:
            messages: list[Any] = [{"role": "user", "content": "Break it."}]
            tools = memory_chat_tools(run)
            done = await client.chat.completions.create(model="scripted", tools=tools, messages=messages)
            message = done.choices[0].message
            messages += [message, *[await memory_chat_message(run, call) for call in message.tool_calls or ()]]
            await client.chat.completions.create(model="scripted", tools=tools, messages=messages)
    check_texts(model)


def check_texts(model: ScriptedModel) -> None:
    bad_key, made_up, torn, no_object, empty, *no_json = (json.loads(result.text) for result in model.results)
    assert "key is not legal" in bad_key["error"]
    assert made_up["error"].startswith("unknown tool; the tools are: memory_list")
    assert torn == no_object == {"error": "The arguments must be a JSON object."}
    assert empty == {"memories": []}
    assert len(no_json) == len(NO_JSON)
    assert all("what JSON cannot carry" in answer["error"] for answer in no_json)


async def test_openai_custom_tool_calls_are_not_ours(open_run: OpenRun) -> None:
    from openai.types.chat import ChatCompletionMessageCustomToolCall
    from openai.types.chat.chat_completion_message_custom_tool_call import Custom

    from memory_sidecar.harness.openai import memory_chat_message

    call = ChatCompletionMessageCustomToolCall(id="1", type="custom", custom=Custom(name="shell", input="ls"))
    async with open_run() as run:
        answer = await memory_chat_message(run, call)
    assert answer["tool_call_id"] == "1"
    assert "unknown tool" in str(answer["content"])


async def test_what_the_model_cannot_mend_is_raised(open_run: OpenRun) -> None:
    from openai.types.responses import ResponseFunctionToolCall

    from memory_sidecar.harness.openai import memory_call_output

    call = ResponseFunctionToolCall(call_id="1", name="memory_list", arguments="{}", type="function_call")
    async with open_run() as run:
        await run.finish("completed")
        with pytest.raises(RequestRefusedError, match="not open"):
            await memory_call_output(run, call)


# --- OpenAI Agents SDK -----------------------------------------------------------------------------------------------


@on_asyncio
async def test_openai_agents(open_run: OpenRun) -> None:
    from agents import Agent, ModelBehaviorError, OpenAIChatCompletionsModel, RunConfig, Runner
    from openai import AsyncOpenAI

    from memory_sidecar.harness.openai_agents import memory_tools

    async def ask(model: ScriptedModel) -> str:
        async with open_run() as run, AsyncOpenAI(base_url=f"{model.url}/v1", api_key="none") as client:
            chat = OpenAIChatCompletionsModel(model="scripted", openai_client=client)
            agent = Agent(name="Tester", model=chat, instructions=run.instructions, tools=memory_tools(run))
            return str((await Runner.run(agent, "Go.", run_config=RunConfig(tracing_disabled=True))).final_output)

    with scripted_model([BAD_KEY, Call("memory_read", '{"key": '), *NO_JSON[:-1]], "Oh.") as model:
        assert await ask(model) == "Oh."
    assert all("what JSON cannot carry" in result.text for result in model.results[2:])
    assert "key is not legal" in model.results[0].text
    assert model.results[1].text == "The arguments must be a JSON object."
    with scripted_model([MADE_UP]) as model, pytest.raises(ModelBehaviorError, match="memory_forget_everything"):
        await ask(model)  # the SDK ends the agent's run on a tool that the model made up


# --- Pydantic AI -----------------------------------------------------------------------------------------------------


@on_asyncio
async def test_pydantic_ai(open_run: OpenRun) -> None:
    from pydantic_ai import Agent, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from memory_sidecar.harness.pydantic_ai import MemoryToolset

    answers: list[Any] = []

    def play(*turns: list[ToolCallPart]) -> FunctionModel:
        script = list(turns)

        def respond(messages: list[Any], info: AgentInfo) -> ModelResponse:
            assert [tool.name for tool in info.function_tools] == TOOLS
            assert "<memory-index>" in (info.instructions or "")
            answers.extend(part for part in messages[-1].parts if isinstance(part, ToolReturnPart))
            return ModelResponse(parts=script.pop(0) if script else [TextPart("Done.")])

        return FunctionModel(respond)

    async def ask(model: FunctionModel) -> None:
        async with open_run() as run:
            assert (await Agent(model).run("Go.", toolsets=[MemoryToolset(run)])).output == "Done."

    await ask(play([ToolCallPart("memory_write", NOTE)]))
    await ask(play([ToolCallPart("memory_read", {"key": "deploy"})]))
    assert [part.content for part in answers] == [{"written": True, "key": "deploy"}, {"found": True, **NOTE}]

    answers.clear()
    bad = [ToolCallPart("memory_read", {"key": "../etc"})]
    await ask(play(bad, bad, bad, [ToolCallPart("memory_forget_everything", {})]))
    assert [part.outcome for part in answers[:3]] == ["failed"] * 3  # as often as the model likes
    assert "key is not legal" in answers[0].content
    assert answers[3].outcome == "retried"  # the SDK's way with a tool that the model made up
    assert "memory_forget_everything" in str(answers[3].content)

    answers.clear()
    await ask(play(*([ToolCallPart("memory_read", {"key": value})] for value in NO_NUMBERS)))
    await ask(play(*([ToolCallPart("memory_read", f'{{"key": {value}}}')] for value in ("NaN", "1e999"))))
    assert [part.outcome for part in answers] == ["failed"] * 5
    assert all("what JSON cannot carry" in part.content for part in answers)


@on_asyncio
async def test_pydantic_ai_test_model_calls_every_tool(open_run: OpenRun) -> None:
    """TestModel makes up arguments from the schemas, so it shows that the schemas can be satisfied."""
    from pydantic_ai import Agent, RunContext
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.usage import RunUsage

    from memory_sidecar.harness.pydantic_ai import MemoryToolset

    async with open_run() as run:
        toolset = MemoryToolset(run, id="memory")
        model = TestModel()
        assert toolset.id == "memory"
        context: RunContext[None] = RunContext(deps=None, model=model, usage=RunUsage())
        assert list(await toolset.get_tools(context)) == TOOLS
        output = json.loads((await Agent(model).run("Go.", toolsets=[toolset])).output)
    assert list(output) == TOOLS
    assert output["memory_write"]["written"] is True


# --- what the adapters make stays private ----------------------------------------------------------------------------


@on_asyncio
async def test_nothing_that_the_adapters_make_answers_a_stranger(open_run: OpenRun, tmp_path: Path) -> None:
    from mcp import Client

    from exposure_policy import ExposureRefused, Surface
    from exposure_policy.serving import Serving, memory_for_my_own_thinking
    from memory_sidecar.harness import anthropic, openai_agents
    from memory_sidecar.harness.mcp import memory_session, memory_transport
    from memory_sidecar.harness.pydantic_ai import MemoryToolset

    transport: Any = memory_transport(identity="t", store_dir=tmp_path, errlog=sys.__stderr__)
    async with (
        open_run() as run,
        memory_session(identity="t", store_dir=tmp_path, errlog=sys.__stderr__) as session,
        Client(transport) as client,
    ):
        runnable: Any = anthropic.memory_tools(run)[1]
        function: Any = openai_agents.memory_tools(run)[1]
        toolset: Any = MemoryToolset(run)
        waiting: dict[str, Callable[[], Any]] = {
            "anthropic": lambda: runnable.call({"key": "a"}),
            "openai_agents": lambda: function.on_invoke_tool(None, '{"key": "a"}'),
            "pydantic_ai": lambda: toolset.call_tool("memory_read", {"key": "a"}, None, None),
            "session": lambda: session.call_tool("memory_read", {"key": "a"}),
            "transport": lambda: client.call_tool("memory_read", {"key": "a"}),
        }
        for name, ask in waiting.items():
            with Serving(Surface.MCP), pytest.raises(ExposureRefused, match="memory is private"):
                pytest.fail(f"{name}: {await ask()}")
            with Serving(Surface.MCP), memory_for_my_own_thinking(reason="a test"):
                assert "Nothing is stored under this key" in str(await ask()), name


# --- the official MCP SDK --------------------------------------------------------------------------------------------


async def test_mcp_session(tmp_path: Path) -> None:
    from mcp import MCPError

    from memory_sidecar.harness.mcp import memory_session

    async with memory_session(identity="tester", store_dir=tmp_path, run="monday", errlog=sys.__stderr__) as session:
        assert [tool.name for tool in (await session.list_tools()).tools] == TOOLS
        assert "(no notes yet)" in (session.instructions or "")
        result = await session.call_tool("memory_write", NOTE)
        assert result.structured_content == {"written": True, "key": "deploy"}
        refused = await session.call_tool("memory_read", {"key": "../etc"})
        assert refused.is_error
        with pytest.raises(MCPError, match="unknown tool"):
            await session.call_tool("memory_forget_everything", {})
    journal = (tmp_path / "runs" / "tester" / "monday.jsonl").read_text()
    assert '"reason":"suspended"' in journal
    async with memory_session(identity="tester", store_dir=tmp_path, run="monday", errlog=sys.__stderr__) as session:
        assert "- deploy: When we deploy" in (session.instructions or "")
        read = await session.call_tool("memory_read", {"key": "deploy"})
        assert read.structured_content == {"found": True, **NOTE}


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_the_transport_serves_a_client_that_knows_nothing_of_the_ticket(mode: str, tmp_path: Path) -> None:
    from mcp import Client, MCPError

    from memory_sidecar.harness.mcp import memory_transport

    def transport(**options: Any) -> Any:
        return memory_transport(identity="tester", store_dir=tmp_path, run="monday", errlog=sys.__stderr__, **options)

    async with Client(transport(), mode=mode) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == TOOLS
        assert (await client.call_tool("memory_write", NOTE)).structured_content == {"written": True, "key": "deploy"}
        with anyio.fail_after(60), pytest.raises(MCPError, match="longer than 1048576 bytes"):
            await client.call_tool("memory_write", {**NOTE, "content": "x" * 1_048_600})
        assert (await client.call_tool("memory_read", {"key": "../etc"})).is_error
    assert '"reason":"suspended"' in (tmp_path / "runs" / "tester" / "monday.jsonl").read_text()
    async with Client(transport(), mode=mode) as client:
        if mode != "2026-07-28":  # such a client asks for nothing before its first request
            assert "- deploy: When we deploy" in (client.instructions or "")
        assert (await client.call_tool("memory_read", {"key": "deploy"})).structured_content == {"found": True, **NOTE}
    (tmp_path / "bad.yaml").write_text("harness: {memory: {enabeld: true}}")
    with pytest.raises((MCPError, ExceptionGroup)) as refused:
        async with Client(transport(config=tmp_path / "bad.yaml"), mode=mode) as client:
            await client.list_tools()
    assert "did you mean enabled?" in "".join(traceback.format_exception(refused.value))


async def test_the_transport_says_why_it_cannot_start(tmp_path: Path) -> None:
    from memory_sidecar.harness.mcp import memory_transport

    with pytest.raises(StartError, match=r"cannot run /nowhere: No such file or directory; check the command"):
        async with memory_transport(command=["/nowhere"], identity="tester", store_dir=tmp_path):
            pytest.fail("it started")


async def test_mcp_session_raises_what_the_block_raises(tmp_path: Path) -> None:
    from memory_sidecar.harness.mcp import memory_session

    for raised in (LookupError("mine"), ExceptionGroup("mine", [ValueError("a")]), KeyboardInterrupt("stop")):
        try:
            async with memory_session(identity="tester", store_dir=tmp_path, errlog=sys.__stderr__):
                raise raised
        except BaseException as error:  # noqa: BLE001 - pytest.raises treats an interrupt as its own
            assert error is raised  # noqa: PT017


async def test_mcp_session_can_be_cancelled(tmp_path: Path) -> None:
    from memory_sidecar.harness.mcp import memory_session

    with anyio.move_on_after(60) as scope:
        async with memory_session(identity="tester", store_dir=tmp_path, run="r", errlog=sys.__stderr__) as session:
            await session.call_tool("memory_write", NOTE)
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert '"reason":"suspended"' in (tmp_path / "runs" / "tester" / "r.jsonl").read_text()


async def test_mcp_session_refuses_what_the_sidecar_would_not_read_and_goes_on(tmp_path: Path) -> None:
    from mcp import MCPError

    from memory_sidecar.harness.mcp import memory_session

    async with memory_session(identity="tester", store_dir=tmp_path, errlog=sys.__stderr__) as session:
        with anyio.fail_after(60), pytest.raises(MCPError, match="longer than 1048576 bytes"):
            await session.call_tool("memory_write", {**NOTE, "content": "x" * 1_048_600})
        with pytest.raises(MCPError, match="longer than 1048576 bytes"):
            await session.call_tool("memory_write", {**NOTE, "content": "é" * 524_300})
        too_much = await session.call_tool("memory_write", {**NOTE, "content": "x" * 1_048_000})
        assert too_much.is_error  # what the sidecar does read, it answers to the model
        assert (await session.call_tool("memory_write", NOTE)).structured_content == {"written": True, "key": "deploy"}


async def test_mcp_session_refuses_what_json_cannot_carry_and_goes_on(tmp_path: Path) -> None:
    from mcp import MCPError

    from memory_sidecar.harness.mcp import memory_session

    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    circle: list[Any] = []
    circle.append(circle)
    async with memory_session(identity="tester", store_dir=tmp_path, errlog=sys.__stderr__) as session:
        for value in (deep, circle, object(), b"\xff"):  # the SDK's own refusal, before it takes a request
            with anyio.fail_after(60), pytest.raises(ValueError, match=r"depth|Circular|serializ|utf-8"):
                await session.call_tool("memory_write", {**NOTE, "content": value})
        for value in (10**8000, "\ud83d"):
            with anyio.fail_after(60), pytest.raises(MCPError, match=r"JSON.*; send it without"):
                await session.call_tool("memory_write", {**NOTE, "content": value})
        for value in (float("nan"), float("inf")):  # the SDK writes null for them
            with anyio.fail_after(60):
                assert (await session.call_tool("memory_write", {**NOTE, "content": value})).is_error
        assert (await session.call_tool("memory_write", NOTE)).structured_content == {"written": True, "key": "deploy"}


async def test_mcp_session_with_a_sidecar_that_stops_and_dies(tmp_path: Path) -> None:
    """A cancelled call returns at once though nothing answers; a death fails the call under way; what was saved is."""
    from mcp import MCPError

    from memory_sidecar.harness.mcp import memory_session

    def settings() -> dict[str, Any]:
        return {"identity": "tester", "store_dir": tmp_path, "run": "monday", "errlog": sys.__stderr__}

    before = children()
    async with memory_session(**settings()) as session:
        (pid,) = map(int, children() - before)
        await session.call_tool("memory_write", NOTE)
        with pytest.raises(StartError, match=r"run monday is (open|in use)"):
            async with memory_session(**settings()):
                pytest.fail("the run was opened twice")
        async with memory_session(**{**settings(), "run": "tuesday"}) as other:
            assert (await other.call_tool("memory_read", {"key": "deploy"})).structured_content == {
                "found": True,
                **NOTE,
            }
        os.kill(pid, signal.SIGSTOP)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.call_tool, "memory_list", {})
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
            async with anyio.create_task_group() as tasks:

                async def pending() -> None:
                    with pytest.raises(MCPError, match="Connection closed"):
                        await session.call_tool("memory_list", {})

                tasks.start_soon(pending)
                await anyio.wait_all_tasks_blocked()
                os.kill(pid, signal.SIGKILL)
            with pytest.raises(MCPError, match="Connection closed"):
                await session.call_tool("memory_list", {})
    async with memory_session(**settings()) as session:
        assert "- deploy: When we deploy" in (session.instructions or "")


async def test_mcp_session_says_why_it_cannot_start(tmp_path: Path) -> None:
    from memory_sidecar.harness.mcp import memory_session

    (tmp_path / "bad.yaml").write_text("harness: {memory: {enabeld: true}}")
    with pytest.raises(StartError, match="enabled"):
        async with memory_session(config=tmp_path / "bad.yaml", store_dir=tmp_path, errlog=sys.__stderr__):
            pass

"""The proof that the wire is MCP: the official client library is the harness here, and its own models judge."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from jsonschema import Draft202012Validator
from mcp import Client, ClientSession, MCPError, StdioServerParameters, types
from mcp.client import stdio
from mcp.client.extension import ClientExtension
from mcp.client.stdio import stdio_client
from pydantic import BaseModel
from tests.support.sidecar import EXTENSION, RUN, SERVE, TICKET, environment, make_ticket

from exposure_policy import TOOLS

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Launch:
    """How a harness starts the sidecar through an SDK: with a ticket in the environment, and its exit noted."""

    def __init__(self, base: Path, *arguments: str) -> None:
        self.ticket = base / "ticket"
        self.status = base / "status"
        self.token = make_ticket(self.ticket)
        # The SDK keeps the process to itself; a shell around it writes down how it ended.
        words = [*SERVE, "--store-dir", str(base / "state"), "--identity", "tester", *arguments]
        self.parameters = StdioServerParameters(
            command="sh",
            args=["-c", f'"$@"; echo $? > {self.status}', "sh", *words],
            env=environment(**{TICKET: str(self.ticket)}),
        )

    async def exit_status(self) -> int:
        with anyio.fail_after(60):
            while not self.status.exists() or not self.status.read_text().strip():
                await anyio.sleep(0.01)
        return int(self.status.read_text())


@asynccontextmanager
async def session(launch: Launch, **settings: Any) -> AsyncIterator[ClientSession]:
    extensions = {EXTENSION: settings} if settings else None
    async with (
        stdio_client(launch.parameters, errlog=sys.__stderr__ or sys.stderr) as (reads, writes),
        ClientSession(reads, writes, extensions=extensions) as client,
    ):
        yield client


@pytest.fixture
def launch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Launch:
    # The SDK kills what has not ended by then, and with it the shell that would tell how it did.
    monkeypatch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", 60.0)
    return Launch(tmp_path)


async def test_the_official_client_connects_lists_and_calls(launch: Launch) -> None:
    async with session(launch, ticket=launch.token) as client:
        hello = await client.initialize()
        assert hello.server_info.name == "memory-sidecar"
        assert hello.capabilities.tools is not None
        assert hello.capabilities.resources is None
        assert hello.instructions is not None
        assert "memory_read" in hello.instructions
        assert hello.meta is not None
        run = hello.meta[RUN]
        await client.send_ping()
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == list(TOOLS)
        note = {"key": "plan", "description": "the plan", "content": "one\ntwo é\n"}
        changed = {**note, "content": "three", "overwrite": True}
        calls: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("memory_list", {}, {"memories": []}),
            ("memory_write", note, {"written": True, "key": "plan"}),
            ("memory_write", note, {"written": False, "code": "exists"}),
            ("memory_list", {}, {"memories": [{"key": "plan", "description": "the plan"}]}),
            ("memory_read", {"key": "plan"}, {"found": True, **note}),
            ("memory_read", {"key": "none"}, {"found": False, "key": "none"}),
            ("memory_write", changed, {"written": True}),
            ("memory_delete", {"key": "plan"}, {"deleted": True, "key": "plan"}),
            ("memory_delete", {"key": "plan"}, {"deleted": False, "key": "plan"}),
        ]
        for name, arguments, expected in calls:
            answer = await client.call_tool(name, arguments)
            assert isinstance(answer, types.CallToolResult)
            assert answer.is_error is False
            assert answer.structured_content is not None
            assert answer.structured_content.items() >= expected.items()
            assert answer.meta == {RUN: run}
            schema = tools[name].output_schema
            assert schema is not None
            Draft202012Validator(schema).validate(answer.structured_content)
            (text,) = answer.content
            assert isinstance(text, types.TextContent)

            assert json.loads(text.text) == answer.structured_content
        refused = await client.call_tool("memory_read", {"key": "../x"})
        assert isinstance(refused, types.CallToolResult)
        assert refused.is_error is True
    assert await launch.exit_status() == 0


class Harness(ClientExtension):
    """How a harness on the SDK's own client presents its ticket."""

    identifier = EXTENSION

    def __init__(self, token: str) -> None:
        self._token = token

    def settings(self) -> dict[str, Any]:
        return {"ticket": self._token}


Mode = Literal["auto", "legacy", "2026-07-28"]
MODES: tuple[Mode, ...] = ("auto", "legacy", "2026-07-28")


@pytest.mark.parametrize("mode", MODES)
async def test_the_client_class_connects_with_an_extension(launch: Launch, mode: Mode) -> None:
    async with Client(launch.parameters, mode=mode, extensions=[Harness(launch.token)]) as client:
        assert len((await client.list_tools()).tools) == len(TOOLS)
        answer = await client.call_tool("memory_write", {"key": "k", "description": "d", "content": "c"})
        assert answer.structured_content == {"written": True, "key": "k"}
        answer = await client.call_tool("memory_list", {})
        assert answer.structured_content == {"memories": [{"key": "k", "description": "d"}]}
        if mode == "auto":
            assert client.instructions is not None
            assert "memory_read" in client.instructions
    assert await launch.exit_status() == 0


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wrong", [True, False])
async def test_the_client_class_without_the_ticket_is_refused_by_the_policys_words(
    launch: Launch, mode: Mode, *, wrong: bool
) -> None:
    extensions = [Harness("A" * 43)] if wrong else []
    with pytest.RaisesGroup(
        pytest.RaisesExc(MCPError, match="exposure policy"), allow_unwrapped=True, flatten_subgroups=True
    ):
        async with Client(launch.parameters, mode=mode, extensions=extensions) as client:
            await client.list_tools()
    assert await launch.exit_status() == 77


async def test_the_same_client_without_the_ticket_is_refused(launch: Launch) -> None:
    await assert_refused(launch)


async def test_the_same_client_with_a_wrong_ticket_is_refused(launch: Launch) -> None:
    await assert_refused(launch, ticket="A" * 43)


async def test_the_same_client_with_a_used_ticket_is_refused(launch: Launch) -> None:
    async with session(launch, ticket=launch.token) as client:
        await client.initialize()
    assert await launch.exit_status() == 0
    launch.status.unlink()
    await assert_refused(launch, ticket=launch.token)


async def assert_refused(launch: Launch, **settings: Any) -> None:
    async with session(launch, **settings) as client:
        with pytest.raises(MCPError) as caught:
            await client.initialize()
        error = caught.value.error
        assert error.code == types.MISSING_REQUIRED_CLIENT_CAPABILITY == -32021
        assert "policy" in error.message
        # The SDK's own model of this error's data.
        data = types.MissingRequiredClientCapabilityErrorData.model_validate(error.data)
        assert data.required_capabilities.extensions == {EXTENSION: {}}
        assert await launch.exit_status() == 77


class Params(BaseModel):
    run: str
    reason: str | None = None


class Lifecycle(types.Request[Params, str]):
    method: str
    params: Params


class Answer(types.Result):
    run: str
    resumed: bool | None = None
    scope: dict[str, Any]
    tools: list[types.Tool] | None = None


async def test_runs_are_opened_and_ended_through_the_clients_own_requests(launch: Launch) -> None:
    async with session(launch, ticket=launch.token) as client:
        await client.initialize()
        await client.list_tools()

        async def ask(method: str, **params: str) -> Answer:
            request = Lifecycle(method=f"memory-sidecar/run/{method}", params=Params(run="monday", **params))
            return await client.send_request(request, Answer)

        opened = await ask("open")
        assert opened.resumed is False
        assert opened.tools is not None
        assert opened.tools[0].name == "memory_list"
        written = await client.call_tool(
            "memory_write", {"key": "k", "description": "d", "content": "c"}, meta={RUN: "monday"}
        )
        assert isinstance(written, types.CallToolResult)
        assert written.meta == {RUN: "monday"}
        assert list((await ask("suspend")).scope["keys"]) == ["k"]
        assert (await ask("open")).resumed is True
        assert list((await ask("finish", reason="completed")).scope["keys"]) == ["k"]
        with pytest.raises(MCPError, match="completed"):
            await ask("open")


async def test_before_the_handshake_the_client_learns_nothing(launch: Launch) -> None:
    async with session(launch, ticket=launch.token) as client:
        with pytest.raises((MCPError, RuntimeError)):
            await client.list_tools()

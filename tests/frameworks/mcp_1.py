"""The transport and the session on the official SDK 1.x; `python -m tests.frameworks mcp-1` runs it there."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio
from mcp import ClientSession

from exposure_policy import ExposureRefused, Surface
from exposure_policy.serving import Serving
from memory_sidecar.harness import SidecarDiedError, StartError
from memory_sidecar.harness.mcp import memory_session, memory_transport

NOTE = {"key": "deploy", "description": "When we deploy", "content": "We deploy on Tuesdays."}


WHO = {"asyncio": "assistant", "trio": "another"}
"""Each loop has a memory of its own, which is empty at first."""


async def main(backend: str) -> None:
    def settings(**more: Any) -> dict[str, Any]:
        return {"identity": WHO[backend], "store_dir": "state", **more}

    async def starts_not(*, says: str, **more: Any) -> None:
        try:
            async with memory_session(errlog=sys.__stdout__, **settings(**more)):
                raise AssertionError("it started")
        except StartError as error:
            assert says in str(error), error  # noqa: PT017

    async with memory_session(**settings(run="monday")) as session:
        assert len((await session.list_tools()).tools) == 4
        assert "(no notes yet)" in str(session.instructions)
        written: Any = await session.call_tool("memory_write", NOTE)
        assert written.structuredContent == {"written": True, "key": "deploy"}, written
        await refused(session, {**NOTE, "content": "x" * 1_048_600}, "longer than 1048576 bytes")
        with Serving(Surface.MCP):
            await refused(session, NOTE, "memory is private", ExposureRefused)

    async with memory_transport(**settings(run="friday")) as streams, ClientSession(*streams) as session:
        assert "- deploy: When we deploy" in str((await session.initialize()).instructions)
        read: Any = await session.call_tool("memory_read", {"key": "deploy"})
        found = read.structuredContent["content"]

    await starts_not(command=["/nowhere"], says="cannot run /nowhere")
    Path("bad.yaml").write_text("harness: {memory: {enabeld: true}}")
    await starts_not(config="bad.yaml", says="did you mean enabled?")

    before = processes()
    try:
        async with memory_session(**settings(run="friday")) as session:
            (pid,) = processes() - before
            os.kill(pid, signal.SIGKILL)
            with anyio.fail_after(20):
                await session.call_tool("memory_list", {})
    except SidecarDiedError as error:
        assert "launch it again with this run" in str(error)  # noqa: PT017
    except Exception as error:
        if type(error).__name__ != "McpError":
            raise
        assert "Connection closed" in str(error)  # noqa: PT017
    else:
        raise AssertionError("a dead sidecar answered")
    assert processes() == before
    print(found)


async def refused(session: ClientSession, note: dict[str, str], says: str, kind: type[Exception] = Exception) -> None:
    try:
        with anyio.fail_after(20):
            await session.call_tool("memory_write", note)
    except kind as error:
        assert says in str(error), error  # noqa: PT017
    else:
        raise AssertionError(f"this was not refused: {says}")


def processes() -> set[int]:
    return {int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


for each in WHO:
    anyio.run(main, each, backend=each)

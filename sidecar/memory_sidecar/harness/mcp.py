"""Memory for a harness that is built on the official MCP SDK (`mcp`): a session with a sidecar of its own.

    async with memory_session(identity="researcher", store_dir="state", run="monday") as session:
        tools = (await session.list_tools()).tools
        result = await session.call_tool("memory_list", {})

The session has one run. `session.instructions` is its system text, and leaving the block suspends it.
"""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TextIO, Unpack

from . import bounds
from .command import LaunchOptions, StrPath, command_line
from .errors import StartError, start_failed, start_refused
from .frames import MAX_FRAME
from .ticket import EXTENSION, launch_environment, ticket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from mcp import ClientSession
    from mcp.client._transport import WriteStream
    from mcp.shared.message import SessionMessage

__all__ = ["memory_session"]


@asynccontextmanager
async def memory_session(
    *,
    run: str | None = None,
    command: Sequence[StrPath] | None = None,
    env: Mapping[str, str] | None = None,
    errlog: TextIO | None = None,
    **options: Unpack[LaunchOptions],
) -> AsyncIterator[ClientSession]:
    """Start a sidecar, yield an initialized `ClientSession` with it, and end it.

    Args:
        run: the run's id; it is resumed if it exists. A new one by default.
        errlog: where the sidecar's log goes; this process's stderr by default.

    The others are those of `MemorySidecar.launch`. A request that is larger than the sidecar reads, or that holds what
    JSON cannot carry, raises the SDK's `MCPError`, or a ValueError where the SDK itself cannot write it (a Python
    object, 250 nested lists); the session goes on. When the sidecar dies, so does every request from then on:
    "Connection closed". What it acknowledged is saved, and a new session with the same `run` resumes it.

    Raises:
        StartError: it cannot start; the text is the remedy.
        TypeError: there is no such option, or a value is of the wrong type.
    """
    import anyio
    from mcp import ClientSession, MCPError, StdioServerParameters
    from mcp.client.stdio import stdio_client

    words = command_line(command, options, run)
    failure: BaseException | None = None
    with ticket() as (path, token):
        server = StdioServerParameters(command=words[0], args=words[1:], env=launch_environment(path, env))
        try:
            async with (
                stdio_client(server, errlog or sys.stderr) as (read, write),
                ClientSession(read, _Bounded(write), extensions={EXTENSION: {"ticket": token}}) as session,
            ):
                try:
                    try:
                        with anyio.fail_after(bounds.START_SECONDS):
                            await session.initialize()
                    except MCPError as error:
                        raise _cannot_start(error) from None
                    except TimeoutError as error:
                        raise start_failed() from error
                    # The guards of exposure_policy know by it what would publish this session.
                    setattr(session, "__memory_private__", True)  # noqa: B010 - no attribute of the SDK's
                    yield session
                except BaseException as error:  # noqa: BLE001 - raised again below, not wrapped in a group
                    failure = error
        except OSError as error:
            raise StartError(f"cannot run {words[0]}: {error.strerror}; check the command") from error
        except ValueError as error:
            raise StartError(f"cannot run {words[0]}: {error}; check the options given") from error
    if failure is not None:
        raise failure


def _cannot_start(error: Any) -> StartError:
    if error.message == "Connection closed":  # the SDK's own word; its code is one of ours too
        return start_failed("the memory sidecar ended before it answered")
    return start_refused(error.code, error.message)


class _Bounded:
    """The SDK's stream to the sidecar, for messages that the sidecar reads: it could not answer a larger one under its
    id, so the wait for that would never end."""

    def __init__(self, stream: WriteStream[SessionMessage]) -> None:
        self._stream = stream

    async def send(self, item: SessionMessage) -> None:
        from mcp import MCPError, types

        try:
            frame = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        except ValueError as error:  # the SDK's writer would fail on it for all others too
            raise MCPError(types.INVALID_REQUEST, f"the request is no JSON: {error}; send it without that") from None
        if len(frame) > MAX_FRAME:
            raise MCPError(types.INVALID_REQUEST, f"the request is longer than {MAX_FRAME} bytes; send less at a time")
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> _Bounded:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exception: Any) -> bool | None:
        return await self._stream.__aexit__(*exception)

"""Memory for a harness that is built on the official MCP SDK (`mcp`): a session with a sidecar of its own.

    async with memory_session(identity="researcher", store_dir="state", run="monday") as session:
        tools = (await session.list_tools()).tools
        result = await session.call_tool("memory_list", {})

The session has one run. `session.instructions` is its system text, and leaving the block suspends it.
"""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TextIO

from .command import StrPath, command_line
from .errors import StartError
from .ticket import EXTENSION, launch_environment, ticket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from mcp import ClientSession

__all__ = ["memory_session"]


@asynccontextmanager
async def memory_session(
    *,
    config: StrPath | None = None,
    identity: str | None = None,
    store_dir: StrPath | None = None,
    journal_dir: StrPath | None = None,
    run: str | None = None,
    command: Sequence[StrPath] | None = None,
    env: Mapping[str, str] | None = None,
    errlog: TextIO | None = None,
) -> AsyncIterator[ClientSession]:
    """Start a sidecar, yield an initialized `ClientSession` with it, and end it.

    Args:
        run: the run's id; it is resumed if it exists. A new one by default.
        errlog: where the sidecar's log goes; this process's stderr by default.

    The others are those of `MemorySidecar.launch`.

    Raises:
        StartError: it cannot start; the text is the remedy.
    """
    from mcp import ClientSession, MCPError, StdioServerParameters
    from mcp.client.stdio import stdio_client

    words = command_line(
        command, config=config, identity=identity, store_dir=store_dir, journal_dir=journal_dir, run=run
    )
    failure: Exception | None = None
    with ticket() as (path, token):
        server = StdioServerParameters(command=words[0], args=words[1:], env=launch_environment(path, env))
        try:
            async with (
                stdio_client(server, errlog or sys.stderr) as (read, write),
                ClientSession(read, write, extensions={EXTENSION: {"ticket": token}}) as session,
            ):
                try:
                    try:
                        await session.initialize()
                    except MCPError as error:
                        raise StartError(str(error)) from None
                    # The guards of exposure_policy know by it what would publish this session.
                    setattr(session, "__memory_private__", True)  # noqa: B010 - no attribute of the SDK's
                    yield session
                except Exception as error:  # noqa: BLE001 - raised again below, not wrapped in a group
                    failure = error
        except OSError as error:
            raise StartError(f"cannot run {words[0]}: {error.strerror}; check the command") from error
    if failure is not None:
        raise failure

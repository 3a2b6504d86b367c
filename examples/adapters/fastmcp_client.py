"""Memory for a program on the client of FastMCP: its transport is made of the pair of streams."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastmcp import Client
from fastmcp.client.transports import ClientTransport
from mcp import ClientSession

from memory_sidecar.harness.mcp import memory_transport


class Memory(ClientTransport):
    @asynccontextmanager
    async def connect_session(self, **session: Any) -> AsyncIterator[ClientSession]:
        async with (
            memory_transport(identity="assistant", store_dir="state") as streams,
            ClientSession(*streams, **session) as connected,
        ):
            yield connected


async def main() -> None:
    note = {"key": "deploy", "description": "When we deploy", "content": "We deploy on Tuesdays."}
    async with Client(Memory()) as client:
        print((await client.call_tool("memory_write", note)).structured_content)
    async with Client(Memory()) as client:
        print((await client.call_tool("memory_read", {"key": "deploy"})).structured_content)


asyncio.run(main())

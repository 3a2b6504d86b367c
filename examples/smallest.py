"""The smallest harness that works: launch, open a run, call a tool."""

import asyncio

from memory_sidecar.harness import MemorySidecar


async def main() -> None:
    async with MemorySidecar.launch(identity="smallest", store_dir="state") as memory, memory.run("first") as run:
        note = {"key": "greeting", "description": "How to greet", "content": "Say hello.", "overwrite": True}
        print((await run.call("memory_write", note)).text)
        print((await run.call("memory_list")).text)


asyncio.run(main())

"""What a Python harness imports: launch the sidecar, open runs, hand the model's calls over.

    async with MemorySidecar.launch(identity="my-agent", store_dir="state") as memory:
        async with memory.run("monday") as run:
            answer = await run.call("memory_list", {})

It works on asyncio (uvloop and the like included) and on trio; `memory_sidecar.harness.sync` is the same for programs
without an event loop. Nothing here is imported by the server side, and nothing of the server side here: the two meet on
the wire.
"""

from .command import LaunchOptions
from .errors import (
    RequestRefusedError,
    SidecarDiedError,
    SidecarError,
    StartError,
)
from .result import ToolResult
from .sidecar import MemorySidecar, Run

__all__ = [
    "LaunchOptions",
    "MemorySidecar",
    "RequestRefusedError",
    "Run",
    "SidecarDiedError",
    "SidecarError",
    "StartError",
    "ToolResult",
]

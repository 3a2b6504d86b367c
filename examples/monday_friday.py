"""Monday and Friday: a run is suspended, someone else changes one note, and the run goes on with what it had earned.

On Monday the run reads two notes. Before Friday another run changes one of them. On Friday both are overwritten
without a fresh read: the untouched one passes, the changed one is refused, read again, and then passes.
"""

import asyncio
import sys
from pathlib import Path

from memory_sidecar.harness import LaunchOptions, MemorySidecar, Run

CONFIG = """\
identity: planner
harness:
  memory:
    enabled: true
    options:
      require_read_before_update: true
"""


async def overwrite(run: Run, key: str, content: str) -> None:
    arguments = {"key": key, "description": f"The {key}", "content": content, "overwrite": True}
    print(f"  overwrite {key}: {(await run.call('memory_write', arguments)).text}")


async def main(state: Path) -> None:
    state.mkdir(parents=True, exist_ok=True)
    config = state / "memory.yaml"
    config.write_text(CONFIG)
    launch: LaunchOptions = {"config": config, "store_dir": state}

    print("Monday: the run writes two notes, and is suspended.")
    async with MemorySidecar.launch(**launch) as memory, memory.run("weekly") as run:
        for key in ("plan", "budget"):
            note = {"key": key, "description": f"The {key}", "content": f"Monday's {key}"}
            print(f"  create {key}: {(await run.call('memory_write', note)).text}")

    print("Wednesday: another run changes the budget.")
    async with MemorySidecar.launch(**launch) as memory, memory.run("audit") as run:
        await run.call("memory_read", {"key": "budget"})
        await overwrite(run, "budget", "Wednesday's budget")

    print("Friday: the run goes on, and overwrites both without reading them again.")
    async with MemorySidecar.launch(**launch) as memory, memory.run("weekly", resume="require") as run:
        print(f"  resumed: {run.resumed}, with authority over: {', '.join(run.scope['keys'])}")
        await overwrite(run, "plan", "Friday's plan")
        await overwrite(run, "budget", "Friday's budget")
        print(f"  read budget: {(await run.call('memory_read', {'key': 'budget'})).text}")
        await overwrite(run, "budget", "Friday's budget")
        await run.finish("completed")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1] if len(sys.argv) > 1 else "state")))

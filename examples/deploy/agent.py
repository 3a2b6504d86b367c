"""A harness as a service: it keeps one run open until it is told to stop, and resumes it at the next start."""

import argparse
import asyncio
import signal

from memory_sidecar.harness import MemorySidecar


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--store-dir", required=True)
    options = parser.parse_args()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with (
        MemorySidecar.launch(config=options.config, store_dir=options.store_dir) as memory,
        memory.run("service") as run,
    ):
        # Here the model's loop would stand: it gets run.instructions and run.tools, and its calls go to run.call.
        print((await run.call("memory_list")).text, flush=True)
        await stop.wait()


asyncio.run(main())

"""A locked process that stays connected to a cluster of which it was told one member. For test_lockdown.py.

It is also the pattern to follow: connect on the only thread there is, lock, and only then start threads.
"""

import asyncio
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import nats
from nats.aio.client import Client

from memory_sidecar.system import lockdown


def ports_of(client: Client) -> set[int]:
    return {server.port for server in client.servers if server.port}


async def connect(url: str, reconnected: asyncio.Event) -> Client:
    async def on_reconnect() -> None:
        reconnected.set()

    client = await nats.connect(url, reconnected_cb=on_reconnect, max_reconnect_attempts=-1, reconnect_time_wait=0.1)
    while len(ports_of(client)) < 3:  # a broker tells of members as it finds them: they are just starting
        await asyncio.sleep(0.05)
    return client


def main() -> None:
    url, journal = sys.argv[1:]
    lockdown.look_up_names_over_tcp()
    loop = asyncio.new_event_loop()
    reconnected = asyncio.Event()
    lookups = ThreadPoolExecutor()
    loop.set_default_executor(lookups)
    client = loop.run_until_complete(connect(url, reconnected))
    lookups.shutdown(wait=True)  # it looked the name up, on a thread that would stay unlocked

    held = lockdown.lock([journal], [*ports_of(client), lockdown.DNS_PORT], "require")
    loop.set_default_executor(ThreadPoolExecutor())
    threading.Thread(target=loop.run_forever, daemon=True).start()

    print(f"locked {held.describe()}", flush=True)
    for _ in sys.stdin:  # one line for each broker that was stopped
        asyncio.run_coroutine_threadsafe(asyncio.wait_for(reconnected.wait(), 20), loop).result()
        loop.call_soon_threadsafe(reconnected.clear)
        asyncio.run_coroutine_threadsafe(client.flush(10), loop).result()
        connected = client.connected_url
        print(f"connected {connected.port if connected else None}", flush=True)


if __name__ == "__main__":
    main()

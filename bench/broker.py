"""A nats-server on loopback for the JetStream backend, and a bucket as its documentation tells operators to make it."""

import asyncio
import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

__all__ = ["make_bucket", "serving"]


@contextmanager
def serving(binary: str, directory: str, context: str) -> Iterator[str]:
    """Run a server on what `directory` holds, and let the `nats` context of that name point at it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"nats://127.0.0.1:{port}"
    contexts = os.path.join(directory, "config", "nats", "context")
    os.makedirs(contexts, exist_ok=True)
    with open(os.path.join(contexts, f"{context}.json"), "w", encoding="utf-8") as file:
        json.dump({"url": url}, file)
    words = [binary, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", os.path.join(directory, "jetstream")]
    with open(os.path.join(directory, "broker.log"), "ab") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    try:
        _wait_for(port)
        yield url
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 20
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                if connection.recv(4) == b"INFO":
                    return
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def make_bucket(url: str, bucket: str, values: Mapping[str, tuple[bytes, dict[str, str]]]) -> None:
    """`nats kv add BUCKET --history=1 --max-value-size=69600`, with some values and their headers in it."""

    async def make() -> None:
        import nats
        from nats.js.api import DiscardPolicy, StreamConfig

        connection = await nats.connect(url)
        stream = connection.jetstream()
        await stream.add_stream(
            StreamConfig(
                name=f"KV_{bucket}",
                subjects=[f"$KV.{bucket}.>"],
                max_msgs_per_subject=1,
                max_msg_size=69600,
                discard=DiscardPolicy.NEW,
                allow_rollup_hdrs=True,
                allow_direct=True,
                deny_delete=True,
            )
        )
        for key, (value, headers) in values.items():
            await stream.publish(f"$KV.{bucket}.{key}", value, headers=headers)
        await connection.close()

    asyncio.run(make())

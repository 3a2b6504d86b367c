"""A hundred sidecars on one bucket of three nodes, while servers restart and die and the bucket's settings change.

Prints how long they take to start, what calls take, what memory and connections they cost; then, while each writes and
reads on, what became of the writes: every one that was acknowledged must be there at the end, as it was written.
`python -m soak.fleet`; --sidecars and --seconds for less. Linux, and a nats-server as the tests install it.
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Coroutine, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tests.support.broker import Cluster, add_bucket, api, connected, leader

from memory_sidecar.harness.sync import MemorySidecar, Run

__all__ = ["main"]

BUCKET = "fleet"


class Agent:
    """One agent that writes notes of its own and reads them back, and keeps count."""

    def __init__(self, number: int, run: Run) -> None:
        self.number = number
        self.run = run
        self.acknowledged: dict[str, str] = {}
        self.unknown: set[str] = set()
        self.refused = 0
        self.reads = 0
        self.wrong: list[str] = []
        self.seconds: list[float] = []

    def work(self, until: float) -> None:
        turn = 0
        chance = random.Random(self.number)
        while time.monotonic() < until:
            key, content = f"k{chance.randrange(8)}", f"{self.number}-{turn}"
            turn += 1
            overwrite = key in self.acknowledged
            answer = self._timed(
                "memory_write", {"key": key, "description": "d", "content": content, "overwrite": overwrite}
            )
            if answer is not None and answer.get("written"):
                self.acknowledged[key] = content
                self.unknown.discard(key)
            elif answer is not None and answer.get("code") in ("exists", "not_read", "changed"):
                if key not in self.unknown:
                    self.wrong.append(f"{key} is told {answer['code']}, and nobody else writes it")
                self._read(key)
            time.sleep(chance.random() * 0.2)

    def _timed(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any] | None:
        began = time.perf_counter()
        result = self.run.call(tool, arguments)
        self.seconds.append(time.perf_counter() - began)
        if result.is_error:
            self.refused += 1
            if tool == "memory_write" and "Nothing was changed" not in result.text:
                self.unknown.add(arguments["key"])
            return None
        found: dict[str, Any] = json.loads(result.text)
        return found

    def _read(self, key: str) -> None:
        """What is there counts, where it is not known whether a write was stored."""
        found = self._timed("memory_read", {"key": key})
        if found is not None and found["found"]:
            self.reads += 1
            if key in self.unknown:
                self.acknowledged[key] = found["content"]
                self.unknown.discard(key)

    def check(self) -> list[str]:
        """Which acknowledged writes are not there."""
        lost = []
        for key, content in self.acknowledged.items():
            deadline = time.monotonic() + 60  # the last election may not be over
            while (found := self.run.call("memory_read", {"key": key})).is_error and time.monotonic() < deadline:
                time.sleep(0.2)
            stored = json.loads(found.text) if not found.is_error else {"found": False}
            if key not in self.unknown and (not stored["found"] or stored["content"] != content):
                lost.append(f"agent {self.number}: {key} holds {stored.get('content')!r:.40}, not {content!r}")
        return lost


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m soak.fleet", description=__doc__)
    parser.add_argument("--sidecars", type=int, default=100, metavar="N", help="default: 100")
    parser.add_argument("--seconds", type=float, default=120, metavar="S", help="of work under trouble; default: 120")
    arguments = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        cluster = Cluster(Path(place) / "cluster")
        stack.callback(cluster.kill)
        cluster.start()
        asyncio.run(_bucket(cluster))
        os.environ["XDG_CONFIG_HOME"] = str(Path(place) / "config")
        contexts = Path(place) / "config" / "nats" / "context"
        contexts.mkdir(parents=True)
        (contexts / "fleet.json").write_text(json.dumps({"url": ",".join(cluster.urls)}))
        config = Path(place) / "fleet.yaml"
        config.write_text(
            "nats_context: fleet\nharness: {memory: {enabled: true, backend: jetstream, options: {bucket: fleet}}}\n"
        )
        agents, starts, share = _launched(stack, config, Path(place), arguments.sidecars)
        _tell("launch, ms", [1000 * one for one in starts])
        quiet = _calls(agents)
        _tell("a write and its answer, nothing else going on, ms", [1000 * one for one in quiet])
        print(f"memory of all sidecars: {share:.0f} MiB, {share / len(agents):.1f} each")
        print(f"connections at the broker: {asyncio.run(_connections(cluster))}")
        sys.stdout.flush()
        trouble = _under_trouble(agents, cluster, arguments.seconds)
        _tell("a call under trouble, ms", [1000 * one for agent in agents for one in agent.seconds])
        lost = [text for agent in agents for text in agent.check()]
        wrong = [text for agent in agents for text in agent.wrong]
        told = {
            "calls": sum(len(agent.seconds) for agent in agents),
            "refused or out of reach": sum(agent.refused for agent in agents),
            "of unknown outcome at the end": sum(len(agent.unknown) for agent in agents),
            "keys acknowledged": sum(len(agent.acknowledged) for agent in agents),
            **trouble,
            "told wrong": len(wrong),
            "acknowledged and lost": len(lost),
        }
        for name, count in told.items():
            print(f"{name:32} {count:8}")
        for text in (*lost[:10], *wrong[:10]):
            print(text)
        return 1 if lost or wrong else 0


async def _bucket(cluster: Cluster) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            async with connected(*cluster.urls) as nc:
                await add_bucket(nc, BUCKET, num_replicas=3)
                return
        except Exception:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.5)


def _launched(stack: ExitStack, config: Path, place: Path, count: int) -> tuple[list[Agent], list[float], float]:
    """The agents, how long each sidecar took to its first answer, and the memory of all together."""
    agents, starts, share = [], [], 0.0
    for number in range(count):
        began = time.perf_counter()
        memory = stack.enter_context(
            MemorySidecar.launch(
                config=config, identity=f"agent-{number}", store_dir=place / "state", log_level="error"
            )
        )
        run = stack.enter_context(memory.run("main"))
        starts.append(time.perf_counter() - began)
        agents.append((memory, Agent(number, run)))
    for memory, _ in agents:
        told = Path(f"/proc/{memory.pid}/smaps_rollup").read_text()
        share += next(int(line.split()[1]) for line in told.splitlines() if line.startswith("Pss:")) / 1024
    return [agent for _, agent in agents], starts, share


def _calls(agents: Sequence[Agent]) -> list[float]:
    taken = []
    for agent in agents:
        began = time.perf_counter()
        agent.run.call("memory_write", {"key": "first", "description": "d", "content": "c"})
        taken.append(time.perf_counter() - began)
    return taken


async def _connections(cluster: Cluster) -> int:
    """TCP connections to the servers' client ports, as this system tells."""
    ports = {f"{node.port:04X}" for node in cluster.nodes.values()}
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return sum(line.split()[3] == "01" and line.split()[1].rpartition(":")[2] in ports for line in lines)


def _under_trouble(agents: Sequence[Agent], cluster: Cluster, seconds: float) -> dict[str, int]:
    """Let all work while a server at a time is restarted or killed, and the settings change; what was done, counted."""
    done = {"servers restarted": 0, "leaders killed": 0, "settings changed": 0}
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=agent.work, args=(until,)) for agent in agents]
    for thread in threads:
        thread.start()
    turn = 0
    while time.monotonic() < until - 15:
        time.sleep(3)
        what = list(done)[turn % 3]
        if what == "servers restarted":
            node = list(cluster.nodes.values())[turn // 3 % 3]
            node.stop()
            node.start()
        elif what == "leaders killed":
            name = _asked(cluster, _leader)
            if name is None:
                turn += 1
                continue
            cluster.nodes[name].kill()
            time.sleep(2)
            cluster.nodes[name].start()
        elif _asked(cluster, _changed) is None:
            turn += 1
            continue
        done[what] += 1
        turn += 1
        time.sleep(4)  # one at a time, as a careful operator does it: two of three servers are always there
    for thread in threads:
        thread.join()
    return done


def _asked(cluster: Cluster, ask: Any) -> Any:
    async def asked() -> Any:
        async with connected(*cluster.urls) as nc:
            work: Coroutine[Any, Any, Any] = ask(nc)
            return await work

    try:
        return asyncio.run(asyncio.wait_for(asked(), 10))
    except Exception:  # noqa: BLE001 - there is no leader for a moment
        return None


async def _leader(nc: Any) -> Any:
    return await leader(nc, BUCKET)


async def _changed(nc: Any) -> bool:
    """Settings that lose nothing: the size that the bucket may have, and its description."""
    info = await api(nc, f"STREAM.INFO.KV_{BUCKET}")
    config = info["config"] | {"max_bytes": random.randrange(1 << 28, 1 << 30), "description": str(time.time())}
    await api(nc, f"STREAM.UPDATE.KV_{BUCKET}", config)
    return True


def _tell(what: str, values: Sequence[float]) -> None:
    cut = statistics.quantiles(values, n=100, method="inclusive") if len(values) > 1 else [*values] * 99
    print(f"{what}: middle {cut[49]:.0f}, 95 % {cut[94]:.0f}, most {max(values):.0f}")


if __name__ == "__main__":
    sys.exit(main())

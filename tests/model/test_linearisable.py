"""Overwrites under the guard, from several sidecars at once, one of them killed again and again: a history that is
linearisable.

Every value is unique, so the history of one key is decided by who replaced what: the successful overwrites must form
one chain from the first value to the last, and the chain must respect real time.
"""

import os
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from tests.support.tally import Tally

from memory_sidecar.harness import MemorySidecar, Run, SidecarDiedError, SidecarError

from .conftest import Bucket

pytestmark = pytest.mark.anyio

WRITERS, ROUNDS = 4, 40
BUCKET_CONFIG = (
    "identity: history\nnats_context: local\n"
    "harness: {memory: {enabled: true, backend: jetstream, options: {bucket: BUCKET}}}\n"
)
CONFIG = "identity: history\nharness: {memory: {enabled: true, options: {require_read_before_update: true}}}\n"


class Overwrite(NamedTuple):
    replaced: str
    value: str
    begun: float
    ended: float
    """infinity if nobody was told how it ended"""


async def write(run: Run, value: str, overwrite: bool = True) -> dict:
    note = {"key": "register", "description": "A register", "content": value, "overwrite": overwrite}
    return (await run.call("memory_write", note)).structured


async def attempt(run: Run, value: str, history: list[Overwrite]) -> None:
    """One read-then-overwrite; what was acknowledged, or may have happened, goes into the history."""
    found = (await run.call("memory_read", {"key": "register"})).structured
    if not found:
        return  # the broker is away
    replaced = found["content"]
    begun = time.monotonic()
    try:
        answer = await write(run, value)
    except SidecarDiedError:
        history.append(Overwrite(replaced, value, begun, float("inf")))
        raise
    if not answer:  # the broker went away; whether in time, nobody can tell
        history.append(Overwrite(replaced, value, begun, float("inf")))
    elif answer["written"]:
        history.append(Overwrite(replaced, value, begun, time.monotonic()))
    else:
        assert answer["code"] == "changed"


def check(first: str, last: str, history: list[Overwrite]) -> int:
    """The length of the chain.

    An overwrite that nobody was told about may be missing from it, at its end or by never having happened.
    """
    by_replaced: dict[str, list[Overwrite]] = {}
    for overwrite in history:
        by_replaced.setdefault(overwrite.replaced, []).append(overwrite)
    at, latest_begin, chain = first, 0.0, 0
    followers = {overwrite.replaced for overwrite in history} | {last}
    while at != last:
        successors = by_replaced.get(at, [])
        acknowledged = [found for found in successors if found.ended < float("inf")]
        assert len(acknowledged) <= 1, f"{at} was replaced by {acknowledged}: an update is lost"
        happened = acknowledged or [found for found in successors if found.value in followers]
        assert len(happened) == 1, f"what replaced {at} is not in the history"
        step = happened[0]
        assert step.ended >= latest_begin, "an overwrite took effect before it was begun"
        latest_begin = max(latest_begin, step.begun)
        at, chain = step.value, chain + 1
    lost = sum(overwrite.ended < float("inf") for overwrite in history) - chain
    assert lost <= 0, f"{lost} acknowledged overwrites are not in the history"
    return chain


async def history_of(
    config: Path, place: Path, rounds: int, disturb: Callable[[], Awaitable[None]] | None = None, **launch: Any
) -> tuple[str, list[Overwrite]]:
    """Several sidecars overwrite one key, one of them killed again and again: its last value, and what they did.

    `disturb` is called all the while.
    """
    history: list[Overwrite] = []
    launch |= {"config": config, "store_dir": place}

    async def writer(name: str, killed: bool) -> None:
        done = 0
        while done < rounds:
            try:
                async with (
                    MemorySidecar.launch(**launch) as memory,
                    memory.run(name) as run,
                    anyio.create_task_group() as tasks,
                ):
                    while done < rounds:
                        done += 1
                        if killed and done % 10 == 0:
                            tasks.start_soon(kill, memory)
                        await attempt(run, f"{name}-{done}", history)
            except* SidecarError:
                pass

    async def kill(memory: MemorySidecar) -> None:
        os.kill(memory.pid, signal.SIGKILL)

    async def disturbing(work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await work()

    async with MemorySidecar.launch(**launch) as memory, memory.run("first") as run:
        await write(run, "first", overwrite=False)
    async with anyio.create_task_group() as trouble:
        if disturb is not None:
            trouble.start_soon(disturbing, disturb)
        async with anyio.create_task_group() as tasks:
            for number in range(WRITERS):
                tasks.start_soon(writer, f"writer{number}", number == 0)
        trouble.cancel_scope.cancel()
    async with MemorySidecar.launch(**launch) as memory, memory.run("last") as run:
        last = (await run.call("memory_read", {"key": "register"})).structured["content"]
    return last, history


def judge(last: str, history: list[Overwrite], tally: Tally, where: str) -> None:
    acknowledged = sum(overwrite.ended < float("inf") for overwrite in history)
    try:
        assert check("first", last, history) >= acknowledged > WRITERS
        wrong = []
    except AssertionError as error:
        wrong = [str(error)]
    tally(f"overwrite one key, {where}", "four writers, SIGKILL: acknowledged", acknowledged, wrong)
    if unknown := len(history) - acknowledged:
        tally(f"overwrite one key, {where}", "four writers, SIGKILL: nobody was told", unknown)


async def test_the_history_of_one_key_is_linearisable(tmp_path: Path, tally: Tally) -> None:
    config = tmp_path / "memory.yaml"
    config.write_text(CONFIG)
    judge(*await history_of(config, tmp_path, ROUNDS), tally, "files")


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_control_overwrites_without_the_guard_are_no_history(tmp_path: Path, tally: Tally) -> None:
    config = tmp_path / "memory.yaml"
    config.write_text(CONFIG.replace("true}}}", "false}}}"))
    last, history = await history_of(config, tmp_path, ROUNDS)
    with pytest.raises(AssertionError) as caught:
        check("first", last, history)
    tally("overwrite one key, no guard", "four writers, SIGKILL", len(history), [str(caught.value)], control=True)


@pytest.fixture
def on_bucket(bucket: Bucket, tmp_path: Path) -> Path:
    path = tmp_path / "memory.yaml"
    path.write_text(BUCKET_CONFIG.replace("BUCKET", bucket.name))
    return path


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("rounds", [20, pytest.param(400, marks=pytest.mark.long)])
async def test_the_history_on_a_bucket_is_linearisable(
    rounds: int, on_bucket: Path, tmp_path: Path, tally: Tally
) -> None:
    judge(*await history_of(on_bucket, tmp_path, rounds), tally, "JetStream")


@pytest.mark.long
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_the_history_on_a_bucket_whose_broker_is_killed(
    on_bucket: Path, bucket: Bucket, tmp_path: Path, tally: Tally
) -> None:
    async def restart() -> None:
        await anyio.sleep(1.5)  # of work between
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(bucket.broker.kill)
            await anyio.to_thread.run_sync(bucket.broker.start)

    last, history = await history_of(on_bucket, tmp_path, 300, restart)
    judge(last, history, tally, "JetStream, broker killed")


def test_the_checker_finds_a_lost_update() -> None:
    lost = [Overwrite("a", "b", 1, 2), Overwrite("a", "c", 3, 4)]
    with pytest.raises(AssertionError, match="an update is lost"):
        check("a", "c", lost)


def test_the_checker_finds_an_overwrite_out_of_time() -> None:
    late = [Overwrite("a", "b", 5, 6), Overwrite("b", "c", 1, 2)]
    with pytest.raises(AssertionError, match="before it was begun"):
        check("a", "c", late)

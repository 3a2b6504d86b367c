"""The model against a real broker, and against whole sidecars on either backend, which are killed and restarted."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.support import properties
from tests.support.sidecar import environment, patched, until
from tests.support.tally import Tally

from memory_sidecar.backend.file import FileOptions, open_file
from memory_sidecar.store.authority import Store
from memory_sidecar.store.errors import StoreError

from .conftest import Bucket
from .machine import Machine
from .processes import Processes, World

FILES = "identity: model\nharness: {memory: {enabled: true, options: {require_read_before_update: GUARD}}}\n"
BUCKET = (
    "identity: model\nnats_context: local\nharness: {memory: {enabled: true, backend: jetstream, "
    "options: {bucket: BUCKET, no_require_read_before_update: BLIND}}}\n"
)


def config(tmp_path: Path, text: str, guard: bool) -> tuple[str, ...]:
    path = tmp_path / "memory.yaml"
    path.write_text(text.replace("GUARD", str(guard).lower()).replace("BLIND", str(not guard).lower()))
    return "--config", str(path), "--identity", "model"


@contextmanager
def on_files(tmp_path: Path, *, guard: bool = True, code: str = "") -> Iterator[World]:
    base = tmp_path / "state"
    other = open_file(FileOptions(), "model", str(base)).store
    env = patched(tmp_path, code) if code else None
    with World(base, config(tmp_path, FILES, guard), other, env=env) as world:
        yield world


@contextmanager
def on_bucket(tmp_path: Path, bucket: Bucket, *, guard: bool = True) -> Iterator[World]:
    other = bucket.open(blind=True)

    def restart() -> None:
        bucket.broker.kill()
        bucket.broker.start()

        def answers() -> bool:
            try:
                other.list()
            except StoreError:
                return False
            return all(not one.call("memory_list").get("isError") for one in world.sidecars)

        until(answers, "everybody is connected again")

    arguments = config(tmp_path, BUCKET.replace("BUCKET", bucket.name), guard)
    with World(
        tmp_path / "state",
        arguments,
        other,
        restart=restart,
        put=bucket.put,
        env=environment(XDG_CONFIG_HOME=bucket.config_home),
    ) as world:
        yield world


def play(machine: type[Machine], examples: int, steps: int, tally: Tally, name: str, *, control: bool = False) -> None:
    """Play so many examples, and count their moves."""
    wrong = []
    bounds: Any = {"max_examples": properties.examples(examples), "stateful_step_count": steps}
    if control:  # what is found need not be made small
        bounds |= {"phases": [Phase.generate], "print_blob": False, "derandomize": True, "database": None}
    try:
        run_state_machine_as_test(machine, settings=settings(**bounds))
    except Exception as error:
        if not control:
            raise
        wrong.append(repr(error))
    if control:
        tally(name, "moves of the model", machine.moves.total(), wrong, control=True)
        return
    for move, times in machine.moves.items():
        tally(name, move, times)


LONG = pytest.mark.long


@pytest.mark.parametrize("guard", [True, False], ids=["guarded", "unguarded"])
@pytest.mark.parametrize("examples", [4, pytest.param(60, marks=LONG)])
def test_two_processes_on_files(examples: int, guard: bool, tmp_path: Path, tally: Tally) -> None:
    with on_files(tmp_path, guard=guard) as world:
        machine = bound(world, guard=guard, revisions_repeat=True)
        play(machine, examples, 30, tally, "model, two processes on files")


@pytest.mark.parametrize("guard", [True, False], ids=["guarded", "unguarded"])
@pytest.mark.parametrize("examples", [4, pytest.param(40, marks=LONG)])
def test_two_processes_on_jetstream(examples: int, guard: bool, bucket: Bucket, tmp_path: Path, tally: Tally) -> None:
    with on_bucket(tmp_path, bucket, guard=guard) as world:
        machine = bound(world, guard=guard, revisions_repeat=False)
        play(machine, examples, 30, tally, "model, two processes on JetStream")


def bound(world: World, *, guard: bool, revisions_repeat: bool) -> type[Processes]:
    class Bound(Processes):
        pass

    Bound.world, Bound.guard, Bound.revisions_repeat = world, guard, revisions_repeat
    return Bound


@pytest.mark.parametrize("guard", [True, False], ids=["guarded", "unguarded"])
@pytest.mark.parametrize("examples", [4, pytest.param(400, marks=LONG)])
def test_runs_on_jetstream(examples: int, guard: bool, bucket: Bucket, tally: Tally) -> None:
    """Runs in this process, so that many examples are cheap."""
    play(in_process(bucket, guard=guard, says_guard=guard), examples, 50, tally, "model, runs on JetStream")


def in_process(bucket: Bucket, *, guard: bool, says_guard: bool) -> type[Machine]:
    store, other = bucket.open(blind=not guard), bucket.open(blind=True)

    class Buckets(Machine):
        revisions_repeat = False

        def open_store(self, _: Path) -> Store:
            for item in other.list():
                other.delete(item.key)
            opened.append(store if len(opened) % 2 == 0 else other)
            return opened[-1]

    opened: list[Store] = []
    Buckets.guard = says_guard
    return Buckets


# --- controls --------------------------------------------------------------------------------------------------------


def test_control_a_bucket_without_the_guard_is_caught(bucket: Bucket, tally: Tally) -> None:
    machine = in_process(bucket, guard=False, says_guard=True)
    play(machine, 50, 50, tally, "model, runs on JetStream unguarded", control=True)


SPOILED: dict[str, str] = {
    "journals that keep nothing": """
import memory_sidecar.run.session as session
session.Run._record = lambda *_: None
""",
    "a second process that may open an open run": """
import memory_sidecar.system.files as files
files.try_lock = lambda *_, **__: True
""",
}


@pytest.mark.parametrize("what", SPOILED)
def test_control_spoiled_processes_are_caught(what: str, tmp_path: Path, tally: Tally) -> None:
    with on_files(tmp_path, code=SPOILED[what]) as world:
        play(bound(world, guard=True, revisions_repeat=True), 20, 30, tally, f"model, {what}", control=True)

"""The harness dies while the sidecar starts, at any moment, and the pipe stays open in another process.

There is no end of file to go by, and a process that is born an orphan can't see whose child it was: `getppid` names
init from the first look on. Here a parent exits at a moment of chance after the spawn, as the pipe is held open by this
test; nobody is left to end the sidecar but itself.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.sidecar import SERVE, TICKET, Sidecar, environment, is_gone, launched, make_ticket, until
from tests.support.tally import Tally

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere nothing tells whose child a process was")

# Started with everything imported that it needs, so that it can be gone before its child has run a line.
PARENT = """
import os, sys, time
source, sink, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
words = sys.argv[4:]
env = dict(os.environ)
if env.pop("NAMED", ""):
    env["MEMORY_SIDECAR_PARENT"] = f"{os.getpid()}@{os.readlink('/proc/self/ns/pid')}"
actions = [(os.POSIX_SPAWN_DUP2, source, 0), (os.POSIX_SPAWN_DUP2, sink, 1)]
child = os.posix_spawn(words[0], words, env, file_actions=actions)
os.write(1, f"{child}\\n".encode())
time.sleep(pause)
os._exit(0)
"""


# The same through the library: it is gone as soon as it has spawned.
LIBRARY = """
import os, subprocess, sys
from memory_sidecar.harness.sync import MemorySidecar
source, sink, place = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

def spawn_and_die(words, *, env, plain=subprocess.Popen, **_):
    child = plain(words, env=env, stdin=source, stdout=sink)
    os.write(1, f"{child.pid}\\n".encode())
    os._exit(0)

subprocess.Popen = spawn_and_die
MemorySidecar.launch(identity="tester", store_dir=place).__enter__()
"""


@contextmanager
def orphaned(place: Path, *program: object, token: str | None = None, **env: str) -> Iterator[tuple[int, int]]:
    """The pid of the sidecar that `program` left behind, and where its answers would come; its pipes stay open.

    With `token` the handshake lies in the pipe already, so that a run may be open by the time it looks.
    """
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    if token is not None:
        capabilities = {"extensions": {"memory-sidecar/harness": {"ticket": token}}}
        hello = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
        os.write(our_out, json.dumps(message).encode() + b"\n")
    code, *arguments = program
    done = subprocess.run(
        [sys.executable, "-c", str(code), str(their_in), str(their_out), *map(str, arguments)],
        env=environment(**{TICKET: str(place / "ticket")}, **env),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        pass_fds=[their_in, their_out],
        check=True,
    )
    child = int(done.stdout)
    try:
        yield child, our_in
    finally:
        if not is_gone(child):
            os.kill(child, signal.SIGKILL)
        for descriptor in (their_in, our_out, our_in, their_out):
            os.close(descriptor)


def options(place: Path) -> list[str]:
    return [*SERVE, *f"--store-dir {place} --identity tester --run monday".split()]


@pytest.mark.parametrize("launches", [8, pytest.param(200, marks=pytest.mark.long)])
def test_a_sidecar_whose_parent_dies_as_it_starts_ends(launches: int, tmp_path: Path, tally: Tally) -> None:
    chance = random.Random(launches)
    left = []
    for number in range(launches):
        place = tmp_path / str(number)
        place.mkdir()
        token = make_ticket(place / "ticket")
        pause = 0.0 if number % 2 else chance.uniform(0.0, 0.2)  # by then it is ready
        ready = token if number % 4 < 2 else None
        with orphaned(place, PARENT, pause, *options(place), token=ready, NAMED="1") as (child, _):
            try:
                until(lambda child=child: is_gone(child))  # type: ignore[misc]
            except AssertionError:
                left.append(f"an orphan lives on; its parent lived for {pause * 1000:.0f} ms")
        if (place / "runs" / "tester" / "monday.jsonl").exists():
            with launched(place) as sidecar:
                if sidecar.states() != {"monday": "suspended"}:
                    left.append(f"its run was left {sidecar.states()}")
    tally("launch", "parent dies at any moment", launches, left)


def test_the_library_says_whose_child_it_is(tmp_path: Path) -> None:
    with orphaned(tmp_path, LIBRARY, tmp_path) as (child, _):
        until(lambda: is_gone(child), "the orphan has ended")


def test_control_an_orphan_that_nobody_named_serves_on(tmp_path: Path) -> None:
    token = make_ticket(tmp_path / "ticket")
    with orphaned(tmp_path, PARENT, 0.0, *options(tmp_path), token=token) as (child, answers):
        assert "result" in json.loads(os.read(answers, 1 << 16))  # though its parent was gone before it was born
        assert not is_gone(child)


def test_a_name_from_another_namespace_means_nothing(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    here = os.readlink("/proc/self/ns/pid")
    for name in (f"{dead.pid}@pid:[1]", f"{dead.pid}", "x@y", f"-1@{here}", f"\u0661@{here}", "@", f"{10**30}@{here}"):
        with launched(tmp_path, env=environment(MEMORY_SIDECAR_PARENT=name)) as sidecar:
            assert sidecar.leave() == 0
    with Sidecar(tmp_path, env=environment(MEMORY_SIDECAR_PARENT=f"{dead.pid}@{here}")) as sidecar:
        assert sidecar.wait() == 0

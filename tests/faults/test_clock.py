"""A clock that jumps by years, backwards and forwards, under running sidecars and between an operator's commands.

The standard library's clock is replaced in real processes; they read how far it is off from a file at each look. What
must hold: the order of a journal is the order of its records, authority survives, nothing is removed that is in use,
and no change of a note goes unseen.
"""

import fcntl
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.sidecar import Sidecar, guarded, launched, patched
from tests.support.tally import Tally

from memory_sidecar.run.read import read_journal

YEAR = 365.25 * 86400
JUMPS = [10 * YEAR, -20 * YEAR, 70 * YEAR, -56 * YEAR, -1.5, 3600.0, -86400.0, 0.0]
CODE = """
import os, time
_time, _gmtime, _localtime = time.time, time.gmtime, time.localtime
def now():
    with open(os.environ["CLOCK"]) as file:
        return _time() + float(file.read())
time.time = now
time.time_ns = lambda: int(now() * 1e9)
time.gmtime = lambda seconds=None: _gmtime(now() if seconds is None else seconds)
time.localtime = lambda seconds=None: _localtime(now() if seconds is None else seconds)
"""


class Clock(NamedTuple):
    env: dict[str, str]
    jump: Callable[[float], object]
    """Be so many seconds off from now on."""

    def command(self, *words: str) -> tuple[int, Any]:
        """An operator's command under this clock: its status and what it said in JSON."""
        command = [sys.executable, "-P", "-m", "memory_sidecar", *words, "--json"]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, check=False)
        assert not done.stderr, done.stderr
        return done.returncode, json.loads(done.stdout)


@pytest.fixture
def clock(tmp_path: Path) -> Clock:
    path = tmp_path / "clock"
    path.write_text("0")

    def jump(seconds: float) -> None:
        path.with_suffix(".new").write_text(str(seconds))
        path.with_suffix(".new").replace(path)

    return Clock({**patched(tmp_path, CODE), "CLOCK": str(path)}, jump)


def met(sidecar: Sidecar, number: int) -> str:
    """One change of a note; what the journal must say of it."""
    key = f"key{number % 3}"
    if number % 5 == 4:
        sidecar.call("memory_delete", {"key": key})
        return f"{key} deleted"
    if sidecar.read(key)["found"]:
        assert sidecar.write(key, f"text {number}", overwrite=True)["written"]
        return f"{key} updated"
    assert sidecar.write(key, f"text {number}")["written"]
    return f"{key} created"


@pytest.mark.parametrize("rounds", [2, pytest.param(20, marks=pytest.mark.long)])
def test_journal_authority_and_ledger(rounds: int, clock: Clock, tmp_path: Path, tally: Tally) -> None:
    chance = random.Random(rounds)
    options = (*guarded(tmp_path), "--run", "monday")
    wrong: list[str] = []
    expected: list[str] = []
    jumps = 0
    for turn in range(rounds):
        with launched(tmp_path, *options, env=dict(clock.env)) as sidecar:
            for number in range(10):
                clock.jump(chance.choice(JUMPS))
                jumps += 1
                expected.append(met(sidecar, turn * 10 + number))
            if sidecar.states() != {"monday": "open"}:
                wrong.append(f"it is told to be {sidecar.states()}")
            if turn % 2:
                sidecar.kill()
            else:
                assert sidecar.leave() == 0
        replayed, _ = read_journal(str(tmp_path / "runs" / "tester" / "monday.jsonl"))
        assert replayed is not None
        done = [f"{one['key']} {one['why']}" for one in replayed.records if one["type"] == "scope_change"]
        if [one for one in done if not one.endswith((" read", " stale"))] != expected:
            wrong.append(f"the journal says {done}")
        if (state := clock.command("runs", "--store-dir", str(tmp_path))[1]["runs"][0]["state"]) != (
            "interrupted" if turn % 2 else "suspended"
        ):
            wrong.append(f"the run is listed as {state}")
        for key in ("key0", "key1", "key2"):
            _, said = clock.command("runs", "--store-dir", str(tmp_path), "--saw", key)
            told = [f"{key} {one['what']}" for one in said["seen"] if one["what"] in ("created", "updated", "deleted")]
            if told != [one for one in expected if one.startswith(f"{key} ")]:
                wrong.append(f"the ledger tells of {key} in another order: {told}")
    tally("journal, ledger, authority", "clock jumps by years", jumps, wrong)


def prune(clock: Clock, place: Path) -> list[str]:
    status, said = clock.command(
        "runs", "prune", "--older-than", "30d", "--state", "suspended", "--store-dir", str(place)
    )
    assert status == 0
    return [one["run"] for one in said["removed"]]


def test_pruning(clock: Clock, tmp_path: Path, tally: Tally) -> None:
    wrong = []
    # One run was made today and used with the clock decades behind, another the other way round.
    for run, made, used in (("behind", 0.0, -50 * YEAR), ("ahead", 0.0, 50 * YEAR), ("past", -50 * YEAR, -50 * YEAR)):
        clock.jump(made)
        with launched(tmp_path, "--run", run, env=dict(clock.env)) as sidecar:
            sidecar.write(run, "x")
            clock.jump(used)
            sidecar.write(f"{run}2", "x")
            assert sidecar.leave() == 0
    with launched(tmp_path, "--run", "open", env=dict(clock.env)) as sidecar:
        for jump, gone in ((-80 * YEAR, []), (0.0, ["past"]), (20 * YEAR, ["behind"]), (90 * YEAR, ["ahead"])):
            clock.jump(jump)
            removed = prune(clock, tmp_path)
            if removed != gone:
                wrong.append(f"{jump / YEAR:.0f} years off, {removed} are removed and not {gone}")
        assert sidecar.write("still", "x")["written"]
    tally("runs prune", "clock jumps by years", 4, wrong)


STALE = ".tmp-0123456789abcdef"


@pytest.mark.parametrize("years", [-50, 50])
def test_sweeping_does_not_go_by_the_clock(years: int, clock: Clock, tmp_path: Path, tally: Tally) -> None:
    wrong = []
    directory = tmp_path / "memory" / "tester"
    directory.mkdir(parents=True)
    living = directory / ".tmp-fedcba9876543210"
    for path in (directory / STALE, living):
        path.write_text("staged")
        os.utime(path, (years * YEAR + 1e9, years * YEAR + 1e9))
    clock.jump(years * YEAR)
    with living.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with launched(tmp_path, env=dict(clock.env)) as sidecar:
            if (directory / STALE).exists():
                wrong.append("a dead writer's file is left")
            if not living.exists():
                wrong.append("a living writer's file is swept")
            assert sidecar.leave() == 0
    tally("sweep", "clock jumps by years", 2, wrong)


@pytest.mark.parametrize("rounds", [40, pytest.param(2000, marks=pytest.mark.long)])
def test_no_edit_goes_unseen(rounds: int, clock: Clock, tmp_path: Path, tally: Tally) -> None:
    wrong, _ = edit(rounds, clock, tmp_path)
    tally("listing after an edit", "clock and time stamps jump", rounds, wrong)


def edit(rounds: int, clock: Clock, tmp_path: Path) -> tuple[list[str], int]:
    """A person edits notes, whose time stamps are anything, between listings."""
    chance = random.Random(rounds)
    wrong = []
    with launched(tmp_path, env=dict(clock.env)) as sidecar:
        assert sidecar.memory is not None
        stamps = [0.0, 1e9, 4e9, -1e9]
        for number in range(rounds):
            path = sidecar.memory / f"note{number % 4}.md"
            # As editors do: a new file of the same size, in the old one's place, with a time stamp of choice.
            new = path.with_suffix(".part")
            new.write_text(f"---\ndescription: edit {number:06}\n---\n\ntext")
            stamp = chance.choice(stamps)
            os.utime(new, (stamp, stamp))
            new.replace(path)
            clock.jump(chance.choice(JUMPS))
            listed = {
                one["key"]: one["description"] for one in sidecar.call("memory_list")["structuredContent"]["memories"]
            }
            if listed.get(path.stem) != f"edit {number:06}":
                wrong.append(f"edit {number} is not seen: {listed}")
        assert sidecar.leave() == 0
    return wrong, rounds


def test_control_a_cache_that_goes_by_the_time_stamp_alone_is_caught(
    tmp_path: Path, clock: Clock, tally: Tally
) -> None:
    site = Path(clock.env["PYTHONPATH"].split(":")[0]) / "sitecustomize.py"
    site.write_text(f"""{CODE}
import memory_sidecar.backend.file.listing as listing
listing._stamp = lambda status: (0, status.st_size, status.st_mtime_ns, status.st_mtime_ns)
""")
    wrong, rounds = edit(60, clock, tmp_path)
    tally("listing by mtime alone", "clock and time stamps jump", rounds, wrong, control=True)

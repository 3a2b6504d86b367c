"""A whole session on a disk or a machine: what a harness does with a memory, and what its operator looks at."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.support.sidecar import RUN, SERVE, Sidecar, configured, environment, make_ticket

from memory_sidecar.exits import EX_CONFIG

from .disks import Disk
from .machines import Machine, command

__all__ = ["NotPlayedError", "played", "played_on"]

_GUARD = "backend: file, options: {require_read_before_update: true%s}"


class NotPlayedError(Exception):
    """This machine cannot be set up here. The text says why."""


def operated(name: str, base: Path, *options: str) -> subprocess.CompletedProcess[str]:
    words = [*SERVE[:-1], name, "--store-dir", str(base), "--identity", "tester", *options]
    return subprocess.run(
        words, env=environment(), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
    )


def played(base: Path, scratch: Path, disk: Disk) -> str:
    """Play it in `base`, on that disk; what is to be told of it, in a line. `scratch` is for configurations."""
    if disk.start:
        with Sidecar(base) as sidecar:
            hello = sidecar.hello()
            sidecar.send(hello)
            assert disk.start in sidecar.answer(hello)["error"]["message"]
            assert sidecar.wait() == EX_CONFIG
        return f"refused: {disk.start}"
    _used(base, disk)
    said = operated("doctor", base)
    assert said.returncode == 0, said.stdout
    about = json.loads(operated("info", base, "--json").stdout)["memory"]["disk"]
    assert about["flushes"] is disk.flushes
    _guarded(base, scratch, disk)
    left = [path.name for path in (base / "memory" / "tester").iterdir() if path.suffix != ".md"]
    assert left == [".memory-sidecar-id"]
    return f"works as {about['kind'] or 'unknown'}; guard: {disk.guard}"


def _used(base: Path, disk: Disk) -> None:
    text = "x" * 60_000
    with Sidecar(base, "--run", "monday") as sidecar:
        sidecar.greet()
        assert sidecar.write("plan", text)["written"]
        assert sidecar.write("plan", "again")["code"] == "exists"
        assert sidecar.write("plan", text + "!", overwrite=True)["written"]
        assert sidecar.read("plan")["content"] == text + "!"
        assert sidecar.write("gone", text)["written"]
        assert sidecar.call("memory_delete", {"key": "gone"})["structuredContent"]["deleted"]
        assert sidecar.write("Plan", "other")["written"] is not disk.folds_case
        for length in (100, 200):
            long = sidecar.call("memory_write", {"key": "k" * length, "description": "d", "content": "c"})
            assert long.get("isError", False) is (length + len(".md") > disk.longest)
        assert sidecar.leave() == 0
        assert sidecar.stderr == ""


def _guarded(base: Path, scratch: Path, disk: Disk) -> None:
    vouch = ", single_machine: true" if disk.guard == "vouch" else ""
    if vouch:
        with Sidecar(base, *configured(scratch, _GUARD % "")) as sidecar:
            hello = sidecar.hello()
            sidecar.send(hello)
            assert "single_machine: true" in sidecar.answer(hello)["error"]["message"]
    options = (*configured(scratch, _GUARD % vouch), "--run", "tuesday")
    with Sidecar(base, *options) as sidecar:
        sidecar.greet()
        assert sidecar.write("plan", "unseen", overwrite=True)["code"] == "not_read"
        sidecar.read("plan")
        assert sidecar.write("plan", "seen", overwrite=True)["written"]
        sidecar.kill()
    with Sidecar(base, *options) as sidecar:
        sidecar.greet()
        assert sidecar.write("plan", "with the authority of before the kill", overwrite=True)["written"]
        with Sidecar(base, *options) as second:
            hello = second.hello()
            second.send(hello)
            assert "is open in another process" in second.answer(hello)["error"]["message"]
        assert sidecar.call("memory_list")["_meta"][RUN] == "tuesday"
        assert sidecar.leave() == 0


def played_on(machine: Machine, scratch: Path) -> str:
    """Play it on the machine, in a directory of its own below `scratch`; what is to be told of it, in a line.

    Raises:
        NotPlayedError: there is no such machine to be had here.
    """
    # Below no directory that is closed to other users.
    place = scratch / "place" if machine.user is None else Path(tempfile.mkdtemp(prefix="machine-"))
    try:
        return _played_in(place, machine)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _played_in(place: Path, machine: Machine) -> str:
    base = place / "state"
    base.mkdir(parents=True)
    held = ""
    for first in (True, False):
        ticket = place / f"ticket-{first}"
        token = make_ticket(ticket)
        words = command(machine, base, ticket)
        if isinstance(words, str):
            raise NotPlayedError(words)
        for path in () if machine.user is None else (place, base, ticket):
            os.chown(path, machine.user, machine.user)  # type: ignore[arg-type]
        options = (*configured(place, _GUARD % ""), "--run", "monday", "--log-level", "info")
        with Sidecar(base, *options, command=[*words, *SERVE], ticket=ticket, token=token) as sidecar:
            hello = sidecar.hello()
            sidecar.send(hello)
            answer = sidecar.answer(hello)
            if machine.refused:
                assert machine.refused in answer["error"]["message"], answer["error"]["message"]
                assert sidecar.wait()
                return f"refused: ... {machine.refused} ..."
            assert "error" not in answer, answer
            assert machine.lockdown in sidecar.stderr
            if first:
                assert sidecar.write("plan", "x" * 60_000)["written"]
                sidecar.open("tuesday")
                assert sidecar.write("other", "text", "tuesday")["written"]
            # With the authority of the process before.
            assert sidecar.write("plan", "text", overwrite=True)["written"]
            assert sidecar.read("plan")["content"] == "text"
            assert sidecar.leave() == 0
            held = next(line for line in sidecar.stderr.splitlines() if "lockdown=" in line)
    return f"works; {held.partition('lockdown=')[2]}"

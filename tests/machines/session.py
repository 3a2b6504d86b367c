"""A whole session on a disk: what a harness does with a memory in a week, and what its operator looks at afterwards."""

import json
import subprocess
from pathlib import Path

from tests.support.sidecar import RUN, SERVE, Sidecar, configured, environment

from memory_sidecar.exits import EX_CONFIG

from .disks import Disk

__all__ = ["played"]

_GUARD = "backend: file, options: {require_read_before_update: true%s}"


def command(name: str, base: Path, *options: str) -> subprocess.CompletedProcess[str]:
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
    said = command("doctor", base)
    assert said.returncode == 0, said.stdout
    about = json.loads(command("info", base, "--json").stdout)["memory"]["disk"]
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

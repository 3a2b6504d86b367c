"""What a run costs in address space: a thread's stack, and no arena of the allocator beside it."""

import platform
from pathlib import Path

import pytest
from tests.support.sidecar import OPEN, launched

STACK = 8
"""MiB that a thread's stack may take, by the usual limit."""


def reserved(pid: int) -> float:
    """MiB of address space."""
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmSize"))
    return int(line.split()[1]) / 1024


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others have one arena anyway")
def test_runs_share_one_arena(tmp_path: Path) -> None:
    with launched(tmp_path) as sidecar:
        before = reserved(sidecar.pid)
        for number in range(8):
            run = f"run-{number}"
            sidecar.request(OPEN, {"run": run})
            sidecar.write(f"note-{number}", "text " * 4000, run)
        assert reserved(sidecar.pid) - before < 8 * STACK + 16

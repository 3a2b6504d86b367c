"""The conversation that each small harness of the examples holds, whatever language it is written in."""

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["SIDECAR", "hangs_not_without_an_id", "remembers_and_resumes", "run"]

SIDECAR = f"{sys.executable} -P -m memory_sidecar"


def run(words: list[str], place: Path, sidecar: str) -> "subprocess.CompletedProcess[str]":
    """Run the harness with `sidecar` as its command. No ticket of its is left."""
    tickets = place / "tickets"
    tickets.mkdir(exist_ok=True)
    environment = {**os.environ, "MEMORY_SIDECAR": sidecar, "TMPDIR": str(tickets)}
    done = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert list(tickets.iterdir()) == []
    return done


def remembers_and_resumes(words: list[str], place: Path) -> None:
    first, second = (run(words, place, SIDECAR) for _ in range(2))
    assert first.stdout.splitlines() == [
        "Started, with memory_list, memory_read, memory_write, memory_delete",
        '{"written":true,"key":"greeting"}',
        '{"memories":[{"key":"greeting","description":"How to greet"}]}',
    ]
    assert second.stdout.startswith("Resumed, ")
    assert '"code":"exists"' in second.stdout
    assert first.stderr + second.stderr == ""


def hangs_not_without_an_id(words: list[str], place: Path) -> None:
    stub = place / "stub.py"
    stub.write_text('input(); print(\'{"id":null,"error":{"code":-32700,"message":"no JSON"}}\', flush=True); input()')
    done = run(words, place, f"{sys.executable} {stub}")
    assert "could not read a request: no JSON" in done.stderr
    assert done.returncode == 1

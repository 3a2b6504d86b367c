"""The harness in plain Node, run as a reader would: it shows that the protocol's document is enough to write one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HARNESS = Path(__file__).parent.parent.parent / "examples" / "node" / "harness.mjs"

pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")


def run(place: Path, sidecar: str) -> "subprocess.CompletedProcess[str]":
    tickets = place / "tickets"
    tickets.mkdir(exist_ok=True)
    environment = {**os.environ, "MEMORY_SIDECAR": sidecar, "TMPDIR": str(tickets)}
    done = subprocess.run(
        ["node", str(HARNESS)], cwd=place, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert list(tickets.iterdir()) == []
    return done


def test_it_remembers_and_resumes(tmp_path: Path) -> None:
    first, second = (run(tmp_path, f"{sys.executable} -P -m memory_sidecar") for _ in range(2))
    assert first.stdout.splitlines() == [
        "Started, with memory_list, memory_read, memory_write, memory_delete",
        '{"written":true,"key":"greeting"}',
        '{"memories":[{"key":"greeting","description":"How to greet"}]}',
    ]
    assert second.stdout.startswith("Resumed, ")
    assert '"code":"exists"' in second.stdout
    assert first.stderr + second.stderr == ""


@pytest.mark.parametrize(
    ("sidecar", "said"),
    [
        ("/nowhere/memory-sidecar", "the memory sidecar cannot run: spawn /nowhere/memory-sidecar ENOENT"),
        ("false", "the memory sidecar ended with status 1"),
        (f"{sys.executable} -P -m memory_sidecar serve --config none.yaml", "the memory sidecar ended with status 64"),
    ],
)
def test_what_keeps_it_from_starting_is_said_at_once(tmp_path: Path, sidecar: str, said: str) -> None:
    done = run(tmp_path, sidecar)
    assert said in done.stderr
    assert done.returncode == 1


def test_an_answer_without_an_id_hangs_nobody(tmp_path: Path) -> None:
    stub = tmp_path / "stub.py"
    stub.write_text('input(); print(\'{"id":null,"error":{"code":-32700,"message":"no JSON"}}\', flush=True); input()')
    done = run(tmp_path, f"{sys.executable} {stub}")
    assert "could not read a request: no JSON" in done.stderr
    assert done.returncode == 1


def test_it_is_short() -> None:
    assert len(HARNESS.read_text().splitlines()) <= 80

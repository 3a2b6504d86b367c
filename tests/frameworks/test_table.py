"""The table of frameworks, their examples, their locked environments and `make frameworks` name the same things."""

import re
from pathlib import Path

import pytest
from tests.frameworks.__main__ import EXAMPLES, FRAMEWORKS

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "docs" / "frameworks.md").read_text()
LOCKS = ROOT / "requirements" / "frameworks"


def test_each_framework_has_a_locked_environment_and_no_other_has() -> None:
    assert {path.stem for path in LOCKS.glob("*.txt")} == {path.stem for path in LOCKS.glob("*.in")} == set(FRAMEWORKS)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_row_names_the_version_that_is_tried_and_its_example(name: str) -> None:
    framework = FRAMEWORKS[name]
    locked = re.search(
        rf"^{framework.package}(?:\[\w+\])?==([\w.]+)", (LOCKS / f"{name}.txt").read_text(), re.MULTILINE
    )
    assert locked is not None
    rows = [
        line for line in TABLE.splitlines() if line.startswith("|") and f"`{framework.package}` {locked[1]}" in line
    ]
    assert len(rows) == 1
    assert (EXAMPLES / f"{framework.example}.py").is_file()
    linked = re.findall(r"\(\.\./(examples/adapters/\w+\.py)\)", rows[0])
    assert linked, rows
    assert all((ROOT / path).is_file() for path in linked)

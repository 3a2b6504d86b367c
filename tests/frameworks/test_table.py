"""The table of frameworks, their examples, their locked environments and `make frameworks` name the same things."""

import json
import re
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from tests.frameworks.__main__ import EXAMPLES, FRAMEWORKS, JAVASCRIPT, environment

ROOT = Path(__file__).resolve().parents[2]
TABLE = (ROOT / "docs" / "frameworks.md").read_text()
LOCKS = ROOT / "requirements" / "frameworks"


def locked(name: str) -> tuple[str, str]:
    """The version that is tried, and the range that it is locked within."""
    package = re.escape(FRAMEWORKS[name].package)
    if environment(name) == "js":
        wanted = json.loads((JAVASCRIPT / "package.json").read_text())["dependencies"]
        found = json.loads((JAVASCRIPT / "package-lock.json").read_text())["packages"]
        return found[f"node_modules/{FRAMEWORKS[name].package}"]["version"], wanted[FRAMEWORKS[name].package]
    version = re.search(
        rf"^{package}(?:\[\w+\])?==([\w.]+)", (LOCKS / f"{environment(name)}.txt").read_text(), re.MULTILINE
    )
    within = re.search(rf"^{package}(?:\[\w+\])?(.+)$", (LOCKS / f"{environment(name)}.in").read_text(), re.MULTILINE)
    assert version is not None
    assert within is not None
    return version[1], within[1]


def is_within(version: str, span: str) -> bool:
    """Whether a range, of Python's form or npm's with a caret, has the version."""
    if not span.startswith("^"):
        return version in SpecifierSet(span)
    least, parts = ([int(part) for part in text.split(".")] for text in (span[1:], version))
    same = 1 if least[0] else 2  # below 1.0 each minor version may break
    return parts[:same] == least[:same] and parts >= least


def test_each_framework_has_a_locked_environment_and_no_other_has() -> None:
    environments = {environment(name) for name in FRAMEWORKS}
    assert {path.stem for path in LOCKS.glob("*.txt")} == {path.stem for path in LOCKS.glob("*.in")} == environments


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_row_names_the_version_that_is_tried_its_range_and_its_example(name: str) -> None:
    framework = FRAMEWORKS[name]
    version, span = locked(name)
    assert is_within(version, span)
    rows = [line for line in TABLE.splitlines() if line.startswith("|") and f"`{framework.package}` {version}" in line]
    assert len(rows) == 1
    assert f"| `{span}` |" in rows[0]
    assert framework.program.is_file()
    linked = re.findall(r"\(\.\./(examples/adapters/[\w/]+\.(?:py|ts))\)", rows[0])
    assert linked, rows
    assert all((ROOT / path).is_file() for path in linked)


def test_each_example_is_in_a_row_or_in_the_documents_of_the_adapters() -> None:
    told = TABLE + (ROOT / "docs" / "python.md").read_text()
    examples = [*EXAMPLES.glob("*.py"), *JAVASCRIPT.glob("*.ts")]
    assert [path.name for path in examples if path.name not in told] == []


def test_the_lock_of_the_examples_in_javascript_names_no_registry() -> None:
    lock = json.loads((JAVASCRIPT / "package-lock.json").read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert packages
    assert [name for name, one in packages.items() if "resolved" in one or "integrity" not in one] == []

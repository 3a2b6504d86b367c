"""The code as a whole: import layers, lint, format and types, each as `make lint` runs it."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.sidecar import ROOT, environment


def run(*words: str) -> None:
    tool = Path(sys.executable).parent / words[0]
    found = str(tool) if tool.exists() else shutil.which(words[0])
    if found is None:
        pytest.skip(f"{words[0]} is not installed")
    done = subprocess.run(
        [found, *words[1:]], cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_imports_upwards() -> None:
    run("lint-imports")


def test_lint_is_clean() -> None:
    run("ruff", "check", ".")


def test_format_is_clean() -> None:
    run("ruff", "format", "--check", ".")


def test_types_hold() -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    run("mypy")

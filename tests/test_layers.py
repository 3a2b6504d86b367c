"""The code as a whole: import layers, lint, format and types, each as `make lint` runs it."""

import ast
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.sidecar import ROOT, environment

from memory_sidecar.cli import COMMANDS


def run(*words: str) -> None:
    tool = Path(sys.executable).parent / words[0]
    found = str(tool) if tool.exists() else shutil.which(words[0])
    if found is None:
        pytest.skip(f"{words[0]} is not installed")
    done = subprocess.run([found, *words[1:]], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_imports_upwards() -> None:
    run("lint-imports")


def test_lint_is_clean() -> None:
    run("ruff", "check", ".")


def test_format_is_clean() -> None:
    run("ruff", "format", "--check", ".")


@pytest.mark.timeout(900)  # on a fresh checkout mypy has no cache, and reads every SDK
def test_types_hold() -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed")
    run("mypy")


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_is_imported_by_another(name: str) -> None:
    ours = {f"memory_sidecar.cli.{command.module}" for command in COMMANDS.values()}
    module = f"memory_sidecar.cli.{COMMANDS[name].module}"
    found = importlib.util.find_spec(module)
    assert found is not None
    assert found.origin is not None
    imported = set()
    for node in ast.walk(ast.parse(Path(found.origin).read_text())):
        if isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), found.parent or "")
            imported |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    assert not imported & ours

"""The table of backends: one row each, and nobody outside the package knows one by its name or its options."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.support.sidecar import ROOT

from memory_sidecar.backend import choose
from memory_sidecar.backend.choose import describe, row_of
from memory_sidecar.backend.description import json_of
from memory_sidecar.config import Config, MemoryConfig

PACKAGE: Final = ROOT / "sidecar" / "memory_sidecar"
NAMES: Final = tuple(choose._ROWS)

EXCEPTIONS: Final = {
    "cli/notes/quarantine.py": "the member of its records that names where a note was put",
    "cli/notes/importing.py": "the name of an argument: the file to read",
    "cli/notes/exporting.py": "the member of its answer that names what was written",
    "cli/review/permissions.py": "it is about what a broker permits, so about one backend alone",
}
"""Where a backend's name stands as a word of its own and means something else."""


def configured(name: str) -> Config:
    options = {"bucket": "notes"} if name == "jetstream" else None
    return Config(memory=MemoryConfig(enabled=True, backend=name, options=options))


@pytest.mark.parametrize("name", NAMES)
def test_a_row_is_of_its_name_and_tells_the_same_with_and_without_an_identity(name: str) -> None:
    assert row_of(configured(name)).name == name
    with_one, without = (describe(configured(name), identity, "base") for identity in ("agent", None))
    assert (with_one.named, without.named) == (True, False)
    assert list(json_of(with_one.facts)) == list(json_of(without.facts))
    assert all(one.label and isinstance(one.shown, str) for one in (*with_one.facts, *without.facts))


def test_the_first_row_is_meant_where_none_is_named() -> None:
    assert row_of(Config(memory=MemoryConfig(enabled=True))).name == NAMES[0]


def outside() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        if not where.startswith("backend/"):
            yield where, ast.parse(path.read_text())


def texts(tree: ast.Module) -> Iterator[str]:
    """The string constants that a program uses: no documentation."""
    documentation = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def test_nobody_outside_names_a_backend_or_an_option_of_one() -> None:
    found = {(where, text) for where, tree in outside() for text in texts(tree) if text in NAMES}
    assert {where for where, _ in found} == set(EXCEPTIONS)
    named = {where for where, tree in outside() for text in texts(tree) if "harness.memory.options." in text}
    assert named <= {"cli/review/permissions.py"}


def test_nobody_outside_imports_a_backend() -> None:
    shared = {"apart", "choose", "description", "opened", "own", "row"}
    for where, tree in outside():
        for node in ast.walk(tree):
            module = node.module or "" if isinstance(node, ast.ImportFrom) else ""
            if module.startswith("backend.") and where != "cli/review/permissions.py":
                assert module.removeprefix("backend.") in shared, where


def test_a_row_is_loaded_without_what_only_using_it_needs(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom memory_sidecar.backend.choose import must_be_named\n"
        "from memory_sidecar.config import Config, MemoryConfig\n"
        "must_be_named(Config(memory=MemoryConfig(True, 'jetstream', options={'bucket': 'b'})))\n"
        "print([name for name in ('asyncio', 'nats', 'memory_sidecar.backend.file') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "[]\n"

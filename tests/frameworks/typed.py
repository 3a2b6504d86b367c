"""Holds the examples to the types, as a reader's editor does: pyright on all, mypy in strict mode on some.

    python -m tests.frameworks.typed [NAME ...]

Those that need nothing but the development environment are checked in it, by both. Each framework's is checked by
pyright in the environment that `make frameworks` made; one that is not there is told. mypy would read all of a
framework, which takes minutes for each. `make types` installs pyright and runs this.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.frameworks.__main__ import EXAMPLES, FRAMEWORKS, JAVASCRIPT, ROOT, environment

PYRIGHT: Final = ROOT / "tests" / "pyright" / "node_modules" / "pyright" / "index.js"
OF_ENVIRONMENTS: Final = {
    environment(name): one.program for name, one in FRAMEWORKS.items() if one.program.parent == EXAMPLES
}
"""The example of each environment in Python; mcp-1 has none that is not one of the others."""


def examples() -> dict[str, list[Path]]:
    """What is checked where; the environment "" is that of development."""
    found = [path for path in (ROOT / "examples").rglob("*.py") if "node_modules" not in path.parts]
    apart = {name: [path] for name, path in OF_ENVIRONMENTS.items()}
    others = set(found) - set(OF_ENVIRONMENTS.values())
    return {"": sorted(others), **apart}


def check(name: str, paths: list[Path]) -> str | None:
    """What is wrong with the examples of one environment, or None."""
    python = ROOT / (f".frameworks/{name}" if name else ".venv") / "bin" / "python"
    if not python.exists():
        return f"there is no environment: make frameworks NAMES={name}"
    checkers: list[list[str | Path]] = [["node", PYRIGHT, "--pythonpath", python]]
    if not name:
        checkers.append([python, "-m", "mypy", "--scripts-are-modules"])
    for words in checkers:
        done = subprocess.run([*words, *paths], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            return done.stdout + done.stderr
    return None


def check_typescript() -> str | None:
    """What the compiler says of the examples in TypeScript, or None."""
    compiler = JAVASCRIPT / "node_modules" / "typescript" / "bin" / "tsc"
    if not compiler.exists():
        return "there is no environment: make frameworks NAMES=js"
    done = subprocess.run(["node", compiler, "-p", JAVASCRIPT], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode else None


def main(names: list[str]) -> int:
    if not shutil.which("node"):
        print("pyright needs Node, which is not installed")
        return 1
    failed = 0
    for name, paths in {**examples(), "js": []}.items():
        if names and name not in names:
            continue
        wrong = check_typescript() if name == "js" else check(name, paths)
        failed += wrong is not None
        print(f"{name or 'development':18} {'clean' if wrong is None else wrong}", flush=True)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

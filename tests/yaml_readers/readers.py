"""The YAML libraries, behind one face: headers are read, descriptions are written, many at a time."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml

__all__ = ["Reader", "found"]

_HERE: Final = Path(__file__).parent


class Reader(NamedTuple):
    """One library. What it refuses, and what it takes for something else than text, is None."""

    name: str
    read: Callable[[Sequence[str]], list[str | None]]
    write: Callable[[Sequence[str]], list[str | None]]


def found() -> list[Reader]:
    """The readers that this machine has."""
    readers = [_pyyaml("PyYAML, its C library", "CSafeLoader"), _pyyaml("PyYAML, pure Python", "SafeLoader")]
    if (_HERE / "node_modules").is_dir() and shutil.which("node"):
        readers += [
            _process(f"npm {name} {_npm_version(name)}", ["node", str(_HERE / "node.mjs"), name])
            for name in ("yaml", "js-yaml")
        ]
    if go := shutil.which(os.environ.get("GO", "go")):
        program = os.path.join(tempfile.mkdtemp(), "goccy")
        subprocess.run([go, "build", "-o", program, "."], cwd=_HERE, check=True)
        readers.append(_process("goccy/go-yaml v1.19.2", [program]))
    return readers


def _npm_version(name: str) -> str:
    return str(json.loads((_HERE / "node_modules" / name / "package.json").read_text())["version"])


def _process(name: str, command: list[str]) -> Reader:
    def ask(questions: Iterable[dict[str, str]]) -> list[dict[str, Any]]:
        lines = "".join(json.dumps(question) + "\n" for question in questions)
        answers = subprocess.run(command, input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout
        return [json.loads(line) for line in answers.decode().split("\n") if line]

    return Reader(
        name,
        lambda headers: [answer.get("text") for answer in ask({"read": header} for header in headers)],
        lambda texts: [answer.get("header") for answer in ask({"write": text} for text in texts)],
    )


def _pyyaml(name: str, loader: str) -> Reader:
    dumper = loader.replace("Loader", "Dumper")

    def read(header: str) -> str | None:
        try:
            value = yaml.load(header, Loader=getattr(yaml, loader))["description"]
        except (yaml.YAMLError, ValueError, TypeError):
            return None
        return value if isinstance(value, str) else None

    def write(text: str) -> str | None:
        return str(yaml.dump({"description": text}, Dumper=getattr(yaml, dumper), allow_unicode=True, width=2**30))

    return Reader(name, lambda headers: list(map(read, headers)), lambda texts: list(map(write, texts)))

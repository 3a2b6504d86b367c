"""What a message or a --help sends its reader to is there for somebody who has installed the wheel and nothing else."""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

from memory_sidecar.cli import COMMANDS, build_parser

ROOT = Path(__file__).parents[2]
MODULES = sorted(path for top in ("sidecar", "policy") for path in (ROOT / top).rglob("*.py"))
NOT_INSTALLED = re.compile(
    r"\b(?:docs|examples|tests|bench|fuzz|soak|requirements)/[\w.-]"
    r"|\b(?:" + "|".join(path.stem for path in ROOT.glob("*.md")) + r")(?:\.md)?\b"
    r"|\bmake (?:" + "|".join(re.findall(r"(?m)^([a-z][\w-]*):", (ROOT / "Makefile").read_text())) + r")\b(?! sure)"
)
"""Documents and programs of the repository, and its `make` targets."""


def texts(source: str) -> list[str]:
    """Every text of a module that is no docstring, and so may be shown to somebody, if one of them can be wrong."""
    if not NOT_INSTALLED.search(source):
        return []  # the quick way for most
    tree = ast.parse(source)
    bodies = [owner.body for owner in ast.walk(tree) if isinstance(getattr(owner, "body", None), list)]
    told = {id(node.value) for body in bodies for node in body if isinstance(node, ast.Expr)}
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [str(node.value) for node in found if id(node) not in told]


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A command's parser, and those of all that it has below it."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for below in action.choices.values():
                yield from parsers(below)


def test_no_message_and_no_help_sends_to_what_is_not_installed() -> None:
    shown = [(path.relative_to(ROOT), text) for path in MODULES for text in texts(path.read_text())]
    helps = [(parser.prog, parser.format_help()) for parser in parsers(build_parser())]
    assert len(helps) > len(COMMANDS)
    assert [(where, text) for where, text in (*shown, *helps) if NOT_INSTALLED.search(text)] == []

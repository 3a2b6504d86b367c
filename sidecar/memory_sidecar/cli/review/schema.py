"""Print the JSON Schema of a configuration, with which editors complete and check a harness's YAML.

  memory-sidecar schema > memory.schema.json

and as the first line of the configuration

  # yaml-language-server: $schema=memory.schema.json

Keys that are a harness's own are left alone, as they are when it is read. memory-sidecar doctor tells what a
schema cannot say.

Exit statuses: 0 done; 64 wrong usage.
"""

import argparse
import ast
import inspect
import textwrap
import types
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from ...backend.choose import rows
from ...backend.row import Row
from ...config import Config, MemoryConfig
from ...options import hints_of, kinds_of, whole
from ...store.rules import KEY, MAX_KEY
from ..shared.report import print_json

__all__ = ["configure", "run", "schema"]

_TYPES: Final = {str: "string", bool: "boolean", int: "integer", Mapping: "object", types.NoneType: "null"}
"""The kinds of fields that `options.decode_options` knows."""


def configure(_parser: argparse.ArgumentParser) -> None:
    """It takes no options."""


def run(_arguments: argparse.Namespace) -> int:
    print_json(schema())
    return 0


def schema() -> dict[str, Any]:
    """The schema of a whole configuration, of the backends that this program has."""
    backends = rows()
    memory = _block(MemoryConfig) | {"allOf": [_of_backend(row, is_default=row is backends[0]) for row in backends]}
    memory["properties"]["backend"] |= {"enum": [*(row.name for row in backends), None], "default": backends[0].name}
    top = _fields(Config)
    del top["memory"]
    # Judged where it becomes a directory or a prefix.
    top["identity"] |= {"pattern": whole(KEY), "maxLength": MAX_KEY}
    harness = {
        "type": ["object", "null"],
        "description": "The harness's own; of it `memory` is read.",
        "properties": {"memory": memory},
    }
    return {
        # The newest draft that editors know well.
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "A configuration that memory-sidecar reads",
        "description": "YAML, shared with a harness, whose own keys are left alone.",
        "type": ["object", "null"],
        "properties": {**top, "harness": harness},
    }


def _of_backend(row: Row, *, is_default: bool) -> dict[str, Any]:
    """What the options may be where the notes are kept by this backend."""
    chosen: dict[str, Any] = {"properties": {"backend": {"enum": [row.name, *([None] if is_default else [])]}}}
    if not is_default:
        chosen["required"] = ["backend"]
    options = _block(row.options)
    then: dict[str, Any] = {"properties": {"options": options}}
    if "required" in options:
        then["required"] = ["options"]
        options["type"] = "object"
    return {"if": chosen, "then": then}


def _block(kind: type[Any]) -> dict[str, Any]:
    """A mapping that is decoded strictly into `kind`."""
    needed = [name for name in kind._fields if name not in kind._field_defaults]
    return {
        "type": ["object", "null"],
        "properties": _fields(kind),
        "additionalProperties": False,
        **({"required": needed} if needed else {}),
    }


def _fields(kind: type[Any]) -> dict[str, Any]:
    about = _about(kind)
    hints = hints_of(kind)
    return {name: _field(hints[name], about.get(name, ""), kind._field_defaults.get(name)) for name in kind._fields}


def _field(hint: Any, about: str, default: object) -> dict[str, Any]:
    kinds, rules = kinds_of(hint)
    names = [_TYPES[one] for one in kinds if one in _TYPES]
    field: dict[str, Any] = {"type": names[0] if len(names) == 1 else names}
    if about:
        field["description"] = about
    if default is not None:
        field["default"] = default
    for rule in rules:
        field |= rule
    return field


def _about(kind: type[Any]) -> dict[str, str]:
    """What stands below each field of the class, on one line; none where its source is not at hand."""
    try:
        defined = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    except (OSError, TypeError, SyntaxError):
        return {}
    found = {}
    for field, below in pairwise(defined.body if isinstance(defined, ast.ClassDef) else []):
        match field, below:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str() as text)):
                found[name] = " ".join(text.split())
    return found

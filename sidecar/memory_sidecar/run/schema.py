"""The journal's JSON Schema, for other programs, made from the table of record kinds.

`python -m memory_sidecar.run.schema` prints it; `journal.schema.json`, beside this file, is that text (`make schema`).
"""

import json
import sys
from collections.abc import Mapping
from typing import Any

from .columns import Field, Kind
from .kinds import KINDS

__all__ = ["schema"]


def schema() -> str:
    """The schema as text, line break at the end included."""
    whole = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "One record of a memory-sidecar run journal",
        "description": "A line of <run>.jsonl without its last member, sum: the CRC-32 (eight hex digits) of the bytes "
        'of the line before `,"sum":`.',
        "type": "object",
        "properties": {
            "seq": {
                "description": "1 in the first line, one more in each that follows.",
                "type": "integer",
                "minimum": 1,
            }
        },
        "required": ["seq", "type"],
        "oneOf": [_kind(name, kind) for name, kind in KINDS.items()],
    }
    return json.dumps(whole, indent=2) + "\n"


def _kind(name: str, kind: Kind) -> Mapping[str, Any]:
    fields = {field: _field(row) for field, row in kind.fields.items()}
    return {
        "description": _about(kind.about, kind.since),
        "properties": {"seq": True, "type": {"const": name}, **fields},
        "required": [field for field, row in kind.fields.items() if row.required],
        **(kind.between.schema if kind.between is not None else {}),
        "additionalProperties": False,
    }


def _field(field: Field) -> Mapping[str, Any]:
    about = _about(field.about, field.since)
    return ({"description": about} if about else {}) | dict(field.rule.schema)


def _about(text: str, since: int) -> str:
    return text if since == 1 else f"{text} Since version {since}.".lstrip()


if __name__ == "__main__":
    sys.stdout.write(schema())

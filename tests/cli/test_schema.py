"""`schema`: what a configuration's schema takes is what a sidecar reads, and the other way round."""

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.sidecar import ROOT

from memory_sidecar.backend.choose import describe, rows
from memory_sidecar.backend.opened import BackendError
from memory_sidecar.cli.review.schema import schema
from memory_sidecar.config import Config, ConfigError, MemoryConfig, parse
from memory_sidecar.store.rules import is_key

from .conftest import Cli

PUBLISHED = ROOT / "docs" / "configuration.schema.json"
CHECKER = jsonschema.Draft7Validator(schema())


def reads(text: str) -> bool:
    """Whether a sidecar takes this configuration, as far as its text tells."""
    try:
        config = parse(text.encode())
        describe(config, "agent", None)
    except (ConfigError, BackendError):
        return False
    return config.identity is None or is_key(config.identity)


def test_the_published_schema_is_what_the_command_prints(cli: Cli) -> None:
    assert cli("schema") == (0, PUBLISHED.read_text(), ""), "run: make schema"
    jsonschema.Draft7Validator.check_schema(json.loads(PUBLISHED.read_text()))


def test_each_option_is_described() -> None:
    def fields(one: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        found = list(one.get("properties", {}).values())
        inner = [*found, *one.get("allOf", ()), *([one["then"]] if "then" in one else [])]
        return found + [field for part in inner for field in fields(part)]

    assert all(field.get("description") or "properties" in field or "enum" in field for field in fields(schema()))


# --- both ways ---------------------------------------------------------------------------------------------------

TEXTS = [
    "",
    "a",
    "a.b",
    "a..b",
    ".a",
    "a b",
    "a/b",
    "x" * 200,
    "x" * 201,
    "é",
    "a\n",
    "\n",
    "~",
    "~/a",
    "~b",
    "\0",
    "ü/ß",
]
ODD: list[Any] = [None, True, False, 0, 1, 1.5, [], {}, ["a"], {"a": 1}, *TEXTS]
odd = st.sampled_from(ODD)


def mappings(legal: Mapping[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Mappings of these names, each mostly with what is legal; seldom with a name that is not known."""
    known = {name: st.one_of(value, value, value, odd) for name, value in legal.items()}
    return st.fixed_dictionaries({}, optional={**known, "unknown_name": odd})


texts, booleans = st.sampled_from(TEXTS), st.booleans()
OPTIONS = {
    "file": {"directory": texts, "require_read_before_update": booleans, "single_machine": booleans},
    "jetstream": {"bucket": texts, "prefix": texts, "no_require_read_before_update": booleans},
}
MEMORY = {
    "enabled": booleans,
    "backend": st.sampled_from(["file", "jetstream", None]),
    "read_only": booleans,
    "no_index": booleans,
    "keep_runs": st.sampled_from(["30d", "4w", "0m", "1000000d", *TEXTS]),
    "options": st.one_of(*map(mappings, OPTIONS.values())),
}
HARNESS = {"memory": st.one_of(mappings(MEMORY), mappings(MEMORY), odd), "max_iterations": odd}
WHOLE = {
    "identity": texts,
    "nats_context": texts,
    "harness": st.one_of(*[st.fixed_dictionaries({}, optional=HARNESS)] * 3, odd),
    "model": odd,
}
DOCUMENTS = st.fixed_dictionaries({}, optional=WHOLE)


def test_no_field_is_left_out_above() -> None:
    """Or the next test would not try it."""
    assert {*WHOLE} >= {*Config._fields} - {"memory"}
    assert {*MEMORY} == {*MemoryConfig._fields}
    for row in rows():
        assert {*OPTIONS[row.name]} == {*row.options._fields}


@given(document=st.one_of(DOCUMENTS, DOCUMENTS, odd))
@example({"harness": {"memory": {"backend": "jetstream", "options": {"bucket": "b", "prefix": ""}}}})
@example({"harness": {"memory": {"backend": "jetstream"}}})
@example({"harness": {"memory": {"backend": None, "options": {"directory": None}}}})
@example({"harness": {"memory": {"options": {"directory": "~root/x"}}}})
@example({"identity": "a\n"})
def test_what_is_read_validates_and_what_validates_is_read(document: object) -> None:
    assert CHECKER.is_valid(document) == reads(json.dumps(document))


@pytest.mark.parametrize(
    "text",
    [
        '{"harnes": {"memory": {"enabled": true}}}',
        '{"identity": "a", "identity": "b"}',
        '{"harness": {"memory": {"options": {"directory": "\\ud800"}}}}',
    ],
    ids=["a misspelling of ours among a harness's own keys", "a key that stands twice", "half of a surrogate pair"],
)
def test_what_a_schema_cannot_say(text: str) -> None:
    """The exceptions that the document names."""
    assert not reads(text)
    assert CHECKER.is_valid(json.loads(text))


def configurations() -> list[Any]:
    """All that the documents and examples show, and that has a memory block."""
    found = []
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]):
        blocks = re.findall(r"(?ms)^```yaml\n(.*?)^```", path.read_text())
        found += [pytest.param(block, id=path.name) for block in blocks if "memory:" in block]
    for path in sorted((ROOT / "examples").rglob("*.y*ml")):
        if "node_modules" not in path.parts and "memory:" in path.read_text():
            found.append(pytest.param(path.read_text(), id=path.name))
    return found


@pytest.mark.parametrize("text", configurations())
def test_each_configuration_that_is_shown_validates(text: str) -> None:
    for document in yaml.safe_load_all(text):
        CHECKER.validate(document)


def test_a_program_with_a_store_of_its_own_prints_its_options_too(tmp_path: Path) -> None:
    program = ROOT / "examples" / "sqlite_store.py"
    done = subprocess.run([sys.executable, program, "schema"], cwd=tmp_path, capture_output=True, check=True)
    printed = json.loads(done.stdout)
    memory = printed["properties"]["harness"]["properties"]["memory"]
    assert memory["properties"]["backend"]["default"] == "sqlite"
    own = jsonschema.Draft7Validator(printed)
    assert own.is_valid({"harness": {"memory": {"options": {"file": "x.db"}}}})
    assert not own.is_valid({"harness": {"memory": {"options": {"fiel": "x.db"}}}})
    assert own.is_valid({"harness": {"memory": {"backend": "file", "options": {"directory": "x"}}}})

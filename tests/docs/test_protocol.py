"""The protocol's documents tell what the process does: transcripts, examples, tables and pointers."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.transcripts import frames, rewrite

from exposure_policy.table import TABLE
from memory_sidecar.store import rules
from memory_sidecar.wire import codes, eras, states
from memory_sidecar.wire.codec import MAX_FRAME
from memory_sidecar.wire.lanes import MAX_OPEN_RUNS
from memory_sidecar.wire.opening import FINISHES

ROOT = Path(__file__).parent.parent.parent
DOCUMENT = (ROOT / "docs" / "protocol.md").read_text()
TRANSCRIPTS = (ROOT / "docs" / "transcripts.md").read_text()
EXAMPLES = re.findall(r"^```json\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables under a heading."""
    section = re.split(r"^#+ ", DOCUMENT.split(f"# {heading}\n")[1], flags=re.MULTILINE)[0]
    return [re.findall(r"(?<=\| ).*?(?= \|)", line) for line in section.splitlines() if line.startswith("| ")]


def test_the_transcripts_replay_byte_for_byte() -> None:
    assert rewrite(TRANSCRIPTS) == TRANSCRIPTS, "python -m tests.support.transcripts docs/transcripts.md rewrites them"


@pytest.mark.parametrize("example", EXAMPLES)
def test_each_example_is_part_of_a_frame_in_the_transcripts(example: str) -> None:
    wanted = json.loads(example)
    assert any(_holds(part, wanted) for frame in frames(TRANSCRIPTS) for part in _parts(frame))


def test_each_method_and_code_is_in_an_example_or_a_transcript() -> None:
    shown = frames(TRANSCRIPTS)
    assert {frame["method"] for frame in shown if "method" in frame} >= set(states.METHODS)
    assert {frame["error"]["code"] for frame in shown if "error" in frame} >= set(codes.CODES) - {codes.INTERNAL_ERROR}


def _parts(value: Any) -> Iterator[Any]:
    yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for part in inner:
        yield from _parts(part)


def _holds(value: Any, wanted: Any) -> bool:
    """Whether `value` is `wanted`, but for members that an example leaves out."""
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(key in value and _holds(value[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(_holds, value, wanted))
    return bool(value == wanted)


def test_every_method_is_there() -> None:
    methods = {row[0].strip("`") for row in rows("Methods")}
    notifications = {"notifications/initialized", "notifications/cancelled"}
    assert methods - {"method"} == set(states.METHODS) | notifications


def test_every_error_code_is_there() -> None:
    assert {int(row[0]) for row in rows("Errors") if row[0] != "code"} == set(codes.CODES)


def test_every_tool_reason_and_limit_is_there() -> None:
    cells = rows("The tools")
    tools = len(TABLE)
    assert [row[0].strip("`") for row in cells[1 : tools + 1]] == [policy.name for policy in TABLE]
    limits = {row[0]: row[1] for row in cells[tools + 1 :]}
    assert str(rules.MAX_KEY) in limits["key"]
    assert str(rules.MAX_DESCRIPTION) in limits["description"]
    assert str(rules.MAX_CONTENT_BYTES) in limits["content"]
    assert limits["memories in a store"] == str(rules.MAX_ENTRIES)
    assert all(f"`{reason}`" in DOCUMENT for reason in FINISHES)
    assert f"{MAX_FRAME} bytes" in DOCUMENT
    assert f"{MAX_OPEN_RUNS} runs" in DOCUMENT
    assert all(version in DOCUMENT for version in eras.VERSIONS)


@pytest.mark.parametrize("name", ["protocol.md", "transcripts.md"])
def test_its_links_lead_somewhere(name: str) -> None:
    document = ROOT / "docs" / name
    for target in re.findall(r"\]\(([^)]+)\)", document.read_text()):
        path, _, anchor = target.partition("#")
        led = document.parent / path if path else document
        assert led.exists(), target
        assert not anchor or anchor in anchors(led.read_text()), target


def anchors(document: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", document, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}

"""The protocol's document tells what the process does: its transcripts, its tables and its pointers."""

import re
from pathlib import Path

from tests.support.transcripts import rewrite

from exposure_policy.table import TABLE
from memory_sidecar.store import rules
from memory_sidecar.wire import codes, eras, states
from memory_sidecar.wire.codec import MAX_FRAME
from memory_sidecar.wire.lanes import MAX_OPEN_RUNS
from memory_sidecar.wire.opening import FINISHES

ROOT = Path(__file__).parent.parent.parent
DOCUMENT = (ROOT / "docs" / "protocol.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables under a heading."""
    section = re.split(r"^#+ ", DOCUMENT.split(f"# {heading}\n")[1], flags=re.MULTILINE)[0]
    return [re.findall(r"(?<=\| ).*?(?= \|)", line) for line in section.splitlines() if line.startswith("| ")]


def test_the_transcripts_replay_byte_for_byte() -> None:
    assert rewrite(DOCUMENT) == DOCUMENT, "python -m tests.support.transcripts docs/protocol.md rewrites them"


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


def test_its_links_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.+)$", DOCUMENT, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\(([^)]+)\)", DOCUMENT):
        if target.startswith("#"):
            assert target[1:] in anchors, target
        else:
            assert (ROOT / "docs" / target).exists(), target

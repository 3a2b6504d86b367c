"""The reports: complete, accepted by their consumers, and harmless whatever a server put into its texts."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposure_policy.audit import Evidence, Finding, Report, TargetReport
from exposure_policy.audit.page import to_html
from exposure_policy.audit.rules import RULES
from exposure_policy.audit.sarif import to_sarif
from exposure_policy.audit.structured import to_json
from memory_sidecar.plain import neutralise

SCHEMA = json.loads((Path(__file__).parent / "data" / "sarif-2.1.0-rtm.5.json").read_text())
VALIDATOR = jsonschema.Draft4Validator(SCHEMA, format_checker=jsonschema.FormatChecker())
NASTY = "</code><script>alert(1)</script>\x1b[2J\u202e\u200b]]>&\"'{0} [a](b) \ud800\x00"


def show(text: str) -> str:
    return neutralise(text, 400)


def nasty(name: str = NASTY, file: str | None = None, line: int = 1) -> TargetReport:
    evidence = (Evidence("name", "name", name), Evidence("schema", NASTY, NASTY))
    return TargetReport(
        kind="card" if file else "mcp",
        label=file or f"server {NASTY}",
        findings=(Finding("mcp", "tool", name, "memory_read", evidence, line),),
        unaudited=(f"it said {NASTY}",),
        seen={"tool": 2, "server": 1},
        file=file,
    )


CLEAN = TargetReport("url", "https://mcp.example/mcp", seen={"tool": 3})
HUNG = TargetReport("sse", "https://mcp.example/sse", unaudited=("it did not finish answering within 5 seconds",))
REPORTS = {
    "nothing": Report(()),
    "clean": Report((CLEAN,)),
    "unaudited": Report((CLEAN, HUNG)),
    "leak": Report((CLEAN, HUNG, nasty())),
}


@pytest.mark.parametrize(("name", "code"), [("nothing", 2), ("clean", 0), ("unaudited", 2), ("leak", 1)])
def test_the_exit_code(name: str, code: int) -> None:
    assert REPORTS[name].exit_code == code
    assert json.loads(to_json(REPORTS[name]))["exit"] == code


# --- JSON -------------------------------------------------------------------------------------------------


def test_json_keeps_every_text_and_is_safe_to_print() -> None:
    text = to_json(REPORTS["leak"])
    assert re.fullmatch(r"[ -~\n]*", text)
    target = json.loads(text)["targets"][2]
    assert target["status"] == "leak"
    assert target["findings"][0]["name"] == NASTY
    assert target["findings"][0]["evidence"][1]["text"] == NASTY
    assert target["unaudited"] == [f"it said {NASTY}"]
    assert target["seen"] == {"tool": 2, "server": 1}


# --- SARIF ------------------------------------------------------------------------------------------------


def sarif(report: Report, **kwargs: Any) -> dict[str, Any]:
    text = to_sarif(report, show, "1.2.3", **kwargs)
    assert re.fullmatch(r"[ -~\n]*", text)
    data: dict[str, Any] = json.loads(text)
    VALIDATOR.validate(data)
    return data


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_sarif_is_valid_against_the_published_schema(name: str) -> None:
    data = sarif(REPORTS[name])
    assert data["version"] == "2.1.0"
    (run,) = data["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert {rule["id"].removeprefix("memory-exposure/") for rule in rules} == {*RULES, "unaudited"}
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
    assert run["invocations"][0]["executionSuccessful"] == (name in ("clean", "nothing"))


def test_the_schema_does_refuse() -> None:
    data = sarif(REPORTS["leak"])
    data["runs"][0]["results"][0]["message"] = "text"
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(data)


def test_what_code_scanning_needs_beyond_the_schema() -> None:
    (run,) = sarif(REPORTS["leak"])["runs"]
    assert len(run["results"]) == 3
    for result in run["results"]:
        (location,) = result["locations"]
        address = location["physicalLocation"]["artifactLocation"]["uri"]
        assert re.fullmatch(r"[A-Za-z0-9._/%-]+", address)
        assert not address.startswith(("/", ".."))
        assert location["physicalLocation"]["region"]["startLine"] >= 1
        assert result["partialFingerprints"]["primaryLocationLineHash"]
        assert result["message"]["text"]
        assert len(result["message"]["text"]) <= 4000
        assert result["level"] == "error"
    for rule in run["tool"]["driver"]["rules"]:
        assert "security" in rule["properties"]["tags"]
        assert 0 < float(rule["properties"]["security-severity"]) <= 10
        assert rule["help"]["text"]
        assert len(rule["shortDescription"]["text"]) <= 1024


def test_an_audited_file_is_its_own_place(tmp_path: Path) -> None:
    file = tmp_path / "a dir" / "card.json"
    file.parent.mkdir()
    file.touch()
    (run,) = sarif(Report((nasty("memory_read", str(file), 7),)), root=str(tmp_path))["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place == {"artifactLocation": {"uri": "a%20dir/card.json"}, "region": {"startLine": 7}}
    (run,) = sarif(Report((nasty("memory_read", str(file), 7),)), root=str(tmp_path / "other"))["runs"]
    address = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert address.startswith("memory-sidecar-audit/card/")


def test_fingerprints_are_stable_and_distinct() -> None:
    def prints(report: Report) -> list[str]:
        return [r["partialFingerprints"]["primaryLocationLineHash"] for r in sarif(report)["runs"][0]["results"]]

    first = prints(REPORTS["leak"])
    assert first == prints(REPORTS["leak"])
    assert len(set(first)) == len(first)


# --- HTML -------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] != "style":
            self.text += data


ALLOWED = frozenset(
    re.findall(
        r"\w+",
        "html head meta title style body main h1 h2 p div strong section span code table thead tbody tr th td br"
        " ul li dl dt dd footer",
    )
)


def page(report: Report) -> Page:
    html = to_html(report, show, "1.2.3", "2026-01-02 03:04 UTC")
    parsed = Page()
    parsed.feed(html)
    assert {tag for tag, _ in parsed.tags} <= ALLOWED
    for tag, attributes in parsed.tags:
        assert not {name for name in attributes if name.startswith("on") or name in ("src", "href", "style")}, tag
    assert not re.search(r"(?i)https?://(?!mcp\.example)|url\(|@import", html)
    return parsed


@pytest.mark.parametrize("name", sorted(REPORTS))
def test_the_page_is_self_contained_and_says_everything(name: str) -> None:
    parsed = page(REPORTS[name])
    assert "2026-01-02 03:04 UTC" in parsed.text
    for target in REPORTS[name].targets:
        assert show(target.label) in parsed.text
        for finding in target.findings:
            assert finding.tool in parsed.text
            assert show(finding.evidence[1].text) in parsed.text
        for reason in target.unaudited:
            assert show(reason) in parsed.text
    assert ("script", {}) not in parsed.tags
    assert "\x1b" not in parsed.text
    assert "\u202e" not in parsed.text


def test_the_worst_comes_first() -> None:
    text = page(REPORTS["leak"]).text
    assert text.index("server") < text.index("mcp.example/sse") < text.index("mcp.example/mcp")
    assert "3 targets: 1 leak, 1 not audited, 1 clean." in text


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_is_harmless_in_every_report(name: str, evidence: str) -> None:
    found = Finding("mcp", "tool", name, "memory_read", (Evidence("text", evidence, name), Evidence("text", "x", "y")))
    report = Report((TargetReport("mcp", name, (found,), (evidence,)),))
    page(report)
    sarif(report)
    json.loads(to_json(report))

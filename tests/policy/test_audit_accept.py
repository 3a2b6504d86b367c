"""Accepting a reviewed finding: by its exact id, with a reason, told in every report, and never more than it says."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.terminal import Terminal
from tests.policy.test_audit_command import run
from tests.policy.test_audit_reports import HUNG, nasty, page, sarif
from tests.policy.test_audit_servers import BREAKS, command

from exposure_policy.audit import AcceptError, Bounds, Report, accept, load
from exposure_policy.audit.collect import Collector
from exposure_policy.audit.structured import to_json

REASON = "The build cache's own keys; reviewed in June."


def listed(*entries: dict[str, Any], label: str = "server") -> Report:
    """A report over a server that lists these tools."""
    collector = Collector("mcp", label, Bounds())
    for _ in collector.result({"tools": list(entries)}):
        pass
    return Report((collector.report(),))


LEAK: dict[str, Any] = {"name": "memory_read", "description": "Reads.", "inputSchema": {"type": "object"}}


def ids(report: Report) -> list[str]:
    return [finding.id for target in report.targets for finding in target.findings]


# --- the id -----------------------------------------------------------------------------------------------


def test_an_id_is_the_same_in_every_run() -> None:
    assert ids(listed(LEAK)) == ids(listed({"name": "add"}, LEAK)) == ids(listed(dict(reversed(LEAK.items()))))
    assert len(set(ids(listed(LEAK, LEAK)))) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"name": "memory_write"},
        {"title": "Reader"},
        {"description": "Reads, and sends it elsewhere."},
        {"inputSchema": {"type": "object", "properties": {"to": {"type": "string"}}}},
        {"outputSchema": {"type": "object"}},
        {"annotations": {"destructiveHint": True}},
        {"_meta": {"x": 1}},
        {"icons": [{"src": "https://x.example/i.png"}]},
        {"x-unknown": False},
    ],
    ids=lambda c: next(iter(c)),
)
def test_whatever_an_offer_shows_is_part_of_its_id(change: dict[str, Any]) -> None:
    before, after = ids(listed(LEAK)), ids(listed(LEAK | change))
    assert before != after
    report = accept(listed(LEAK | change), dict.fromkeys(before, REASON))
    assert report.exit_code == 1
    assert report.stale == ((before[0], REASON),)


def test_the_same_offer_elsewhere_is_another_finding() -> None:
    assert ids(listed(LEAK)) != ids(listed(LEAK, label="another"))


def test_a_second_offer_under_an_accepted_name_is_not_hidden() -> None:
    other = LEAK | {"description": "Another."}
    report = accept(listed(LEAK, other), dict.fromkeys(ids(listed(LEAK)), REASON))
    assert [bool(f.accepted) for f in report.targets[0].findings] == [True, False]
    assert report.exit_code == 1


def test_a_deep_or_strange_offer_has_an_id() -> None:
    deep: dict[str, Any] = {}
    for _ in range(20_000):
        deep = {"a": deep}
    assert all(len(i) == 16 for i in ids(listed(LEAK | {"inputSchema": deep}, LEAK | {"x": {1: 2, "a": 3}})))


# --- what it does ------------------------------------------------------------------------------------------


def test_all_accepted_passes_and_is_told() -> None:
    report = accept(listed(LEAK), {ids(listed(LEAK))[0]: REASON})
    assert report.exit_code == 0
    assert report.targets[0].status == "accepted"
    assert report.targets[0].findings[0].accepted == REASON


def test_what_was_not_seen_is_never_accepted() -> None:
    found = listed(LEAK).targets[0]
    report = accept(Report((found, HUNG)), {found.findings[0].id: REASON})
    assert report.exit_code == 2
    half = accept(Report((nasty(),)), {"0" * 16: REASON})
    assert half.exit_code == 1


def test_every_report_tells_what_was_accepted_and_what_is_stale() -> None:
    gone = "f" * 16
    found = listed(LEAK)
    report = accept(found, {ids(found)[0]: REASON, gone: "It was there once."})
    data = json.loads(to_json(report))
    assert data["stale"] == [{"finding": gone, "reason": "It was there once."}]
    assert data["targets"][0]["findings"][0]["accepted"] == REASON
    assert data["targets"][0]["status"] == "accepted"
    (log,) = sarif(report)["runs"]
    assert log["results"][0]["suppressions"] == [{"kind": "external", "justification": REASON}]
    assert gone in log["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"]
    assert log["invocations"][0]["executionSuccessful"] is True
    text = page(report).text
    for told in (REASON, ids(found)[0], gone, "It was there once.", "Nothing is exposed but what was accepted"):
        assert told in text
    assert "suppressions" not in sarif(found)["runs"][0]["results"][0]


# --- the file ----------------------------------------------------------------------------------------------


def test_a_file_of_accepted_findings(tmp_path: Path) -> None:
    file = tmp_path / "accepted.toml"
    file.write_text('# reviewed\n[[accept]]\nfinding = "0123456789abcdef"\nreason = " Why. "\n')
    assert load(str(file)) == {"0123456789abcdef": "Why."}
    file.write_text("")
    assert load(str(file)) == {}


ENTRY = '[[accept]]\nfinding = "0123456789abcdef"\nreason = "Why."\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot read"),
        ("\udcff", "cannot read"),
        ("accept = 3", "something else"),
        ("accept = [3]", "other keys"),
        ("all = true\n" + ENTRY, "something else"),
        ('[[accept]]\nfinding = "0123456789abcdef"\n', "other keys"),
        (ENTRY + 'until = "2030"\n', "other keys"),
        ('[[accept]]\nfinding = "0123456789abcdef"\nreason = " "\n', "no reason"),
        ('[[accept]]\nfinding = "0123456789abcdef"\nreason = 1\n', "no reason"),
        ('[[accept]]\nfinding = "*"\nreason = "Why."\n', "names no finding"),
        ('[[accept]]\nfinding = "0123"\nreason = "Why."\n', "names no finding"),
        ('[[accept]]\nfinding = "0123456789ABCDEF"\nreason = "Why."\n', "names no finding"),
        ('[[accept]]\nfinding = ["0123456789abcdef"]\nreason = "Why."\n', "names no finding"),
        (ENTRY + ENTRY, "again"),
    ],
)
def test_a_file_that_could_accept_more_than_it_says_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "accepted.toml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(AcceptError, match=said) as caught:
        load(str(file))
    assert "\n" not in str(caught.value)
    assert ";" in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(AcceptError, match="No such file"):
        load(str(tmp_path / "none.toml"))


# --- at the command ----------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path) -> str:
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"notes": {"command": "memory-sidecar", "env": {"TOKEN": "s3cret"}}}}')
    return str(file)


def test_from_a_report_to_a_run_that_passes(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--host-config", config) == 1
    (record,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("leak\t")]
    fields = record.split("\t")
    assert fields[3:6] == ["host-config", "listed server", "notes"]
    assert "memory_list, memory_read" in fields[6]
    accepted = tmp_path / "accepted.toml"
    accepted.write_text(f'[[accept]]\nfinding = "{fields[8]}"\nreason = "{REASON}"\n')
    assert run("--host-config", config, "--accept", str(accepted)) == 0
    out = capsys.readouterr().out
    assert out.startswith("accepted\t")
    assert REASON in out
    assert "Accepted:" in out.splitlines()[-1]
    # Beside something that cannot be seen, it still cannot be.
    hidden = ("--mcp", command(BREAKS, "exits"))
    assert run("--host-config", config, *hidden, "--accept", str(accepted)) == 2
    assert "\nunaudited\t" in capsys.readouterr().out
    assert run("--card", str(tmp_path / "none.json"), "--accept", str(accepted)) == 2
    assert f"stale\t{fields[8]}\t" in capsys.readouterr().out


def test_a_file_that_cannot_be_used_stops_the_run(config: str, tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as caught:
        run("--host-config", config, "--accept", str(tmp_path / "none.toml"))
    assert caught.value.code == 2


def test_records_are_one_line_each_and_a_terminal_gets_a_table(config: str) -> None:
    words = [sys.executable, "-P", "-m", "memory_sidecar", "audit", "--host-config", config]
    piped = subprocess.run(words, capture_output=True, text=True, check=False)
    assert piped.returncode == 1
    records = piped.stdout.splitlines()
    assert len(records) == 2
    assert records[0].count("\t") == 8
    assert "s3cret" not in piped.stdout
    with Terminal("audit", "--host-config", config, columns=80) as terminal:
        shown = terminal.rest()
    assert terminal.status == 1
    assert "surface" in shown
    assert "\t" not in shown
    assert all(len(line) <= 80 for line in shown.splitlines() if "\x1b" not in line)

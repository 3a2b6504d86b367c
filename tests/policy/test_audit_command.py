"""`memory-sidecar audit`: its options, its table, its files and its exit status."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.policy.test_audit_servers import BREAKS, command

from memory_sidecar.cli.review import audit

HOSTILE = "\x1b[2Jmemory\u202e_read [red]x[/red] </script>"


def parse(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="memory-sidecar audit")
    audit.configure(parser)
    return parser.parse_args(words)


def run(*words: str) -> int:
    return audit.run(parse(*words))


@pytest.fixture
def leaky(tmp_path: Path) -> str:
    skill = {"id": "a", "name": HOSTILE, "description": "d", "tags": []}
    card = {"name": "n", "description": "d", "version": "1", "capabilities": {}, "skills": [skill]}
    (tmp_path / "card.json").write_text(json.dumps(card))
    return str(tmp_path / "card.json")


@pytest.fixture
def clean(tmp_path: Path) -> str:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"a": {"command": "npx"}}}')
    return str(tmp_path / "mcp.json")


def test_clean(clean: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--host-config", clean) == 0
    assert "Clean" in capsys.readouterr().out


def test_a_leak_is_shown_without_its_tricks(leaky: str, clean: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--card", leaky, "--host-config", clean) == 1
    out = capsys.readouterr().out
    assert "memory_read" in out
    assert "[red]x[/red]" in out
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert out.index("card.json") < out.index("mcp.json")


def test_the_same_without_the_table_package(
    leaky: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("rich", "rich.console"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert run("--card", leaky) == 1
    out = capsys.readouterr().out
    assert "memory_read" in out
    assert "\x1b" not in out


def test_unaudited(tmp_path: Path, clean: str, leaky: str) -> None:
    missing = str(tmp_path / "none.json")
    assert run("--host-config", clean, "--card", missing) == 2
    assert run("--card", missing, "--card", leaky) == 1


def test_json_sarif_and_html(leaky: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sarif, html = tmp_path / "a.sarif", tmp_path / "a.html"
    assert run("--card", leaky, "--json", "--sarif", str(sarif), "--html", str(html)) == 1
    printed = json.loads(capsys.readouterr().out)
    assert printed["targets"][0]["findings"][0]["name"] == HOSTILE
    assert json.loads(sarif.read_text())["runs"][0]["results"]
    assert html.read_text().startswith("<!doctype html>")
    assert "<script" not in html.read_text()


def test_a_report_that_cannot_be_written_is_not_a_clean_run(
    clean: str, leaky: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = str(tmp_path / "none" / "a.html")
    assert run("--host-config", clean, "--html", nowhere) == 2
    assert run("--card", leaky, "--sarif", nowhere) == 1
    assert "cannot write" in capsys.readouterr().err


@pytest.mark.parametrize("there", [False, True])
def test_two_reports_in_one_file_are_refused(
    clean: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], there: bool
) -> None:
    same, link, hard = tmp_path / "a", tmp_path / "b", tmp_path / "c"
    link.symlink_to(same)
    others = [str(same), str(link), f"{tmp_path}/../{tmp_path.name}/a"]
    if there:
        same.write_text("kept")
        hard.hardlink_to(same)
        others.append(str(hard))
    for other in others:
        with pytest.raises(SystemExit):
            run("--host-config", clean, "--sarif", str(same), "--html", other)
        assert "the same file" in capsys.readouterr().err
    assert (same.read_text() == "kept") if there else not same.exists()


def test_a_server_that_floods_leaves_the_terminal_alone(capfd: pytest.CaptureFixture[str]) -> None:
    assert run("--mcp", command(BREAKS, "floods_stderr"), "--mcp", command(BREAKS, "answers_by_hand")) == 1
    captured = capfd.readouterr()
    assert captured.err == ""
    assert "\x1b" not in captured.out
    assert "bytes to stderr" in captured.out


def test_the_time_limit_is_passed_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--mcp", command(BREAKS, "hangs"), "--timeout", "1") == 2
    assert "within 1 seconds" in capsys.readouterr().out


@pytest.mark.parametrize("words", [(), ("--json",), ("--timeout", "0"), ("--timeout", "nan"), ("--timeout", "x")])
def test_wrong_usage(words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit):
        run(*words)


def test_help_needs_nothing_heavy() -> None:
    code = (
        "import sys, argparse; from memory_sidecar.cli.review import audit\n"
        "audit.configure(argparse.ArgumentParser())\n"
        "print([m for m in ('anyio', 'mcp', 'a2a', 'rich', 'exposure_policy.audit') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

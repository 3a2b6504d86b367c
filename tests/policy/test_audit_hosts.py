"""Configuration files of MCP hosts: the sidecar is found wherever a client could start it."""

import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from exposure_policy.audit import Bounds, Target, TargetReport, audit, label

OTHER = {"command": "npx", "args": ["-y", "@example/server-files", "/srv"], "env": {"TOKEN": "s3cret"}}
REMOTE = {"type": "http", "url": "https://mcp.example/mcp"}


def look(path: Path, text: str, name: str = "mcp.json") -> TargetReport:
    file = path / name
    file.write_text(text)
    return anyio.run(audit, [Target("host-config", str(file))], Bounds()).targets[0]


def shapes(entry: dict[str, Any]) -> dict[str, dict[str, Any]]:
    servers = {"files": OTHER, "notes": entry, "remote": REMOTE}
    return {
        "claude-desktop": {"mcpServers": servers},
        "claude-code-project": {"mcpServers": servers},
        "claude-code-user": {"numStartups": 3, "projects": {"/srv/x": {"mcpServers": servers}, "/y": {}}},
        "cursor": {"mcpServers": servers},
        "vscode": {"inputs": [], "servers": servers},
        "vscode-settings": {"editor.fontSize": 12, "mcp": {"servers": servers}},
        "vscode-flat-settings": {"mcp.servers": servers},
        "devcontainer": {"customizations": {"vscode": {"mcp": {"servers": servers}}}},
        "zed": {"context_servers": servers},
    }


SIDECAR = {"command": "memory-sidecar", "args": ["serve"]}


@pytest.mark.parametrize("shape", sorted(shapes(SIDECAR)))
def test_the_sidecar_is_found_in_every_hosts_file(tmp_path: Path, shape: str) -> None:
    text = json.dumps(shapes(SIDECAR)[shape], indent=2)
    report = look(tmp_path, text)
    assert report.status == "leak"
    assert report.unaudited == ()
    (finding,) = report.findings
    assert (finding.surface, finding.name, finding.rule) == ("host-config", "notes", "listed")
    assert "memory-sidecar" in finding.evidence[0].text
    assert finding.evidence[0].where.endswith("ervers.notes")  # the entry as the file has it
    assert finding.tool == "memory_list, memory_read, memory_write, memory_delete"  # what it would offer
    assert '"notes"' in text.splitlines()[finding.line - 1]
    assert report.seen == {"listed server": 3}


@pytest.mark.parametrize("shape", sorted(shapes(OTHER)))
def test_a_file_without_it_is_clean(tmp_path: Path, shape: str) -> None:
    report = look(tmp_path, json.dumps(shapes(OTHER)[shape]))
    assert (report.status, report.unaudited, report.findings) == ("clean", (), ())


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "/opt/tools/bin/memory-sidecar", "args": ["serve"]},
        {"command": "C:\\tools\\memory-sidecar.exe"},
        {"command": "python3", "args": ["-m", "memory_sidecar", "serve"]},
        {"command": "uvx", "args": ["memory-sidecar@latest", "serve"]},
        {"command": "uvx", "args": ["--from=memory-sidecar[audit]", "x"]},
        {"command": "pipx", "args": ["run", "memory-sidecar==1.0"]},
        {"command": "sh", "args": ["-c", "cd /srv && exec memory-sidecar serve"]},
        {"command": "mcp-proxy", "args": ["--port", "8080", "--", "memory-sidecar", "serve"]},
        {"command": {"path": "memory-sidecar", "args": ["serve"]}},
        {"command": "memory-sidecar serve", "disabled": True},
        {"command": "x", "env": {"MEMORY_SIDECAR_TICKET": "/run/t"}},
        {"command": "${MS}", "env": {"MS": "memory-sidecar"}},
        {"command": "${env:MS}", "env": {"MS": "$OTHER", "OTHER": "/opt/memory-sidecar"}},
        {"command": "sh", "args": ["-c", "exec $MS serve"], "env": {"MS": "memory-sidecar"}},
        {"command": "%MS%", "env": {"MS": "memory-sidecar"}},
        {"command": "${MS:-memory-sidecar}"},
        {"command": "uvx", "args": ["memory-${PART}"], "env": {"PART": "sidecar"}},
    ],
    ids=str,
)
def test_the_sidecar_under_any_command_line(tmp_path: Path, entry: dict[str, Any]) -> None:
    assert look(tmp_path, json.dumps({"mcpServers": {"n": entry}})).status == "leak"


@pytest.mark.parametrize(
    "entry",
    [
        {"command": "npx", "args": ["@modelcontextprotocol/server-memory"]},
        {"command": "tail", "args": ["-f", "/var/log/memory-sidecar.log"]},
        {"command": "memory-sidecar-exporter"},
        {"command": "npx", "args": ["${WHAT}", "$A"], "env": {"A": "$A", "REPO": "me/memory-sidecar"}},
        {"command": "server", "args": ["--doc", "memory-sidecar.md"]},
    ],
    ids=str,
)
def test_what_only_sounds_like_it(tmp_path: Path, entry: dict[str, Any]) -> None:
    assert look(tmp_path, json.dumps({"mcpServers": {"n": entry}})).status == "clean"


def test_wrappers_that_exist_here(tmp_path: Path) -> None:
    script = tmp_path / "start.sh"
    script.write_text('#!/bin/sh\nexec memory-sidecar serve "$@"\n')
    real = tmp_path / "memory-sidecar"
    real.write_bytes(b"\x7fELF\0")
    os.symlink(real, tmp_path / "notes")
    for command in (script, tmp_path / "notes"):
        report = look(tmp_path, json.dumps({"mcpServers": {"n": {"command": str(command)}}}))
        assert report.status == "leak", command
    harmless = tmp_path / "other.sh"
    harmless.write_text("#!/bin/sh\nexec other\n")
    assert look(tmp_path, json.dumps({"mcpServers": {"n": {"command": str(harmless)}}})).status == "clean"


def test_comments_and_trailing_commas(tmp_path: Path) -> None:
    text = """{
      // "memory-sidecar" is not here
      "servers": { /* none */
        "a": {"command": "x", "args": ["// no comment", "/*", "*/",],},
      },
    }"""
    assert look(tmp_path, text).status == "clean"
    assert look(tmp_path, text.replace('"x"', '"memory-sidecar"')).status == "leak"


def test_toml(tmp_path: Path) -> None:
    text = '[mcp_servers.notes]\ncommand = "memory-sidecar"\nargs = ["serve"]\n'
    assert look(tmp_path, text, "config.toml").status == "leak"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"mcpServers": 3}',
        '{"mcpServers": {"a": "b"}}',
        '{"mcpServers": {"a": {}}}',
        '{"mcpServers": {"a": {"command": "memory-sidecar"}, "a": {"command": "npx"}}}',
        '{"mcpServers": {"a": {"command": "x", /* so */ "command": "npx",}}}',
        "[" * 100_000,
    ],
)
def test_what_cannot_be_understood_is_unaudited(tmp_path: Path, text: str) -> None:
    assert look(tmp_path, text).status == "unaudited"


def test_an_empty_list_is_clean(tmp_path: Path) -> None:
    assert look(tmp_path, '{"mcpServers": {}}').status == "clean"


def test_a_missing_file(tmp_path: Path) -> None:
    report = anyio.run(audit, [Target("host-config", str(tmp_path / "none.json"))], Bounds()).targets[0]
    assert report.status == "unaudited"
    assert "No such file" in report.unaudited[0]


def test_labels_show_no_secrets() -> None:
    assert (
        label(Target("url", "https://u:p@mcp.example:8443/mcp?key=s3cret#s3cret")) == "https://mcp.example:8443/mcp?…"
    )
    shown = label(Target("mcp", "env API_KEY=s3cret server --token s3cret --api-key=s3cret --verbose /srv"))
    assert shown == "env API_KEY=… server --token … --api-key=… --verbose /srv"

"""Configuration files of MCP hosts: the sidecar is found wherever a client could start it."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest
import yaml

from exposure_policy.audit import Bounds, Target, TargetReport, audit, label

HOST_FILES = Path(__file__).parent / "host_files"
OTHER = {"command": "npx", "args": ["-y", "@example/server-files", "/srv"], "env": {"TOKEN": "s3cret"}}
REMOTE = {"type": "http", "url": "https://mcp.example/mcp"}


def look(path: Path, text: str, name: str = "mcp.json") -> TargetReport:
    file = path / name
    file.write_text(text)
    return anyio.run(audit, [Target("host-config", str(file))], Bounds()).targets[0]


def goose(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry in Goose's words."""
    return {
        "enabled": True,
        "type": "stdio",
        "cmd": entry["command"],
        "args": entry["args"],
        "envs": {},
        "timeout": 300,
    }


def opencode(entry: dict[str, Any]) -> dict[str, Any]:
    return {"type": "local", "command": [entry["command"], *entry["args"]], "environment": {}, "enabled": True}


def shapes(entry: dict[str, Any]) -> dict[str, dict[str, Any]]:
    servers = {"files": OTHER, "notes": entry, "remote": REMOTE}
    zed = {"path": entry["command"], "args": entry["args"], "env": {}}
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
        "zed-older": {"context_servers": servers | {"notes": {"command": zed, "settings": {}}}},
        "windsurf": {"mcpServers": servers | {"remote": {"serverUrl": "https://mcp.example/mcp", "disabledTools": []}}},
        "gemini": {
            "mcp": {"allowed": ["files"], "excluded": []},
            "mcpServers": servers | {"remote": {"httpUrl": "https://mcp.example/mcp", "trust": False}},
        },
        "opencode": {
            "$schema": "https://opencode.example/config.json",
            "mcp": {
                "files": opencode(OTHER),
                "notes": opencode(entry),
                "remote": {"type": "remote", "url": "https://mcp.example/mcp"},
            },
            "formatter": {"x": {"command": ["memory-sidecar", "$FILE"]}},
        },
        "goose": {
            "GOOSE_MODEL": "m",
            "extensions": {
                "developer": {"bundled": True, "enabled": True, "name": "developer", "type": "builtin"},
                "files": goose(OTHER),
                "notes": goose(entry),
                "remote": {"type": "streamable_http", "uri": "https://mcp.example/mcp", "enabled": True},
            },
        },
        "librechat": {"version": "1.2.8", "endpoints": {"agents": {}}, "mcpServers": servers},
        "continue": {"name": "x", "models": [], "mcpServers": [{"name": n} | e for n, e in servers.items()]},
        "continue-older": {
            "experimental": {
                "modelContextProtocolServers": [
                    {"name": n, "transport": {"type": "stdio"} | e} for n, e in servers.items()
                ]
            }
        },
        "codex": {"model": "x", "mcp_servers": servers, "profiles": {"y": {"model": "z"}}},
        "amp": {"amp.mcpServers": servers},
        "by-project": {"mcpServers": {"/srv/x": servers, "/srv/y": {}}},
        "of-no-known-host": {"profiles": [{"name": "work", "tool-servers": servers}]},
        "hooks-beside": {
            "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "memory-sidecar doctor"}]}]},
            "statusLine": {"type": "command", "command": "memory-sidecar info"},
            "mcpServers": servers,
        },
    }


SIDECAR = {"command": "memory-sidecar", "args": ["serve"]}


@pytest.mark.parametrize("shape", sorted(shapes(SIDECAR)))
def test_the_sidecar_is_found_in_every_hosts_file(tmp_path: Path, shape: str) -> None:
    text = json.dumps(shapes(SIDECAR)[shape], indent=2)
    report = look(tmp_path, text)
    if shape == "by-project":
        assert "the entry '/srv/y'" in report.unaudited[0]  # an empty entry, for all that is known of it
        report = replace(report, unaudited=(), seen={"listed server": 3})
    assert report.status == "leak"
    assert report.unaudited == ()
    (finding,) = report.findings
    assert (finding.surface, finding.name, finding.rule) == ("host-config", "notes", "listed")
    assert "memory-sidecar" in finding.evidence[0].text
    assert finding.evidence[0].where.endswith(".notes")  # the entry as the file has it
    assert finding.tool == "memory_list, memory_read, memory_write, memory_delete"  # what it would offer
    assert '"notes"' in text.splitlines()[finding.line - 1]
    assert report.seen == {"listed server": 3}


@pytest.mark.parametrize("shape", sorted(shapes(OTHER)))
def test_a_file_without_it_is_clean(tmp_path: Path, shape: str) -> None:
    report = look(tmp_path, json.dumps(shapes(OTHER)[shape]))
    assert report.findings == ()
    assert shape == "by-project" or (report.status, report.unaudited) == ("clean", ())


RUN_OTHERWISE = [
    *("hook", "hooks", "tasks", "slash_commands", "fileSuggestion", "statusLine", "subagentStatusLine", "formatter"),
    *("formatters", "lsp", "language_servers", "languages", "terminal", "build"),
]


@pytest.mark.parametrize("what", RUN_OTHERWISE)
def test_what_a_host_runs_that_is_no_server_is_none(tmp_path: Path, what: str) -> None:
    servers = {"files": OTHER}
    report = look(tmp_path, json.dumps({"mcpServers": servers, what: {"x": SIDECAR}, "in": {what: [SIDECAR]}}))
    assert (report.status, report.findings, report.unaudited) == ("clean", (), ())
    assert look(tmp_path, json.dumps({"mcpServers": servers, f"{what}X": {"x": SIDECAR}})).findings


@pytest.mark.parametrize(("depth", "taken"), [(37, True), (38, False)])
def test_a_file_is_looked_through_forty_deep(tmp_path: Path, depth: int, *, taken: bool) -> None:
    """The list, the server in it and what that has are three of them."""
    text = json.dumps({"mcpServers": {"notes": SIDECAR}})
    report = look(tmp_path, '{"a": ' * depth + text + "}" * depth)
    assert bool(report.findings) is taken
    assert any("nested more than 40 deep" in reason for reason in report.unaudited) is not taken


@pytest.mark.parametrize("shape", sorted(shapes(SIDECAR)))
def test_the_same_in_yaml(tmp_path: Path, shape: str) -> None:
    text = yaml.safe_dump(shapes(SIDECAR)[shape], sort_keys=False)
    (finding,) = look(tmp_path, text, "config.yaml").findings
    assert finding.name == "notes"
    assert "notes" in text.splitlines()[finding.line - 1]


ODD = (None, "", "a text", [], ["a", "list"], 0, 7, 1.5, True, {}, [[]], [None], {"command": None}, {"command": 7})


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize("shape", sorted(shapes(SIDECAR)))
def test_an_odd_entry_never_hides_the_others(tmp_path: Path, shape: str, odd: Any) -> None:
    """Before them and behind, in every list of the file."""

    def among(node: Any) -> Any:
        if isinstance(node, list):
            return [odd, *map(among, node), odd]
        if not isinstance(node, dict) or "command" in node or "cmd" in node or "transport" in node:
            return node
        return {"odd": odd} | {key: among(value) for key, value in node.items()} | {"odd too": odd}

    report = look(tmp_path, json.dumps(among(shapes(SIDECAR)[shape])))
    assert "notes" in {f.name for f in report.findings}


# A whole file as each host documents it: how many servers it lists. One, "notes", is the sidecar.
FILES = {
    "claude_code_plugin.mcp.json": 2,
    "claude_code_settings.json": 2,
    "claude_code_user.json": 2,
    "claude_desktop_config.json": 2,
    "claude_desktop_manifest.json": 3,
    "codex.config.toml": 4,
    "continue.config.yaml": 3,
    "cursor.mcp.json": 3,
    "gemini.settings.json": 6,
    "goose.config.yaml": 3,
    "goose.recipe.yaml": 2,
    "librechat.yaml": 4,
    "opencode.jsonc": 3,
    "vscode.mcp.json": 4,
    "vscode.settings.json": 2,
    "windsurf.mcp_config.json": 3,
    "zed.settings.json": 5,
}


def test_every_file_is_looked_at() -> None:
    assert sorted(FILES) == sorted(os.listdir(HOST_FILES))


@pytest.mark.parametrize("name", sorted(FILES))
def test_a_whole_file_of_each_host(tmp_path: Path, name: str) -> None:
    """Found once and where it stands; what else the file says is no list and hides nothing."""
    text = (HOST_FILES / name).read_text()
    report = look(tmp_path, text, name)
    assert ([f.name for f in report.findings], report.unaudited) == (["notes"], ())
    assert report.seen == {"listed server": FILES[name]}
    assert "notes" in text.splitlines()[report.findings[0].line - 1]
    report = look(tmp_path, text.replace("memory-sidecar", "other"), name)
    assert (report.status, report.unaudited) == ("clean", ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"mcp": {"jira": {"enabled": true}}}', "plugin or settings elsewhere"),
        ('{"plugins": {"a": {"mcp_servers": {"b": {"enabled_tools": ["x"]}}}}}', "plugin or settings elsewhere"),
        ('{"mcpServers": [{"uses": "owner/block", "with": {"KEY": "x"}}]}', "plugin or settings elsewhere"),
        ('{"agent": {"profiles": {"a": {"context_servers": {"b": {"tools": {}}}}}}}', "plugin or settings elsewhere"),
        ('{"name": "plugin", "mcpServers": "./servers.json"}', "names another file, './servers.json'"),
        ('{"mcpServers": {"a": {"command": "x"}}, "agents": [{"mcpServers": ["a", "b"]}]}', "the entry '1' under"),
    ],
)
def test_what_is_brought_from_elsewhere_is_unaudited(tmp_path: Path, text: str, said: str) -> None:
    report = look(tmp_path, text)
    assert len(report.unaudited) == 1
    assert said in report.unaudited[0]


def test_what_is_set_elsewhere_is_unaudited(tmp_path: Path) -> None:
    for entry in (
        {"command": "${input:what}"},
        {"command": "{env:SERVER}", "args": ["serve"]},
        {"command": "${{ secrets.SERVER }}"},
        {"command": "uvx", "args": ["${input:what}", "serve"]},
        {"command": "npx", "args": ["-y", "$PACKAGE"]},
    ):
        report = look(tmp_path, json.dumps({"servers": {"n": entry}, "inputs": [{"id": "other", "default": "x"}]}))
        assert "which is set elsewhere" in report.unaudited[0], entry
        asked = [{"type": "promptString", "id": "what", "default": "memory-sidecar"}]
        if "what" in str(entry):
            assert look(tmp_path, json.dumps({"servers": {"n": entry}, "inputs": asked})).status == "leak"
    passed_on = {"command": "npx", "args": ["-y", "server", "--key", "${input:key}"], "env": {"KEY": "${input:key}"}}
    assert look(tmp_path, json.dumps({"servers": {"n": passed_on}})).status == "clean"


def test_an_editors_extension_is_unaudited(tmp_path: Path) -> None:
    for entry in ({"source": "extension", "enabled": True, "settings": {}}, {"settings": {"a": 1}}):
        report = look(tmp_path, json.dumps({"context_servers": {"mcp-server-x": entry}}))
        assert "is started by an extension, a plugin or settings elsewhere" in report.unaudited[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mcpServers:\n  a: {command: memory-sidecar}\n  a: {command: npx}\n", "the key 'a' twice"),
        ("mcpServers: [\n", "cannot be read"),
        ("mcpServers: !!python/object:os.system {}\n", "cannot be read"),
        ("a: &a [x, x]\n" + "".join(f"{n}: [{', '.join(['*a'] * 9)}]\n" for n in range(120)), "more than 1000 aliases"),
        ("a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30)), "parts"),
        ("mcpServers: &a {b: *a}\n", "nested more than"),
        ("mcpServers:\n", "holds no"),
    ],
)
def test_yaml_that_cannot_be_understood(tmp_path: Path, text: str, said: str) -> None:
    report = look(tmp_path, text, "config.yml")
    assert report.status == ("clean" if said == "holds no" else "unaudited")
    assert report.status == "clean" or said in report.unaudited[0], report.unaudited


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
        {"command": "memory-sidecar", "url": "https://mcp.example/mcp"},
        {"url": "https://mcp.example/mcp", "args": ["memory-sidecar"]},
        {"url": "http://127.0.0.1:6277/stdio?command=memory-sidecar&args=serve"},
        {"url": "stdio:memory-sidecar serve"},
        {"command": "docker", "args": ["run", "-i", "--rm", "memory-sidecar:1.2"]},
        {"command": "docker", "args": ["run", "-i", "registry.example:5000/team/memory-sidecar:latest", "serve"]},
        {"command": "podman", "args": ["run", "registry.example/memory-sidecar@sha256:" + "0" * 64]},
        {"image": "team/memory-sidecar:1@sha256:" + "0" * 64},
        {"command": "uvx", "args": ["--from", "git+https://git.example/team/memory-sidecar.git@main", "x"]},
        {"command": "uv", "args": ["run", "--with", "./memory_sidecar-1.0-py3-none-any.whl", "x"]},
        {"type": "inline_python", "code": "import os\nos.execvp('memory-sidecar', ['x'])\n"},
        {"type": "local", "command": ["{env:MS}", "serve"], "environment": {"MS": "memory-sidecar"}},
        {"cmd": "memory-sidecar", "type": "stdio"},
        {"transport": {"type": "stdio", "command": "memory-sidecar"}},
        "memory-sidecar serve",
        ["memory-sidecar", "serve"],
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
        {"command": "docker", "args": ["run", "-v", "memory-sidecar:/data", "-v", "/srv/memory-sidecar:/notes", "x"]},
        {"url": "https://mcp.example/memory-sidecar/docs"},
        {"command": "node", "args": ["${WHAT}", "$A"], "env": {"A": "$A", "REPO": "me/memory-sidecar"}},
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


def test_what_is_not_followed_is_unaudited(tmp_path: Path) -> None:
    (tmp_path / "inner.sh").write_text("#!/bin/sh\nexec memory-sidecar serve\n")
    (tmp_path / "outer.sh").write_text(f"#!/bin/sh\nexec {tmp_path}/inner.sh\n")
    (tmp_path / "beside.sh").write_text("#!/bin/sh\nexec ./inner.sh\n")
    (tmp_path / "w.py").write_text("from memory_sidecar.__main__ import main\nmain()\n")
    here = str(tmp_path)
    for entry in (
        {"command": f"{here}/outer.sh"},
        {"command": "sh", "args": ["-c", f"{here}/outer.sh"]},
        {"command": f"{here}/beside.sh"},
        {"command": "./inner.sh", "cwd": here},
        {"command": "python", "args": ["-m", "w"], "cwd": here},
    ):
        report = look(tmp_path, json.dumps({"mcpServers": {"n": entry}}))
        assert report.status == "unaudited", entry
        assert "is not followed" in report.unaudited[0]


def test_comments_and_trailing_commas(tmp_path: Path) -> None:
    text = """{
      // "memory-sidecar" is not here
      "servers": { /* none */
        "a": {"command": "x", "args": ["// no comment", "/*", "*/",],},
      },
    }"""
    assert look(tmp_path, text).status == "clean"
    assert look(tmp_path, text.replace('"x"', '"memory-sidecar"')).status == "leak"


@pytest.mark.parametrize("part", ["/*", '"\\\\"', '"\\', "/*/", '"x" /*', ",\n"], ids=repr)
def test_what_nothing_closes_is_looked_through_once(tmp_path: Path, part: str) -> None:
    """Half a mebibyte of it: tried again from each place where it could begin, it would take hours."""
    report = look(tmp_path, "{" + part * (2**19 // len(part)))
    assert not report.findings
    assert any("cannot be read as a host configuration" in reason for reason in report.unaudited)


@pytest.mark.parametrize("text", ["[" * 3000, "{a: " * 3000, "- " * 3000, "? " * 3000], ids=lambda text: text[:4])
def test_nesting_without_end_is_unaudited(tmp_path: Path, text: str) -> None:
    (reason,) = look(tmp_path, text, "config.yaml").unaudited
    assert "nested" in reason


@pytest.mark.parametrize("word", ["fifo", "/proc/kmsg", "/dev/zero", "/dev/tty", "/proc/self/mem", "/", "directory"])
def test_a_word_that_names_what_never_ends_is_not_read(tmp_path: Path, word: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "directory").mkdir()
    word = str(tmp_path / word)
    entry = {"command": "sh", "args": [word, "x"], "env": {}}
    report = look(tmp_path, json.dumps({"mcpServers": {"odd": entry, "own": {"command": "memory-sidecar"}}}))
    assert [finding.name for finding in report.findings] == ["own"]


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

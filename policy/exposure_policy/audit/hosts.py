"""Reads configuration files of MCP hosts: is the sidecar listed where any client could start it?

The shapes of Claude Desktop, Claude Code (project file, and user file with its projects), Cursor, VS Code (own
file, settings, dev containers) and hosts that copied one of them. Nothing is started. An entry is known as the
sidecar by any word of its command line, also behind a shell, a package runner, a proxy, a symbolic link or
a small wrapper script that exists here.
"""

import json
import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ..decide import TOOLS
from .collect import Collector
from .files import ambiguous, line_of, read_text, told
from .result import Evidence, Finding

__all__ = ["probe_host_config"]

_LISTS: Final = frozenset(("mcpServers", "servers", "mcp_servers", "context_servers"))
_MAX_SCRIPT: Final = 64 * 1024
_MAX_DEPTH: Final = 40
_MAX_FILLS: Final = 3
# The distribution, the command or the module, as a whole word, with a version or an option after it.
_SIDECAR: Final = re.compile(r"(?i)^memory[-_.]sidecar(?:$|[=@<>~!;\[.](?!md$|txt$|json$|ya?ml$|log$).*)")
_IN_SCRIPT: Final = re.compile(rb"(?<![\w-])memory[-_]sidecar(?![\w-])|MEMORY_SIDECAR_TICKET")


def probe_host_config(path: str, collector: Collector) -> None:
    """Look at one configuration file. Every failure becomes a reason; nothing is raised."""
    try:
        text = read_text(path)
        data = _parse(path, text)
    except (OSError, ValueError, RecursionError) as error:
        collector.unaudited(
            f"the file cannot be read as a host configuration: {told(error)}; check its path and its syntax"
        )
        return
    if not path.endswith(".toml") and (twice := ambiguous(text) or ambiguous(_without_comments(text))):
        collector.unaudited(f"{twice}; take one of them out")
    lists = 0
    for trail, servers in _server_lists(data):
        lists += 1
        for name, entry in servers.items():
            collector.count("listed server", 1)
            _entry(str(name), entry, trail, text, collector)
    if not lists:
        collector.unaudited(
            "the file holds no list of MCP servers in a shape that this audit knows; check that it is the host's file"
        )


def _parse(path: str, text: str) -> Any:
    if path.endswith(".toml"):
        import tomllib

        return tomllib.loads(text)
    try:
        return json.loads(text)
    except ValueError:
        # VS Code and Zed allow comments and trailing commas.
        return json.loads(_without_comments(text))


_JSONC: Final = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING: Final = re.compile(r'("(?:\\.|[^"\\])*")|,(?=\s*[}\]])', re.DOTALL)


def _without_comments(text: str) -> str:
    text = _JSONC.sub(lambda match: match[1] or " ", text)
    return _TRAILING.sub(lambda match: match[1] or "", text)


def _server_lists(data: Any) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every mapping of servers in the file, with the way to it: hosts keep them at several depths."""
    stack: list[tuple[Any, str, int]] = [(data, "", 0)]
    while stack:
        node, trail, depth = stack.pop()
        if not isinstance(node, Mapping) or depth > _MAX_DEPTH:
            continue
        for key, value in node.items():
            way = f"{trail}.{key}" if trail else str(key)
            known = str(key).rpartition(".")[2] in _LISTS  # settings.json also writes "mcp.servers"
            if known and isinstance(value, Mapping) and all(isinstance(v, Mapping) for v in value.values()):
                yield way, value
            else:
                stack.append((value, way, depth + 1))


def _entry(name: str, entry: Mapping[str, Any], trail: str, text: str, collector: Collector) -> None:
    words = list(_words(entry))
    if not words and not any(isinstance(entry.get(k), str) for k in ("url", "serverUrl", "httpUrl", "uri")):
        collector.unaudited(
            f"the entry {name!r} under {trail} has neither a command nor a URL; remove it, or complete it"
        )
        return
    env = entry.get("env")
    expanded = list(_words(_filled(entry, env if isinstance(env, Mapping) else {})))
    evidence = next(filter(None, map(_is_sidecar, [*words, *expanded])), None)
    if evidence is None and isinstance(env, Mapping) and "MEMORY_SIDECAR_TICKET" in env:
        evidence = "its environment sets MEMORY_SIDECAR_TICKET"
    if evidence is not None:
        collector.finding(
            Finding(
                surface="host-config",
                kind="listed server",
                name=name,
                tool=", ".join(TOOLS),
                evidence=(Evidence("listed", f"{trail}.{name}", evidence),),
                line=line_of(text, name),
            ),
            # Not the values of its environment: they may be secrets, and an id is no place for those.
            [trail, words, sorted(map(str, env)) if isinstance(env, Mapping) else []],
        )


# As shells and hosts write them: $A, ${A}, ${A:-default}, ${env:A}, %A%.
_VARIABLE: Final = re.compile(r"\$\{(?:env:)?(\w+)(?::?-([^}]*))?\}|\$(\w+)|%(\w+)%")


def _filled(node: Any, env: Mapping[str, Any], depth: int = 0) -> Any:
    """A command line with the variables filled in that the entry itself sets, or gives a default for."""

    def value(match: re.Match[str]) -> str:
        found = env.get(match[1] or match[3] or match[4], match[2])
        return str(found) if isinstance(found, str | int) else match[0]

    if isinstance(node, str):
        for _ in range(_MAX_FILLS):  # a value may name another variable
            node = _VARIABLE.sub(value, node)[:_MAX_SCRIPT]
        return node
    if depth > _MAX_DEPTH:
        return node
    if isinstance(node, Mapping):
        return {key: _filled(held, env, depth + 1) for key, held in node.items()}
    return [_filled(held, env, depth + 1) for held in node] if isinstance(node, list) else node


def _words(entry: Mapping[str, Any]) -> Iterator[str]:
    """The words of a command line, also those inside one argument for a shell."""
    parts: list[Any] = []
    for key in ("command", "args", "arguments", "path"):
        value = entry.get(key)
        if isinstance(value, Mapping):  # one host nests {"path": ..., "args": [...]}
            yield from _words(value)
        else:
            parts.extend(value if isinstance(value, list) else [value])
    for part in parts:
        if isinstance(part, str):
            yield part
            try:
                inner = shlex.split(part)
            except ValueError:
                inner = part.split()
            if len(inner) > 1:
                yield from inner


def _is_sidecar(word: str) -> str | None:
    """Why a word of a command line is the sidecar, or None."""
    value = word.rpartition("=")[2] if word.startswith("-") else word
    if _SIDECAR.match(re.split(r"[/\\]", value)[-1]):
        return f"its command line says {word[:120]!r}"
    found = shutil.which(value) or (value if os.path.isfile(value) else None)
    if found is None:
        return None
    real = os.path.realpath(found)
    if _SIDECAR.match(os.path.basename(real)):
        return f"{word[:120]!r} leads to {os.path.basename(real)!r}"
    if _script_names_it(real):
        return f"the script {word[:120]!r} starts it"
    return None


def _script_names_it(path: str) -> bool:
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_SCRIPT:
            return False
        with open(path, "rb") as file:
            data = file.read(_MAX_SCRIPT)
    except OSError:
        return False
    return b"\0" not in data and _IN_SCRIPT.search(data) is not None

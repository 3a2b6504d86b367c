"""Does an entry of a host's configuration start the sidecar? Only what a command line means is decided here.

An entry is known by any word of its command line, also behind a shell, a package runner, a container, a proxy, a
variable that the file itself sets, a symbolic link, or a small wrapper script that exists here. Nothing is started.
"""

import os
import re
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

__all__ = ["Entry", "launches", "reaches", "settings_only"]

_LAUNCHING: Final = ("command", "cmd", "transport", "image", "code")
"""Keys by which an entry says what to start: `image` a container, `code` a program written out in it."""
_WORDS: Final = (*_LAUNCHING, "args", "arguments", "path")
_URLS: Final = ("url", "serverUrl", "httpUrl", "uri", "tcp")
_ENVIRONMENTS: Final = ("env", "envs", "environment")
# What hosts say of a server that something else brings: an extension of Zed, a plugin of Codex, a block of Continue.
_SETTINGS: Final = frozenset(
    (
        "source",
        "settings",
        "enabled",
        "tools",
        "enabled_tools",
        "disabled_tools",
        "default_tools_approval_mode",
        "uses",
        "with",
        "override",
    )
)
_REMOTE: Final = re.compile(r"(?i)^(?:sse|http|remote|ws|websocket|streamable[-_ ]?http)$")
_MAX_SCRIPT: Final = 64 * 1024
_MAX_DEPTH: Final = 40
_MAX_FILLS: Final = 3
_MAX_NAMED: Final = 2_000
"""Words of one script that may name another."""
_WORD: Final = re.compile(rb"[^\s\"'`;&|()<>=,#!]{2,400}")
# The distribution, command, module, image or wheel, as a whole word, with a version or an option after it.
_SIDECAR: Final = re.compile(
    r"(?i)^memory[-_.]sidecar(?:$|[-_]\d.*|[=@<>~!;:\[.](?!md$|txt$|json$|ya?ml$|log$).*)", re.DOTALL
)
_IN_SCRIPT: Final = re.compile(rb"(?<![\w-])memory[-_]sidecar(?![\w-])|MEMORY_SIDECAR_TICKET")
# As shells and hosts write them: $A, ${A}, ${A:-default}, ${env:A}, ${input:A}, {env:A}, {{A}}, ${{ inputs.A }}, %A%.
_VARIABLE: Final = re.compile(
    r"\$?\{\{\s*(?:\w+\.)*(?P<braced>\w+)\s*\}\}"
    r"|\$?\{(?P<kind>env|localEnv|input|file):(?P<named>[^}:]+)(?::(?P<other>[^}]*))?\}"
    r"|\$\{(?P<plain>\w+)(?::?-(?P<default>[^}]*))?\}|\$(?:env:)?(?P<shell>\w+)|%(?P<windows>\w+)%"
)
# What fetches a program by its name, and the words that may stand before that name.
_RUNNERS: Final = re.compile(r"(?i)^(?:npx|uvx|bunx|pnpx|pipx|pnpm|bun|yarn|uv|deno)(?:\.(?:cmd|exe))?$")
_RUN: Final = frozenset(("run", "exec", "x", "dlx", "tool", "-y", "--yes", "-q", "--quiet"))


def launches(node: Any) -> bool:
    """Whether this has the shape of an entry: it names what to start, or where a server of the protocol is."""
    if not isinstance(node, Mapping):
        return False
    if any(isinstance(node.get(key), str | list) and node.get(key) for key in ("command", "cmd", "image")):
        return True
    if any(isinstance(node.get(key), Mapping) and _nested(node[key]) for key in ("command", "transport")):
        return True
    if isinstance(node.get("code"), str) and "python" in str(node.get("type")):
        return True
    kinds = [str(node.get(key)) for key in ("type", "transport", "transportType")]
    return _url(node) is not None and any(map(_REMOTE.match, kinds))


def reaches(node: Any) -> bool:
    """Whether this says where a server is, though not how to speak to it."""
    return isinstance(node, Mapping) and _url(node) is not None


def settings_only(entry: Mapping[str, Any]) -> bool:
    """Whether an entry only sets something of a server that is brought by something else."""
    return bool(entry) and (entry.get("source") == "extension" or set(entry) <= _SETTINGS)


def _nested(node: Mapping[str, Any]) -> bool:
    return any(isinstance(node.get(key), str | list) for key in ("command", "path", "url"))


def _url(node: Mapping[str, Any]) -> str | None:
    inner = node.get("transport")
    held = [node, inner] if isinstance(inner, Mapping) else [node]
    return next((one[key] for one in held for key in _URLS if isinstance(one.get(key), str) and one[key]), None)


class Entry:
    """One entry, as it is written and with the variables filled in that the file sets itself."""

    def __init__(self, entry: Mapping[str, Any], inputs: Mapping[str, str]) -> None:
        environments = [entry[key] for key in _ENVIRONMENTS if isinstance(entry.get(key), Mapping)]
        self.env: dict[str, Any] = {str(k): v for found in environments for k, v in found.items()}
        self.words = list(_words(entry))
        self._filled = list(_words(_fill(entry, {**inputs, **self.env})))
        self._directory = str(next((entry[key] for key in ("cwd", "workingDirectory") if entry.get(key)), ""))
        self.reachable = bool(self.words) or _url(entry) is not None

    def evidence(self) -> str | None:
        """Why it is the sidecar, in words; None if it is not."""
        found = next(filter(None, map(_is_sidecar, dict.fromkeys([*self.words, *self._filled]))), None)
        if found is None and "MEMORY_SIDECAR_TICKET" in self.env:
            return "its environment sets MEMORY_SIDECAR_TICKET"
        return found

    def unknown(self) -> str | None:
        """The variable that decides what is started, and that something else than the file sets; or None."""
        words = list(self._filled)
        if words and _RUNNERS.match(re.split(r"[/\\]", words[0])[-1]):
            words = [word for word in words[1:] if word not in _RUN]
        return words[0] if words and _VARIABLE.fullmatch(words[0].strip()) else None

    def unfollowed(self) -> str | None:
        """A word that starts what is here and is not followed any further; or None.

        That is a script that names another file by its path, and a module in the directory where the entry is started.
        """
        before = ""
        for word in self._filled:
            path = os.path.join(self._directory, word)
            if before == "-m" and _is_module(os.path.join(self._directory, *word.split("."))):
                return word
            script = _script(path) if os.sep in word else None
            if script and (_IN_SCRIPT.search(script) or _names_a_script(script, os.path.dirname(path))):
                return word
            before = word
        return None


def _is_module(path: str) -> bool:
    return any(map(os.path.isfile, (f"{path}.py", os.path.join(path, "__main__.py"))))


def _names_a_script(script: bytes, directory: str) -> bool:
    for word in _WORD.findall(script)[:_MAX_NAMED]:
        if b"/" in word and _script(os.path.join(directory, os.fsdecode(word))) is not None:
            return True
    return False


def _fill(node: Any, values: Mapping[str, Any], depth: int = 0) -> Any:
    def value(match: re.Match[str]) -> str:
        name = next(match[g] for g in ("braced", "named", "plain", "shell", "windows") if match[g] is not None)
        found = values.get(name.strip(), match["default"] or match["other"])
        return str(found) if isinstance(found, str | int) else match[0]

    if isinstance(node, str):
        for _ in range(_MAX_FILLS):  # a value may name another variable
            node = _VARIABLE.sub(value, node)[:_MAX_SCRIPT]
        return node
    if depth > _MAX_DEPTH:
        return node
    if isinstance(node, Mapping):
        return {key: _fill(held, values, depth + 1) for key, held in node.items()}
    return [_fill(held, values, depth + 1) for held in node] if isinstance(node, list) else node


def _words(entry: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """The words of a command line, also those inside one argument for a shell, or in a query that starts a command."""
    if depth > _MAX_DEPTH:
        return
    parts: list[Any] = []
    for key in _WORDS:
        value = entry.get(key)
        if isinstance(value, Mapping):  # some hosts nest {"path": ..., "args": [...]}
            yield from _words(value, depth + 1)
        else:
            parts.extend(value if isinstance(value, list) else [value])
    for part in parts:
        if isinstance(part, str):
            yield from _split(part)
    if url := _url(entry):
        parts = [value for _, value in parse_qsl(urlsplit(url).query)] if "://" in url else [url.partition(":")[2]]
        for part in parts:
            yield from _split(part)


def _split(part: str) -> Iterator[str]:
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
    if "\n" in word and _IN_SCRIPT.search(word.encode("utf-8", "replace")):
        return "a program that is written out in it starts it"
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
    script = _script(path)
    return script is not None and _IN_SCRIPT.search(script) is not None


def _script(path: str) -> bytes | None:
    """The text of a file that is a script or may be one; None if it is none, or not here."""
    try:
        # Some files of /proc are regular, and wait for what may never come.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_SCRIPT:
                return None
            data = file.read(_MAX_SCRIPT)
    except (OSError, ValueError):
        return None
    return data if data is not None and b"\0" not in data else None

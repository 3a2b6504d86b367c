"""Looks at configuration files of MCP hosts: is the sidecar listed where any client could start it?

The lists of Claude Desktop and Code, Cursor, VS Code, Windsurf, Gemini CLI, Codex, Zed, Continue and LibreChat are
known by their names; those of opencode, Goose and every other host by their shape: what names a command, an image, or
a URL and its transport is an entry, wherever it stands. Nothing is started.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ..decide import TOOLS
from .collect import Collector
from .entries import Entry, launches, reaches
from .files import told
from .hostfiles import HostFile, read_host_file
from .result import Evidence, Finding

__all__ = ["probe_host_config"]

# Lists of servers and of nothing else; a settings file also writes them as "mcp.servers" and "amp.mcpServers".
_LISTS: Final = frozenset(("mcpServers", "mcp_servers", "context_servers", "modelContextProtocolServers"))
# Lists of servers in some hosts' files, and something else in others'.
_MAY_BE_LISTS: Final = frozenset(("servers", "mcp", "extensions"))
# One command, where a host keeps one server.
_ONE_COMMAND: Final = frozenset(("serverCommand", "mcpServerCommand"))
# Commands that a host runs by itself and offers to no model.
_OTHER_COMMANDS: Final = frozenset(
    (
        "hooks",
        "tasks",
        "statusLine",
        "formatter",
        "formatters",
        "lsp",
        "language_servers",
        "languages",
        "terminal",
        "build",
    )
)
_MAX_DEPTH: Final = 40
_MAX_NODES: Final = 200_000
_CHECK_FILE: Final = (
    "the file holds no list of MCP servers in a shape that this audit knows; check that it is the host's file"
)


class _Listed(NamedTuple):
    """One thing in a list of servers."""

    trail: str
    name: str
    entry: Any

    @property
    def place(self) -> str:
        return f"the entry {self.name!r} under {self.trail}"


def probe_host_config(path: str, collector: Collector) -> None:
    """Look at one configuration file. Every failure becomes a reason; nothing is raised."""
    try:
        file = read_host_file(path)
        _look(file, collector)
    except (OSError, ValueError, RecursionError) as error:
        collector.unaudited(
            f"the file cannot be read as a host configuration: {told(error)}; check its path and its syntax"
        )


def _look(file: HostFile, collector: Collector) -> None:
    if file.twice:
        collector.unaudited(f"{file.twice}; take one of them out")
    walk = _Walk(file.data)
    for listed in walk.entries():
        collector.count("listed server", 1)
        _judge(listed, walk.inputs, file, collector)
    for trail in walk.no_lists:
        collector.unaudited(
            f"{trail} is no list of servers, and hosts differ in what they make of it; mend or remove it"
        )
    if not walk.lists:
        collector.unaudited(_CHECK_FILE)


class _Walk:
    """Every list of servers in a file, with the way to it: hosts keep them at several depths, by project or profile."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self._nodes = 0
        self.lists = 0
        self.no_lists: list[str] = []
        """What has a list's name and is none."""
        self.inputs: dict[str, str] = {}
        """What VS Code would ask its user for, where the file itself has an answer: `${input:id}`."""

    def entries(self) -> Iterator[_Listed]:
        """All entries.

        Raises:
            ValueError: the file is larger, with all that its aliases stand for, than anybody's.
        """
        for inputs in _found(self._data, "inputs", _MAX_DEPTH):
            if isinstance(inputs, Mapping) and isinstance(inputs.get("id"), str):
                default = inputs.get("default")
                self.inputs |= {inputs["id"]: default} if isinstance(default, str) else {}
        yield from self._below(self._data, "", 0)

    def _below(self, node: Any, trail: str, depth: int) -> Iterator[_Listed]:
        self._nodes += 1
        if self._nodes > _MAX_NODES:
            raise ValueError(f"it has more than {_MAX_NODES} parts")
        if depth > _MAX_DEPTH:
            raise ValueError(f"it is nested more than {_MAX_DEPTH} deep")
        for name, value in _children(node):
            way = f"{trail}.{name}" if trail else name
            if name in _OTHER_COMMANDS:
                continue
            last = name.rpartition(".")[2]
            if last in _LISTS or (last == "servers" and _is_list(value)):
                yield from self._list(value, way, depth + 1)
            elif launches(value) or (trail.rpartition(".")[2] in _MAY_BE_LISTS and reaches(value)):
                self.lists += 1
                yield _Listed(trail, name, value)
            elif name in _ONE_COMMAND and isinstance(value, str):
                self.lists += 1
                yield _Listed(trail, name, {"command": value})
            elif isinstance(value, Mapping | list):
                self.lists += last in _MAY_BE_LISTS and not value
                yield from self._below(value, way, depth + 1)

    def _list(self, value: Any, way: str, depth: int) -> Iterator[_Listed]:
        if not isinstance(value, Mapping | list):
            if value is not None:  # as YAML reads a list without an entry
                self.no_lists.append(way)
            self.lists += 1
            return
        self.lists += 1
        for name, entry in _children(value):
            place = f"{way}.{name}"
            if not isinstance(entry, Mapping) or launches(entry) or reaches(entry):
                yield _Listed(way, name, entry)
            elif _is_list(entry):
                yield from self._list(entry, place, depth + 1)  # one list for each project
            else:
                before = self.lists
                yield from self._below(entry, place, depth + 1)
                if self.lists == before:
                    yield _Listed(way, name, entry)


def _is_list(value: Any) -> bool:
    """Whether it lists servers, and not languages' or people's."""
    return any(launches(entry) or reaches(entry) for _, entry in _children(value))


def _children(node: Any) -> Iterator[tuple[str, Any]]:
    """What is in a mapping or a list, by its key, its own name or its number."""
    if isinstance(node, Mapping):
        yield from ((str(key), value) for key, value in node.items())
    elif isinstance(node, list):
        for number, value in enumerate(node):
            name = value.get("name") if isinstance(value, Mapping) else None
            yield name if isinstance(name, str) and name else str(number), value


def _found(node: Any, key: str, depth: int) -> Iterator[Any]:
    """What lists under `key` hold, at the top of a file and in its first levels."""
    if isinstance(node, Mapping) and depth:
        for name, value in node.items():
            if name == key and isinstance(value, list):
                yield from value
            elif name in ("mcp", "settings"):
                yield from _found(value, key, depth - 1)


def _judge(listed: _Listed, inputs: Mapping[str, str], file: HostFile, collector: Collector) -> None:
    entry = listed.entry
    if isinstance(entry, str | list):  # no host's form, but some reader may run it
        entry = {"command": entry}
        collector.unaudited(f"{listed.place} is no mapping, and hosts differ in what they make of it; write it out")
    elif not isinstance(entry, Mapping):
        collector.unaudited(f"{listed.place} is no mapping, and hosts differ in what they make of it; remove it")
        return
    read = Entry(entry, inputs)
    evidence = read.evidence()
    if evidence is not None:
        finding = Finding(
            surface="host-config",
            kind="listed server",
            name=listed.name,
            tool=", ".join(TOOLS),
            evidence=(Evidence("listed", f"{listed.trail}.{listed.name}", evidence),),
            line=file.line_of(listed.name),
        )
        # Not the values of its environment: they may be secrets, and an id is no place for those.
        collector.finding(finding, [listed.trail, read.words, sorted(read.env)])
    elif not read.reachable:
        how = "is started by an extension, which this audit cannot see" if _extension(entry) else "has neither"
        what = "audit the server itself with --mcp" if _extension(entry) else "remove it, or complete it"
        collector.unaudited(f"{listed.place} {how}{'' if _extension(entry) else ' a command nor a URL'}; {what}")
    elif unknown := read.unknown():
        collector.unaudited(
            f"{listed.place} starts what {unknown[:80]!r} says, which is set elsewhere; write out what it starts"
        )


def _extension(entry: Mapping[str, Any]) -> bool:
    """An editor's own extension brings the command: the entry has its settings, at most."""
    return entry.get("source") == "extension" or set(entry) == {"settings"}

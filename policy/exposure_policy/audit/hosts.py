"""Looks at configuration files of MCP hosts: is the sidecar listed where any client could start it?

The lists of Claude Desktop and Code, Cursor, VS Code, Windsurf, Gemini CLI, Codex, Zed, Continue and LibreChat are
known by their names; those of opencode, Goose, plugins and every other host by their shape: what names a command, an
image, or a URL and its transport is an entry, wherever it stands. `tests/policy/host_files` has a whole file of each.
Nothing is started.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from ..decide import TOOLS
from .collect import Collector
from .entries import Entry, launches, reaches, settings_only
from .files import told
from .hostfiles import HostFile, read_host_file
from .result import Evidence, Finding

__all__ = ["probe_host_config"]

# Lists of servers and of nothing else; a settings file also writes them as "mcp.servers" and "amp.mcpServers".
_LISTS: Final = frozenset(("mcpServers", "mcp_servers", "context_servers", "modelContextProtocolServers"))
# Lists of servers in some hosts' files, and something else in others'.
_MAY_BE_LISTS: Final = frozenset(("servers", "mcp", "extensions"))
# Where LibreChat keeps what its menu of servers looks like, under a list's name.
_MENUS: Final = frozenset(("interface.mcpServers",))
# One command, where a host keeps one server.
_ONE_COMMAND: Final = frozenset(("serverCommand", "mcpServerCommand"))
# Commands that a host runs by itself and offers to no model.
_OTHER_COMMANDS: Final = frozenset(
    (
        "hook",
        "hooks",
        "tasks",
        "slash_commands",
        "fileSuggestion",
        "statusLine",
        "subagentStatusLine",
        "formatter",
        "formatters",
        "lsp",
        "language_servers",
        "languages",
        "terminal",
        "build",
    )
)
# Parts of one entry, which is judged with them.
_PARTS: Final = frozenset(("command", "transport", "env", "envs", "environment"))
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
    entries = list(walk.entries())
    # A profile or an agent names servers that are listed elsewhere in the file, or says which of their tools it takes.
    known = frozenset(listed.name for listed in entries if launches(listed.entry) or reaches(listed.entry))
    for listed in entries:
        if isinstance(listed.entry, str) and listed.entry in known:
            continue
        collector.count("listed server", 1)
        _judge(listed, known, walk.inputs, file, collector)
    for trail, value in walk.no_lists:
        if isinstance(value, str):
            collector.unaudited(f"{trail} names another file, {value[:80]!r}; audit that one too")
            continue
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
        self.no_lists: list[tuple[str, Any]] = []
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
            if name in _OTHER_COMMANDS or way in _MENUS:
                continue
            last = name.rpartition(".")[2]
            if last in _LISTS or (last == "servers" and _is_list(value)):
                yield from self._list(value, way, depth + 1)
            elif launches(value) or (trail.rpartition(".")[2] in _MAY_BE_LISTS and _in_list(value)):
                self.lists += 1
                yield _Listed(trail, name, value)
                yield from self._within(value, way, depth + 1)
            elif name in _ONE_COMMAND and isinstance(value, str):
                self.lists += 1
                yield _Listed(trail, name, {"command": value})
            elif isinstance(value, Mapping | list):
                self.lists += last in _MAY_BE_LISTS and not value
                yield from self._below(value, way, depth + 1)

    def _within(self, entry: Any, way: str, depth: int) -> Iterator[_Listed]:
        """Entries inside an entry: what it starts instead on another system, say."""
        if isinstance(entry, Mapping):
            yield from self._below({k: v for k, v in entry.items() if k not in _PARTS}, way, depth)

    def _list(self, value: Any, way: str, depth: int) -> Iterator[_Listed]:
        if not isinstance(value, Mapping | list):
            if value is not None:  # as YAML reads a list without an entry
                self.no_lists.append((way, value))
            self.lists += 1
            return
        self.lists += 1
        for name, entry in _children(value):
            place = f"{way}.{name}"
            if not isinstance(entry, Mapping) or launches(entry) or reaches(entry):
                yield _Listed(way, name, entry)
                yield from self._within(entry, place, depth + 1)
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


def _in_list(value: Any) -> bool:
    """Whether it is an entry where lists may be: it says where a server is, or switches on one from elsewhere."""
    return reaches(value) or (
        isinstance(value, Mapping) and set(value) == {"enabled"} and value["enabled"] is not False
    )


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


def _judge(
    listed: _Listed, known: frozenset[str], inputs: Mapping[str, str], file: HostFile, collector: Collector
) -> None:
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
        if settings_only(entry) and listed.name in known:
            return
        if settings_only(entry):
            how = "is started by an extension, a plugin or settings elsewhere, which this audit cannot see"
            collector.unaudited(f"{listed.place} {how}; audit the server itself with --mcp")
        else:
            collector.unaudited(f"{listed.place} has neither a command nor a URL; remove it, or complete it")
    elif unknown := read.unknown():
        collector.unaudited(
            f"{listed.place} starts what {unknown[:80]!r} says, which is set elsewhere; write out what it starts"
        )
    elif unfollowed := read.unfollowed():
        collector.unaudited(
            f"{listed.place} starts {unfollowed[:80]!r}, which starts what is not followed; audit the server with --mcp"
        )

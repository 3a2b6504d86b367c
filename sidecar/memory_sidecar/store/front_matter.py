"""What stands between the fences of a header: where its description is, and what else there is.

Read through the events of a YAML parser, not as values: every scalar is the text that it is written as (a date stays
the text of a date), an alias costs nothing, and each event tells its place, so that one value can be replaced and every
other byte stay. Pure: text in, text out.
"""

import re
from collections.abc import Iterable

from ..hints import Any, Final
from ..named_tuple import NamedTuple

__all__ = ["Fields", "read"]

_NAME: Final = "description"

_STAND_IN: Final = "\ufdd0"
# What PyYAML refuses though other programs write it bare (goccy/go-yaml: C1 controls, U+FFFE, U+FFFF), and the byte
# order mark, which it may skip. Each is replaced by one noncharacter, which a description shows as a space.
_REFUSED: Final = "[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
# An escape of half a surrogate pair; JSON writes characters beyond U+FFFF as two of them. The first alternative keeps
# an escaped backslash from being taken for the start of one.
_ESCAPE: Final = (
    r"\\(?:u([dD][89abAB][0-9A-Fa-f]{2})\\u([dD][c-fC-F][0-9A-Fa-f]{2})|u[dD][89a-fA-F][0-9A-Fa-f]{2}|[^u]|u)"
)

_MAX_DEPTH: Final = 100
"""Collections in collections. PyYAML's own parser takes time in the square of it."""

# A line that opens an entry: a name, a colon, then white space or nothing.
_ENTRY: Final = re.compile(r"[^\s#\-\[\]{},:&*!|>'\"%@`?][^:\n]*:(?=\s|\Z)")
_DESCRIPTION_LINE: Final = re.compile(
    rf"^{_NAME}[ \t]*:(?P<value>(?:[ \t][^\r\n]*)?(?:\r?\n[ \t]+[^\s][^\r\n]*)*)(?=\r?\n|\Z)", re.MULTILINE
)


class Fields(NamedTuple):
    """What a header says. Offsets count characters of `text`."""

    text: str
    description: str | None = None
    """None without one, or with one that isn't text."""
    entry: tuple[int, int] | None = None
    """Where the entry of the description starts and ends."""
    value: tuple[int, int] | None = None
    """Where its value does; None where it must not be replaced."""
    room: int = 0
    """Where an entry can be put in."""
    indent: str = ""
    flow: bool = False
    """Whether it is written in braces."""
    valid: bool = True
    """Whether a YAML reader takes it."""

    @property
    def others(self) -> str:
        """The text without the description's entry, but with one that is no text: no `Entry.description` holds that."""
        if self.entry is None or self.description is None or self.flow:
            return self.text
        before, after = self.text[: self.entry[0]], self.text[self.entry[1] :]
        if not before.rpartition("\n")[2].strip() and re.match(r"[ \t]*(?:\r?\n|\Z)", after):
            # The line held nothing else.
            after = re.sub(r"\A[ \t]*(?:\r?\n|\Z)", "", after)
            before = before[: len(before) - len(before.rpartition("\n")[2])]
        return before + after

    def with_description(self, scalar: str, line_end: str) -> str | None:
        """The text with `scalar`, a YAML scalar on one line, for a description; None if it can't take one."""
        if self.entry is not None and self.value is None:
            return None
        if self.value is not None:
            start, end = self.value
            before, after = self.text[:start], self.text[end:]
            space = "" if before[-1:] in (" ", "\t") else " "
            # The value of a block ends with its last line end.
            close = line_end if self.text[start:end].endswith("\n") else ""
            edited = f"{before}{space}{scalar}{close}{after}"
        else:
            before, after = self.text[: self.room], self.text[self.room :]
            put = f"{_NAME}: {scalar}, " if self.flow else f"{self.indent}{_NAME}: {scalar}{line_end}"
            edited = before + put + after
        found = read(edited)
        # A name that is marked with ? may have no value, and what is put there would go on with the name.
        if found is None or found.entry is None:
            return None
        # What other readers took they still take: an anchor that stood at the old value may have been used elsewhere.
        return edited if found.valid or not self.valid else None


def read(text: str) -> Fields | None:
    """What a header says, or None if the text between the fences is none: prose, a list, nothing with a name."""
    try:
        return _by_yaml(text)
    except _NotTakenError:
        return _by_lines(text)


class _NotTakenError(Exception):
    """No YAML reader takes it."""


def _by_yaml(text: str) -> Fields | None:
    import yaml

    aligned = re.sub(_REFUSED, _STAND_IN, text)
    escapes = "\\u" in text
    try:
        walk = _Walk(text, re.sub(_ESCAPE, _same_length, aligned) if escapes else aligned)
        description = walk.description
        if escapes and description is not None and walk.tells_escape:
            # Once more for the value: a pair as one escape is shorter, so it tells no offsets; and only double quotes
            # escape.
            again = _Walk(text, re.sub(_ESCAPE, _joined, aligned) if walk.style == '"' else aligned)
            description = again.description
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise _NotTakenError from error
    return walk.fields(description) if walk.is_header else None


def _events(text: str) -> Iterable[Any]:
    import yaml

    return yaml.parse(text, Loader=getattr(yaml, "CBaseLoader", yaml.BaseLoader))


def _same_length(escape: re.Match[str]) -> str:
    return "\\ufdd0" * (len(escape[0]) // 6) or escape[0]


def _joined(escape: re.Match[str]) -> str:
    if escape[1]:
        return f"\\U{0x10000 + (int(escape[1], 16) - 0xD800) * 0x400 + int(escape[2], 16) - 0xDC00:08x}"
    return _same_length(escape)


def _at(mark: Any) -> int:
    return int(mark.index)


class _Open(NamedTuple):
    """A collection that has begun: whether a mapping, the names seen, and how many nodes (as the length of a list)."""

    mapping: bool
    names: set[str]
    nodes: list[None]


class _Walk:
    """One pass over the events of a header.

    Raises:
        _NotTakenError: a name stands twice in one mapping or is no text, an alias has no anchor, or it is too deep.
        yaml.YAMLError: as the parser does.
    """

    def __init__(self, text: str, parsed: str) -> None:
        self._text = text
        self._open: list[_Open] = []
        self._anchors: dict[str, str | None] = {}
        self._expects_value = False
        self.is_header = True
        self.description: str | None = None
        self.style: str | None = None
        self._start: int | None = None
        self._end = 0
        self._value: tuple[int, int] | None = None
        self._room: int | None = None
        self._indent = ""
        self._flow = False
        self._follow(_events(parsed))

    @property
    def tells_escape(self) -> bool:
        return self._value is not None and "\\u" in self._text[slice(*self._value)]

    def _follow(self, events: Iterable[Any]) -> None:
        import yaml

        documents = 0
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    break  # readers of one document stop here too
            elif isinstance(event, yaml.CollectionEndEvent):
                self._open.pop()
                if self._expects_value and len(self._open) == 1:
                    self._expects_value = False
                    self._end = _at(event.end_mark)
            elif isinstance(event, yaml.NodeEvent):
                self._node(event)

    def _node(self, event: Any) -> None:
        import yaml

        is_collection = isinstance(event, yaml.CollectionStartEvent)
        if not self._open:
            self._root(event)
        elif self._open[-1].mapping and len(self._open[-1].nodes) % 2 == 0:
            self._name(event)
        elif self._expects_value and len(self._open) == 1:
            self._described(event)
        if self._open:
            self._open[-1].nodes.append(None)
        if isinstance(event, yaml.AliasEvent):
            if event.anchor not in self._anchors:
                raise _NotTakenError
        elif event.anchor is not None:
            self._anchors[event.anchor] = None if is_collection else event.value
        if is_collection:
            if len(self._open) == _MAX_DEPTH:
                raise _NotTakenError
            self._open.append(_Open(isinstance(event, yaml.MappingStartEvent), set(), []))

    def _root(self, event: Any) -> None:
        import yaml

        self.is_header = isinstance(event, yaml.MappingStartEvent)
        self._flow = self.is_header and bool(event.flow_style)
        if self._flow:
            self._room = _at(event.end_mark)

    def _name(self, event: Any) -> None:
        import yaml

        if isinstance(event, yaml.CollectionStartEvent):
            raise _NotTakenError  # few readers take a list or a mapping for a name
        name = event.value if isinstance(event, yaml.ScalarEvent) else None
        if name is not None:
            if name in self._open[-1].names:
                raise _NotTakenError  # twice: YAML forbids it, and readers differ in which they keep
            self._open[-1].names.add(name)
        if len(self._open) > 1:
            return
        start = _at(event.start_mark)
        if self._room is None:
            self._room = self._text.rfind("\n", 0, start) + 1
            before = self._text[self._room : start]
            self._indent = before[: len(before) - len(before.lstrip(" \t"))]  # without the `?` of a name
        if name == _NAME:
            self._start = start
            self._expects_value = True

    def _described(self, event: Any) -> None:
        import yaml

        if isinstance(event, yaml.CollectionStartEvent):
            return
        self._expects_value = False
        self._value = _at(event.start_mark), _at(event.end_mark)
        self._end = _at(event.end_mark)
        if isinstance(event, yaml.AliasEvent):
            self.description = self._anchors.get(event.anchor or "")
        else:
            self.description, self.style = event.value, event.style

    def fields(self, description: str | None) -> Fields:
        room = len(self._text) if self._room is None else self._room
        entry = None if self._start is None else (self._start, self._end)
        # What is no text (an alias of a list, say) is its author's, and no text may take its place.
        value = None if description is None else self._value
        return Fields(self._text, description, entry, value, room, self._indent, self._flow)


def _by_lines(text: str) -> Fields | None:
    """As people meant it: names before colons, at the start of a line. Only for what no YAML reader takes."""
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            if _ENTRY.match(line) is None:
                return None
            break
    found = list(_DESCRIPTION_LINE.finditer(text))
    if not found:
        return Fields(text, valid=False)
    if len(found) > 1:
        return Fields(text, entry=found[0].span(), valid=False)
    (line_found,) = found
    start, end = line_found.span("value")
    try:
        alone = _by_yaml(line_found[0])
    except _NotTakenError:
        alone = None
    description = alone.description if alone is not None else None
    if description is None:
        description = line_found["value"]
    return Fields(text, description, line_found.span(), (start, end), valid=False)

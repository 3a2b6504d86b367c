"""Is this one of the product's own tools, or one of its answers? Pure: plain data in, signs out. Standard library only.

A guard asks here what a stranger is about to see. Only what is the product's own counts, by four rules; what other
memories call themselves, and in which words, is the audit's business. So ordinary tools pass, whatever they speak of.

- **marker**: a key under `memory-sidecar/`, which the sidecar puts into `_meta` of every definition and answer.
- **name**: one of the policy's names, under any prefix, suffix, case, separator or look-alike letter; in a longer
  text, as one token; and the sidecar's own name.
- **schema**: a key with memory's own rule; all the arguments of a tool, if it has at least four; the names in one form
  of a tool's answer. The policy's table holds these names.
- **answer**: the names in one form of an answer, as an object, as JSON or as Python shows it, at any depth; or the
  index block; or the words of a refusal, which are for the log.

Rules are cheap, for they run on every answer. A first look finds in microseconds that there is nothing to find; only
then is anything parsed. Somebody who sets out to deceive can write an answer in other words: SECURITY.md says so.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ..decide import TOOLS
from .names import MAX_NAME, memory_name

__all__ = [
    "EXCERPT",
    "Sign",
    "answer_signs",
    "hinted",
    "name_signs",
    "offer_signs",
    "overlong",
    "text_signs",
]

_MARK: Final = "memory-sidecar/"
_MAX_NODES: Final = 20_000
"""Parts of one offer that are judged."""
_MAX_JSON: Final = 1 << 20
"""Characters of a text that is read as JSON. The largest answer of memory, escaped, is smaller."""
_MAX_TEXT: Final = 65_536
"""Characters of one text of an offer that are judged."""
EXCERPT: Final = 160
"""Characters of what was found that are quoted."""
_LONG_SHAPE: Final = 3
_LONG_TAKES: Final = 4
"""How many names a shape has before nothing else is likely to have just these."""


class Sign(NamedTuple):
    """Why something is memory's own: the rule, the tool it is of, the field, and an excerpt."""

    rule: str
    tool: str
    where: str
    evidence: str


class _Shape(NamedTuple):
    """One form of a tool's answer. `inner` are the names in each object of the list `listed`, if it is one."""

    tool: str
    required: frozenset[str]
    known: frozenset[str]
    listed: str = ""

    def fits(self, names: Iterable[str]) -> bool:
        return self.required <= set(names) <= self.known


def _shapes() -> Iterator[_Shape]:
    for row in TOOLS.values():
        for names in row.answers:
            listed, _, inner = names[0].partition(".")
            plain = [name.partition(".")[2] if inner else name for name in names]
            required = frozenset(name for name in plain if not name.endswith("?"))
            if inner or len(required) >= _LONG_SHAPE:
                known = frozenset(name.rstrip("?") for name in plain)
                yield _Shape(row.name, required, known, listed if inner else "")


_SHAPES: Final = tuple(_shapes())
_COMMON: Final = frozenset(("key", "description", "content", "reason", "code"))
_TELLING: Final = frozenset(shape.listed or min(shape.required - _COMMON, default="key") for shape in _SHAPES)
"""A name of each shape that few other objects have: without one of them, an object is looked at no further."""
_SHORTEST: Final = min(len(name) - 1 for name in TOOLS)
"""Characters of the shortest text that could be a name, without its separator, or could hold an answer."""
_TAKES: Final = {frozenset(row.takes): row.name for row in TOOLS.values() if len(row.takes) >= _LONG_TAKES}

# --- offers ----------------------------------------------------------------------------------------------


def offer_signs(data: Mapping[str, Any]) -> tuple[Sign, ...]:
    """The signs in what a server or a card shows of a tool, a prompt, a resource, a skill or itself, as plain data."""
    return tuple(_offer_signs(data))


def _offer_signs(data: Mapping[str, Any]) -> Iterator[Sign]:
    for name in ("inputSchema", "input_schema", "parameters"):
        yield from _schema_signs(name, data.get(name), _takes)
    for name in ("outputSchema", "output_schema"):
        yield from _schema_signs(name, data.get(name), _gives)
    for where, text in _strings(data):
        if where == _KEY and text.startswith(_MARK):
            yield Sign("marker", _tool_of(data), "_meta", text[:EXCERPT])
        elif tool := _named(text, where in _NAMES):
            yield Sign("name", tool, where, text[:EXCERPT])
        elif len(text) > EXCERPT and _INDEX.search(text):
            yield Sign("answer", "memory_list", where, text[:EXCERPT])


def overlong(data: Mapping[str, Any]) -> str | None:
    """What of an offer is more than is judged, in words; None if it was judged whole.

    A memory could be offered behind so much of something else, so what is this long passes nowhere.
    """
    stack: list[Any] = [data]
    seen = 0
    while stack:
        node = stack.pop()
        seen += 1
        if seen > _MAX_NODES:
            return f"it has more than {_MAX_NODES} parts"
        if isinstance(node, Mapping):
            stack.extend(node.values())
            stack.extend(node.keys())
        elif isinstance(node, list | tuple):
            stack.extend(node)
        elif isinstance(node, str) and len(node) > _MAX_TEXT:
            return f"a text in it is longer than {_MAX_TEXT} characters"
    for field in _NAMES:
        name = data.get(field)
        if isinstance(name, str) and len(name) > MAX_NAME:
            return f"its {field} is longer than {MAX_NAME} characters"
    return None


def name_signs(name: str) -> tuple[Sign, ...]:
    """The signs in a name by which a stranger asks for something."""
    tool = _named(name, True)
    return (Sign("name", tool, "name", name[:EXCERPT]),) if tool else ()


_SIDECAR: Final = re.compile(r"(?i)\W*memory[\W_]*sidecar\W*")
_KEY: Final = "(key)"
_NAMES: Final = frozenset(("name", "title", "id", "uri", "uriTemplate", "tags"))
"""The fields whose text is a name as a whole, in which words stand apart; elsewhere a name is one token."""

_TOKEN: Final = re.compile(r"[^\s\"'`“”‘’«»(),;<>\[\]{}!?|*]+")
# In a sentence only a joined name counts: prose has "memory" and "read" as neighbours for other reasons.
_JOINED: Final = re.compile(r"[_.:/\-·‐‑]\w|[a-z][A-Z]|(?i:memor[a-z]{6})|[^\x00-\x7f]")
# What any spelling of the names has, in letters that are not look-alikes.
_HINT: Final = re.compile(r"(?i)m[e3]m[o0]r|[%&]|[^\x00-\x7f]")


def _named(text: str, whole: bool) -> str | None:
    """The tool that a text names: as a whole if it is a name, else as one token of it."""
    if len(text) <= EXCERPT:
        return _short(text, whole)
    return _token_of(text) if _HINT.search(text) else None


@lru_cache(maxsize=4096)  # the same few names and words come again with every listing
def _short(text: str, whole: bool) -> str | None:
    if whole and (tool := memory_name(text)):
        return tool
    if (whole and _SIDECAR.fullmatch(text)) or _INDEX.search(text):
        return next(iter(TOOLS))
    return _token_of(text) if _HINT.search(text) else None


def _token_of(text: str) -> str | None:
    for token in _TOKEN.finditer(text[:_MAX_TEXT]):
        if len(token[0]) <= 200 and _JOINED.search(token[0]) and (tool := memory_name(token[0].strip(".-_/:"))):
            return tool
    return None


def _tool_of(data: Mapping[str, Any]) -> str:
    name = data.get("name")
    return (memory_name(name) if isinstance(name, str) else None) or next(iter(TOOLS))


def _schema_signs(where: str, schema: object, rule: Any) -> Iterator[Sign]:
    """`rule` on each form of a schema: itself, and those it is one or any of."""
    if not isinstance(schema, Mapping):
        return
    forms = [schema]
    for choice in ("oneOf", "anyOf", "allOf"):
        found = schema.get(choice)
        forms += [form for form in found if isinstance(form, Mapping)] if isinstance(found, list | tuple) else []
    for form in forms:
        properties = form.get("properties")
        if isinstance(properties, Mapping) and (tool := rule(properties)):
            yield Sign("schema", tool, where, ", ".join(map(str, properties))[:EXCERPT])


def _takes(properties: Mapping[str, Any]) -> str | None:
    key = properties.get("key")
    # A key's own rule, to the letter: few stores allow these characters, and none besides with this length.
    if isinstance(key, Mapping) and "[A-Za-z0-9._=-]+" in str(key.get("pattern")) and key.get("maxLength") == 200:
        return next((row.name for row in TOOLS.values() if set(row.takes) == set(properties)), "memory_read")
    return _TAKES.get(frozenset(properties))


def _gives(properties: Mapping[str, Any]) -> str | None:
    for shape in _SHAPES:
        names: Mapping[str, Any] = properties
        if shape.listed:
            listed = properties.get(shape.listed)
            items = listed.get("items") if isinstance(listed, Mapping) else None
            inner = items.get("properties") if isinstance(items, Mapping) else None
            names = inner if isinstance(inner, Mapping) else {}
        if shape.fits(names):
            return shape.tool
    return None


def _strings(data: object) -> Iterator[tuple[str, str]]:
    """Every text in plain data that is long enough for a name, with the field it stands in; keys included; bounded."""
    stack: list[tuple[str, Any]] = [("", data)]
    seen = 0
    while stack and seen < _MAX_NODES:
        where, node = stack.pop()
        seen += 1
        if isinstance(node, str):
            if len(node) >= _SHORTEST:
                yield where, node
        elif isinstance(node, Mapping):
            for key, value in node.items():
                if isinstance(key, str) and len(key) >= _SHORTEST:
                    yield _KEY, key
                if value is not None and not isinstance(value, bool | int | float):
                    stack.append((where or str(key), value))
        elif isinstance(node, list | tuple):
            stack.extend((where, item) for item in node)


# --- answers ---------------------------------------------------------------------------------------------


def answer_signs(answer: object) -> Iterator[Sign]:
    """The signs that plain data holds an answer of memory: an object of one of its shapes, or a text of one."""
    stack: list[object] = [answer]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            if len(node) >= _SHORTEST:
                yield from text_signs(node)
        elif isinstance(node, Mapping):
            if "_meta" in node or not _TELLING.isdisjoint(node):
                yield from _object_signs(node)
            stack.extend(node.values())
        elif isinstance(node, list | tuple):
            stack.extend(node)


def _object_signs(node: Mapping[Any, Any]) -> Iterator[Sign]:
    meta = node.get("_meta")
    for key in meta if isinstance(meta, Mapping) else ():
        if isinstance(key, str) and key.startswith(_MARK):
            yield Sign("marker", "memory_read", "_meta", key[:EXCERPT])
    for shape in _SHAPES:
        if not shape.listed:
            fits = shape.fits(node)
        else:
            items = node.get(shape.listed)
            fits = isinstance(items, list | tuple) and len(items) > 0
            fits = fits and all(isinstance(item, Mapping) and shape.fits(item) for item in items)  # type: ignore[union-attr]
        if fits:
            yield Sign("answer", shape.tool, "result", ", ".join(map(str, node))[:EXCERPT])


def hinted(text: str) -> bool:
    """Whether a text holds a word that each answer of memory has; without one it can hold no answer."""
    return any(hint in text for hint, _, _ in _WRITTEN)


def text_signs(text: str) -> Iterator[Sign]:
    """The signs in one text: the index block, or an answer as JSON or as Python shows it, also amid other words."""
    found = False
    for hint, pattern, tool in _WRITTEN:
        at = text.find(hint)
        while at >= 0:
            found = True
            if pattern.match(text, at):
                yield Sign("answer", tool, "text", text[max(0, at - 2) : at + EXCERPT])
                return
            at = text.find(hint, at + 1)
    # With its names in another order, the answer is found where the whole text is JSON.
    if found and len(text) <= _MAX_JSON and text.lstrip()[:1] in ("{", "["):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError):
            return
        yield from answer_signs(data)


# A run of backslashes is tried once, from its start, and never given back: a text that is made of them costs no more.
_OPENS: Final = r"(?<!\\)\\{0,1023}+[\"']"
_CLOSES: Final = r"\\{0,1023}+[\"']\s*+:"


def _written() -> Iterator[tuple[str, re.Pattern[str], str]]:
    """How each shape is serialised: the text to look for, what stands from there on, and the tool.

    The names come in the table's order, in quotes that may be escaped. What stands between two of them is a value, and
    before the last name values are short or a description: so that is bounded.
    """
    yield "memory-index", re.compile(r"(?<=<)memory-index|(?<=</)memory-index|(?<=&lt;)memory-index"), "memory_list"
    # A refusal: its text is for the log, and a stranger gets a fixed one.
    yield "is private to its harness", re.compile(r"(?<=memory )is private to its harness and "), "memory_list"
    yield _MARK, re.compile(rf"(?<=[\"']){_MARK}\w++{_CLOSES}"), "memory_read"
    for row in TOOLS.values():
        for names in row.answers:
            listed, _, inner = names[0].partition(".")
            plain = [name.partition(".")[2] if inner else name for name in names if not name.endswith("?")]
            if not inner and len(plain) < _LONG_SHAPE:
                continue
            quoted = [rf"{_OPENS}{re.escape(name)}{_CLOSES}" for name in plain[:_LONG_SHAPE]]
            if inner:
                quoted[0] = rf"{re.escape(listed)}{_CLOSES}\s*+\[\s*+\{{\s*+{quoted[0]}"
            else:
                quoted[0] = quoted[0].removeprefix(_OPENS)
            pattern = r"(?<=[\"'])" + r"[\s\S]{1,300}?".join(quoted)
            yield listed if inner else plain[0], re.compile(pattern), row.name


_WRITTEN: Final = tuple(_written())
_INDEX: Final = re.compile(r"(?i)(?:<|&lt;)\s*+/?\s*+memory[-_ ]index")

"""Is this one of the product's own tools? Pure: plain data in, signs out. Standard library only.

A guard asks here what a stranger is about to see. Only what is the product's own counts, by four rules; what other
memories call themselves, and in which words, is the audit's business. So ordinary tools pass, whatever they speak of.

- **marker**: a key under `memory-sidecar/`, which the sidecar puts into `_meta` of every definition and answer.
- **name**: one of the policy's names, under any prefix, suffix, case, separator or look-alike letter; in a longer
  text, as one token; and the sidecar's own name.
- **schema**: a key with memory's own rule; all the arguments of a tool, if it has at least four; the names in one form
  of a tool's answer. The policy's table holds these names.
- **answer**: the index block, and an answer that was kept and stands in a text: see `own_answers`, which also looks at
  what is sent.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from ..decide import TOOLS
from .names import MAX_NAME, memory_name
from .own_answers import EXCERPT, MARK, SHAPES, SHORTEST, Sign, hinted, text_signs

__all__ = ["name_signs", "offer_signs", "overlong"]

_MAX_NODES: Final = 20_000
"""Parts of one offer that are judged."""
_MAX_TEXT: Final = 65_536
"""Characters of one text of an offer that are judged."""
_MAX_TOKEN: Final = 200
"""Characters of one token of a text that is judged as a name."""
_LONG_TAKES: Final = 4
"""How many arguments a tool has before nothing else is likely to take just these."""
_TAKES: Final = {frozenset(row.takes): row.name for row in TOOLS.values() if len(row.takes) >= _LONG_TAKES}
_INDEX: Final = re.compile(r"(?i)(?:<|&lt;)\s*+/?\s*+memory[-_ ]index")


def offer_signs(data: Mapping[str, Any]) -> tuple[Sign, ...]:
    """The signs in what a server or a card shows of a tool, a prompt, a resource, a skill or itself, as plain data."""
    return tuple(_offer_signs(data))


def _offer_signs(data: Mapping[str, Any]) -> Iterator[Sign]:
    for name in ("inputSchema", "input_schema", "parameters"):
        yield from _schema_signs(name, data.get(name), _takes)
    for name in ("outputSchema", "output_schema"):
        yield from _schema_signs(name, data.get(name), _gives)
    for where, text in _strings(data):
        if where == _KEY and text.startswith(MARK):
            yield Sign("marker", _tool_of(data), "_meta", text[:EXCERPT])
        elif tool := _named(text, where in _NAMES):
            yield Sign("name", tool, where, text[:EXCERPT])
        elif len(text) > EXCERPT and _INDEX.search(text):
            yield Sign("answer", "memory_list", where, text[:EXCERPT])
        elif hinted(text):
            yield from text_signs(text)


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

_TOKEN: Final = re.compile(r"[^\s\"'`“”‘’«»(),;<>\[\]{}!?|*]++")
# In a sentence only a joined name counts: prose has "memory" and "read" as neighbours for other reasons.
_JOINED: Final = re.compile(r"[_.:/\-·‐‑]\w|[a-z][A-Z]|(?i:memor[a-z]{6})|[^\x00-\x7f]")
# What any spelling of the names has, in letters that are not look-alikes.
_HINT: Final = re.compile(r"(?i)m[e3]m[o0]r|[%&]|[^\x00-\x7f]")


def _named(text: str, whole: bool) -> str | None:
    """The tool that a text names: as a whole if it is a name, else as one token of it."""
    if len(text) <= EXCERPT:
        return _short(text, whole)
    return _spelled(text, whole)


def _spelled(text: str, whole: bool) -> str | None:
    if whole and (tool := memory_name(text)):
        return tool
    if whole and _SIDECAR.fullmatch(text):
        return next(iter(TOOLS))
    return _token_of(text) if _HINT.search(text) else None


@lru_cache(maxsize=4096)  # the same few names and words come again with every listing
def _short(text: str, whole: bool) -> str | None:
    return next(iter(TOOLS)) if _INDEX.search(text) else _spelled(text, whole)


def _token_of(text: str) -> str | None:
    for match in _TOKEN.finditer(text[:_MAX_TEXT]):
        token = match[0]
        # Of the shortest names two letters may be one character, as in a ligature.
        if len(token) < SHORTEST // 2 or len(token) > _MAX_TOKEN or not _JOINED.search(token):
            continue
        if tool := memory_name(token.strip(".-_/:")):
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
    for shape in SHAPES:
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
            if len(node) >= SHORTEST:
                yield where, node
        elif isinstance(node, Mapping):
            for key, value in node.items():
                if isinstance(key, str) and len(key) >= SHORTEST:
                    yield _KEY, key
                if value is not None and not isinstance(value, bool | int | float):
                    stack.append((where or str(key), value))
        elif isinstance(node, list | tuple):
            stack.extend((where, item) for item in node)

"""Is this one of memory's own answers, in whatever form it goes out? Pure: data in, signs out. Standard library only.

An answer is known by its names: those of one form of a tool's answer in the policy's table. They may stand in an
object, in a text that is JSON, or one after the other amid other text, as JSON or as Python shows it. The index block
and the words of a refusal count too: those are for the log.

These rules run on every answer, and a stranger may have written what stands in it. So each costs no more than the text
is long: a first look for a few words, one pass over the names in quotes, one reading as JSON. Every pattern starts with
a character that none of its repeats takes, and gives nothing back; a test holds them to that. What is too long or too
deep to be read, and has all the names of an answer, is taken for one: never for clean.
"""

import base64
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from ..decide import TOOLS

__all__ = ["EXCERPT", "MARK", "SHAPES", "SHORTEST", "Sign", "answer_signs", "hinted", "text_signs"]

MARK: Final = "memory-sidecar/"
"""How the keys begin that the sidecar puts into `_meta` of every definition and answer."""
EXCERPT: Final = 160
"""Characters of what was found that are quoted."""
SHORTEST: Final = min(len(name) - 1 for name in TOOLS)
"""Characters of the shortest text that could be a tool's name, without its separator, or could hold an answer."""
_LONG_SHAPE: Final = 3
"""How many names a shape has before nothing else is likely to have just these."""
_MAX_JSON: Final = 1 << 20
"""Characters of a text that is read as JSON. The largest answer of memory, escaped, is smaller."""
_MAX_DEPTH: Final = 8
"""How often JSON is read in a text of JSON. Each level doubles the backslashes, and a tool's answer has two."""
_NEAR: Final = 300
"""Characters between two names in a text: a value that comes before the last name is a word or a key."""


class Sign(NamedTuple):
    """Why something is memory's own: the rule, the tool it is of, the field, and an excerpt."""

    rule: str
    tool: str
    where: str
    evidence: str


class Shape(NamedTuple):
    """One form of a tool's answer. If `listed` is a name, the others are those in each object of that list."""

    tool: str
    names: tuple[str, ...]
    """The names that must be there, in their order."""
    known: frozenset[str]
    listed: str = ""

    def fits(self, names: Iterable[str]) -> bool:
        """Whether these are the names of an answer: all that must be there, and none that is not known."""
        return set(self.names) <= set(names) <= self.known


def _shapes() -> Iterator[Shape]:
    for row in TOOLS.values():
        for answer in row.answers:
            listed, _, inner = answer[0].partition(".")
            plain = [name.partition(".")[2] if inner else name for name in answer]
            required = tuple(name for name in plain if not name.endswith("?"))
            if inner or len(required) >= _LONG_SHAPE:
                yield Shape(row.name, required, frozenset(name.rstrip("?") for name in plain), listed if inner else "")


SHAPES: Final = tuple(_shapes())
_COMMON: Final = frozenset(("key", "description", "content", "reason", "code"))
_TELLING: Final = frozenset(shape.listed or min({*shape.names} - _COMMON, default="key") for shape in SHAPES)
"""A name of each shape that few other objects have: without one of them, an object is looked at no further."""

# --- data ------------------------------------------------------------------------------------------------


def answer_signs(answer: object, depth: int = 0) -> Iterator[Sign]:
    """The signs that plain data holds an answer of memory: an object of one of its shapes, or a text of one.

    `depth` tells in how many texts of JSON the data stood.
    """
    stack: list[object] = [answer]
    while stack:
        node = stack.pop()
        if isinstance(node, str):
            if len(node) >= SHORTEST:
                yield from text_signs(node, depth)
        elif isinstance(node, Mapping):
            if "_meta" in node or not _TELLING.isdisjoint(node):
                yield from _object_signs(node)
            stack.extend(_encoded(node))
            stack.extend(node)
            stack.extend(node.values())
        elif isinstance(node, list | tuple):
            stack.extend(node)


def _encoded(node: Mapping[Any, Any]) -> Iterator[str]:
    """What MCP itself puts into base64: the bytes of a resource, an image or a sound."""
    for name in ("blob", "data"):
        if isinstance(text := node.get(name), str) and len(text) >= SHORTEST:
            with suppress(ValueError):  # then it is the text that it is
                yield base64.b64decode(text, validate=True).decode("utf-8", "replace")


def _object_signs(node: Mapping[Any, Any]) -> Iterator[Sign]:
    meta = node.get("_meta")
    for key in meta if isinstance(meta, Mapping) else ():
        if isinstance(key, str) and key.startswith(MARK):
            yield Sign("marker", "memory_read", "_meta", key[:EXCERPT])
    for shape in SHAPES:
        if not shape.listed:
            fits = shape.fits(node)
        else:
            items = node.get(shape.listed)
            fits = isinstance(items, list | tuple) and len(items) > 0
            fits = fits and all(isinstance(item, Mapping) and shape.fits(item) for item in items)  # type: ignore[union-attr]
        if fits:
            yield Sign("answer", shape.tool, "result", ", ".join(map(str, node))[:EXCERPT])


# --- texts -----------------------------------------------------------------------------------------------

_REFUSAL: Final = "memory is private to its harness and "
_BLOCK: Final = re.compile(r"(?:<|</|&lt;)memory-index")
_WRITTEN_MARK: Final = re.compile(rf"[\"']{MARK}\w++[\"']\s*+:")
_HINTS: Final = ("memory-index", "is private to its harness", MARK, *sorted(_TELLING))
"""Words of which every answer, block, mark and refusal has one, however it is escaped."""


def hinted(text: str) -> bool:
    """Whether a text holds a word that each answer of memory has; without one it can hold no answer."""
    return any(hint in text for hint in _HINTS)


def text_signs(text: str, depth: int = 0) -> Iterator[Sign]:
    """The signs in one text: the index block, or an answer as JSON or as Python shows it, also amid other words.

    `depth` tells in how many texts of JSON this one stood.
    """
    if not hinted(text):
        return
    # However often a text was escaped, without its backslashes it reads alike.
    bare = text.replace("\\", "")
    if block := _BLOCK.search(bare):
        yield _text_sign("answer", "memory_list", bare, block.start())
    if (at := bare.find(_REFUSAL)) >= 0:
        yield _text_sign("answer", "memory_list", bare, at)
    if mark := _WRITTEN_MARK.search(bare):
        yield _text_sign("marker", "memory_read", bare, mark.start())
    names: set[str] = set()
    yield from _signs_in_order(bare, names)
    if text.lstrip()[:1] in ("{", "["):
        yield from _json_signs(text, names, depth)


def _text_sign(rule: str, tool: str, text: str, at: int) -> Sign:
    return Sign(rule, tool, "text", text[at : at + EXCERPT])


def _json_signs(text: str, names: set[str], depth: int) -> Iterator[Sign]:
    """The signs in what a text says as JSON, where the names may come in any order. `names` are those it has."""
    try:
        if len(text) <= _MAX_JSON and depth < _MAX_DEPTH:
            # A number of thousands of digits is one too, and a name may stand twice.
            data = json.loads(text, parse_int=float, object_pairs_hook=_all_members)
            yield from answer_signs(data, depth + 1)
            return
    except RecursionError:
        pass
    except ValueError:  # no JSON, and so no object whose names have an order of their own
        return
    for shape in SHAPES:
        if names.issuperset(_first_names(shape)):
            yield Sign("answer", shape.tool, "too much JSON to be read", ", ".join(_first_names(shape)))


def _all_members(members: list[tuple[str, Any]]) -> object:
    """An object of JSON as what is looked at: a name that stands twice hides nothing."""
    made = dict(members)
    return made if len(made) == len(members) else [made, *({name: value} for name, value in members)]


def _first_names(shape: Shape) -> tuple[str, ...]:
    """The names by which an answer of this shape is known in a text. The last of them comes before any long value."""
    return (((shape.listed,) if shape.listed else ()) + shape.names)[:_LONG_SHAPE]


def _steps() -> Iterator[tuple[str, tuple[str, ...], str]]:
    """For each name of an answer: the name, those that come before it, and the tool, if it is the last that is needed.

    They come in the table's order.
    """
    for shape in SHAPES:
        names = _first_names(shape)
        for at, name in enumerate(names):
            yield name, names[:at], shape.tool if at == len(names) - 1 else ""


_STEPS: Final = {name: tuple({step[1:]: 0 for step in _steps() if step[0] == name}) for name, _, _ in _steps()}
_NAME: Final = re.compile(rf"[\"']({'|'.join(_STEPS)})[\"']\s*+:")
# A list's name counts only with the first name of an object that opens the list. Line ends may have been escaped.
_OPENS: Final = {
    shape.listed: re.compile(rf"\s*+\[[\snrt]*+\{{[\snrt]*+[\"']{shape.names[0]}[\"']\s*+:")
    for shape in SHAPES
    if shape.listed
}


def _signs_in_order(text: str, names: set[str]) -> Iterator[Sign]:
    """The signs that a text has the names of an answer one after the other. Puts all the names it has into `names`.

    One pass: for each beginning of an answer it keeps where the last one stood, since no other is nearer.
    """
    begun: dict[tuple[str, ...], tuple[int, int]] = {}
    found: set[str] = set()
    for match in _NAME.finditer(text):
        name = match[1]
        names.add(name)
        for before, tool in _STEPS[name]:
            start, end = begun.get(before, (match.start(), match.start()))
            if (before and before not in begun) or match.start() - end > _NEAR:
                continue
            if name in _OPENS and not _OPENS[name].match(text, match.end()):
                continue
            begun[(*before, name)] = start, match.end()
            if tool and tool not in found:
                found.add(tool)
                yield _text_sign("answer", tool, text, start)

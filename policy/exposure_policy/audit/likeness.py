"""Is this offer a memory tool, whatever it calls itself? Pure: text and schemas in, signs out.

An *offer* is anything a server or a card shows to strangers: a tool, a skill, a prompt, a resource, the
server's own introduction. `judge` collects signs; an offer is memory when it has one strong sign, or two weak
ones of different rules. No I/O and no SDK belong here: standard library only.

The rules, with their bounds:

- **name** (strong): one of the four names, with anything before it and a version or a word after it, in any
  case, with any separators or none, in look-alike letters: `acme__memory_read`, `memoryWriteV2`, or in
  full-width letters; memories and a verb of storage, in any order: `list_memories`. Another subject takes the
  sign away: `gpu_memory_list` and `memory_read_bandwidth` are about hardware, a `memory_listener` is not a list.
  Memory and one of a few verbs in another order, such as `read_memory`, and `remember` and `memorize` alone, unless
  anything beside them speaks of a machine.
  Weak: memory and a verb of storage in another order or wording, such as `get_memory`, memory alone, and a verb
  of remembering alone, such as `recall` or `remember_this`.
- **address** (strong): a resource or a template under `memory://`.
- **schema** (strong): the arguments of `memory_write` and no others, a key with memory's own rule, or the result
  shapes that only these tools have. Weak: some of those arguments among others, a single argument called `key`,
  and one argument that chooses among verbs of storage; many other tools have these.
- **text** (strong): one of the four names as one token in a description, an example, a tag or a URI; the
  memory index block; a sentence that offers to keep or give back what an agent remembers.
  Weak: a sentence about memory with a verb of storage that says nothing of hardware, or one about remembering.
- **marker** (strong): the private marker that the sidecar puts on every tool definition.
- **identity** (strong): a server that introduces itself as the sidecar, or as a memory and nothing else:
  `memory-server`, `Basic Memory`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ..guards.names import MAX_NAME, fold, memory_name
from .near_names import is_memory, near_name, plain_name, verbs
from .prose import MAX_TEXT, Match, of_machine, text_matches

__all__ = [
    "MARKER",
    "Offer",
    "Sign",
    "judge",
    "offer_of",
    "overlong",
]

MARKER: Final = "memory-sidecar/private"
"""Key in a tool definition's `_meta` by which the sidecar marks its own tools."""

_MARKER_PREFIX: Final = "memory-sidecar/"

# Parts of a schema or a field: hostile input must not cost more than linear time. See `overlong`.
_MAX_NODES: Final = 20_000
_EXCERPT: Final = 160


@dataclass(frozen=True)
class Offer:
    """One thing a stranger can see. `texts` maps a field's name to its text (description, example, tag, uri)."""

    kind: str
    name: str
    title: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    input_schema: Mapping[str, Any] | None = None
    output_schema: Mapping[str, Any] | None = None
    meta: Mapping[str, Any] | None = None
    named_by: str = "name"
    """The field that `name` is from: what has none is called by its `id` or its address."""
    identifier: str = ""
    """Its `id`, where it has a name besides."""
    shown: Mapping[str, Any] = field(default_factory=dict)
    """All of it, as it came."""


@dataclass(frozen=True)
class Sign:
    """Why an offer looks like memory: the rule, the memory tool it resembles, the field and an excerpt of it."""

    rule: str
    tool: str
    where: str
    evidence: str
    strong: bool = True


def offer_of(kind: str, data: Mapping[str, Any]) -> Offer:
    """An `Offer` from the wire form of a tool, prompt, resource, template, skill or server introduction.

    Every string in `data` is judged, also in fields that no version of the protocol knows.
    """

    def text(field_name: str) -> str:
        value = data.get(field_name)
        return value if isinstance(value, str) else ""

    def mapping(field_name: str) -> Mapping[str, Any] | None:
        value = data.get(field_name)
        return value if isinstance(value, Mapping) else None

    own = {"name", "title", "inputSchema", "outputSchema", "_meta", "icons", "id"}
    texts = {key: "\n".join(_strings(value)) for key, value in data.items() if isinstance(key, str) and key not in own}
    schema = mapping("inputSchema")
    arguments = data.get("arguments")
    if schema is None and isinstance(arguments, list):
        names = [a["name"] for a in arguments if isinstance(a, Mapping) and isinstance(a.get("name"), str)]
        schema = {"properties": {argument: {} for argument in names}}
    named_by = next((field for field in ("name", "id", "uri", "uriTemplate") if text(field)), "name")
    return Offer(
        kind=kind,
        name=text(named_by),
        named_by=named_by,
        title=text("title"),
        identifier=text("id") if named_by != "id" else "",
        shown=data,
        texts={k: t for k, t in texts.items() if t},
        input_schema=schema,
        output_schema=mapping("outputSchema"),
        meta=mapping("_meta"),
    )


# --- schemas and results ---------------------------------------------------------------------------------


def _properties(schema: Mapping[str, Any] | None) -> Iterator[tuple[frozenset[str], Mapping[str, Any]]]:
    """Every object shape in a schema, however deep, within a bound."""
    for node in _nodes(schema):
        if isinstance(node, Mapping) and isinstance(props := node.get("properties"), Mapping):
            yield frozenset(str(p).lower() for p in props), props


def _schema_signs(where: str, schema: Mapping[str, Any] | None) -> Iterator[Sign]:
    for names, props in _properties(schema):
        shown = ", ".join(sorted(names))[:_EXCERPT]
        if _is_our_key(key := props.get("key", {})):
            yield Sign("schema", "memory_read", where, f"key: {key['pattern']}, at most {key['maxLength']} characters")
        if shape := _shape(names):
            yield Sign("schema", shape[0], where, shown, strong=shape[1])
        elif "memories" in names:
            items = json.dumps(props.get("memories"), default=str)[:4096]
            strong = '"key"' in items and '"description"' in items
            yield Sign("schema", "memory_list", where, shown, strong=strong)
        for name, prop in props.items():
            chosen = prop.get("enum") if isinstance(prop, Mapping) else None
            if isinstance(chosen, list | tuple) and len(found := verbs(v for v in chosen if isinstance(v, str))) > 1:
                yield Sign("schema", found[0], where, f"{name}: {', '.join(map(str, chosen))}"[:_EXCERPT], strong=False)


def _shape(names: frozenset[str]) -> tuple[str, bool] | None:
    """The memory tool that has properties of these names, and whether hardly anything else has them."""
    if names >= {"key", "description", "content"}:
        tool = "memory_write" if "found" not in names else "memory_read"
        # These three alone are also what a translation or a setting is made of.
        return tool, len(names) > 3 and names <= {"key", "description", "content", "overwrite", "found", "reason"}
    if names in ({"key", "found", "reason"}, {"key", "written", "code", "reason"}):
        return ("memory_read" if "found" in names else "memory_write"), True
    if names in ({"key", "content", "overwrite"}, {"key", "written"}):
        return "memory_write", False
    if names in ({"key"}, {"key", "deleted"}):
        return ("memory_delete" if "deleted" in names else "memory_read"), False
    return None


def _is_our_key(key: Any) -> bool:
    """A key's own rule, to the letter: few stores allow these characters, and none besides with this length."""
    return isinstance(key, Mapping) and "[A-Za-z0-9._=-]+" in str(key.get("pattern")) and key.get("maxLength") == 200


# --- the verdict -----------------------------------------------------------------------------------------


def _all_signs(offer: Offer) -> Iterator[Sign]:
    for key, value in (offer.meta or {}).items():
        key = str(key)
        if (key == MARKER and value is not False) or (key != MARKER and key.startswith(_MARKER_PREFIX)):
            yield Sign("marker", memory_name(offer.name) or "memory_list", "_meta", f"{key}: {value!r}"[:_EXCERPT])
    for where, name in ((offer.named_by, offer.name), ("id", offer.identifier), ("title", offer.title)):
        if tool := memory_name(name):
            yield Sign("name", tool, where, name[:_EXCERPT])
        else:
            if near := near_name(name):
                plain = plain_name(name) is not None and not any(of_machine(text) for _, text in _texts(offer))
                yield Sign("name", near[0], where, name[:_EXCERPT], strong=near[1] or plain)
            # A name is also words: "Long-term agent memory store". Only what is enough by itself counts, since
            # the name may have been a weak sign already.
            yield from (_of_text(where, match) for match in text_matches(name) if match.strong)
        if offer.kind == "server" and (_IDENTITY.search(fold(name)) or is_memory(name)):
            yield Sign("identity", "memory_list", where, name[:_EXCERPT])
    for where in ("uri", "uriTemplate"):
        if _SCHEME.match(fold(offer.texts.get(where, ""))):
            yield Sign("address", "memory_read", where, offer.texts[where][:_EXCERPT])
    yield from _schema_signs("inputSchema", offer.input_schema)
    yield from _schema_signs("outputSchema", offer.output_schema)
    for where, text in _texts(offer):
        yield from (_of_text(where, match) for match in text_matches(text))


def _of_text(where: str, match: Match) -> Sign:
    return Sign("text", match.tool, where, match.excerpt, match.strong)


# Not of a machine: memory://usage, memory://heap.
_SCHEME: Final = re.compile(
    r"(?i)^\s*(?:\w+\+)?memor(?:y|ies):(?!/*(?:usage|stats|heap|info|dump|limits?|profile|leaks?|pressure)\b)"
)
_IDENTITY: Final = re.compile(r"(?i)^\W*memory[\W_]*sidecar\W*$")


def _texts(offer: Offer) -> Iterator[tuple[str, str]]:
    yield from offer.texts.items()
    yield from (("_meta", text) for text in _strings(offer.meta))
    for where, schema in (("inputSchema", offer.input_schema), ("outputSchema", offer.output_schema)):
        yield from ((where, text) for text in _schema_texts(schema))


def _strings(node: object) -> Iterator[str]:
    """Every string in plain data, keys included, however deep, within a bound."""
    return (one for one in _nodes(node) if isinstance(one, str))


def _nodes(node: object, most: int = _MAX_NODES) -> Iterator[Any]:
    """All parts of plain data, keys included, however deep; no more than `most`."""
    stack: list[Any] = [node]
    while stack and most:
        node = stack.pop()
        most -= 1
        yield node
        if isinstance(node, Mapping):
            stack.extend(node.values())
            stack.extend(node.keys())
        elif isinstance(node, list | tuple):
            stack.extend(node)


def _schema_texts(schema: Mapping[str, Any] | None) -> Iterator[str]:
    stack: list[Any] = [schema]
    seen = 0
    while stack and seen < _MAX_NODES:
        node = stack.pop()
        seen += 1
        if isinstance(node, Mapping):
            for key, value in node.items():
                if isinstance(key, str):
                    yield key  # the name of a property
                if isinstance(value, str):
                    if key in ("description", "title", "const", "default", "$comment"):
                        yield value
                else:
                    stack.append(value)
        elif isinstance(node, list | tuple):
            stack.extend(node)
        elif isinstance(node, str):
            yield node  # an item of enum or examples


def judge(offer: Offer) -> tuple[Sign, ...]:
    """The signs that make `offer` memory, or an empty tuple when it is not.

    One strong sign is enough; so are two weak ones of different rules. Each rule and field is told once.
    """
    strong: dict[tuple[str, str], Sign] = {}
    weak: dict[str, Sign] = {}
    for sign in _all_signs(offer):
        if sign.strong:
            strong.setdefault((sign.rule, sign.where), sign)
        else:
            weak.setdefault(sign.rule, sign)
    if strong:
        return tuple(strong.values())
    return tuple(weak.values()) if len(weak) > 1 else ()


def overlong(offer: Offer) -> str | None:
    """What of the offer is more than is judged, in words; None if it was judged whole.

    A memory could be offered behind so much of something else, so what is this long passes nowhere.
    """
    for where, name in ((offer.named_by, offer.name), ("id", offer.identifier), ("title", offer.title)):
        if len(name) > MAX_NAME:
            return f"its {where} is longer than {MAX_NAME} characters"
    for where, text in _texts(offer):
        if len(text) > MAX_TEXT:
            return f"a text in its {where} is longer than {MAX_TEXT} characters"
    for where, node in offer.shown.items():
        if not isinstance(node, str) and sum(1 for _ in _nodes(node, _MAX_NODES + 1)) > _MAX_NODES:
            return f"its {where} has more than {_MAX_NODES} parts"
    return None

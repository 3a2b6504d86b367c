"""Does a text that strangers read offer memory? Only wording is decided here.

A tool's name counts when it is written as one token; "memory" and "read" as neighbours in prose do not. A
sentence counts when it offers to keep or give back what an agent remembers, unless it speaks of hardware or
denies it.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from ..guards.names import fold, memory_name

__all__ = ["MAX_TEXT", "Match", "index_match", "of_machine", "text_matches"]

_TOKEN: Final = re.compile(r"[^\s\"'`“”‘’«»(),;<>\[\]{}!?|*]+")
# Inside a text only a joined name counts: prose has "memory" and "read" as neighbours for other reasons.
_JOINED: Final = re.compile(
    r"(?i)memor[yi](?:es)?[_.:\-/·‐‑]+\w|[a-z]Memory|memory[A-Z]|memory(list|read|write|delete)"
)
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+|[\n\r]+|•")
# Possessive: a long run of spaces must not be tried again from each of them.
_INDEX: Final = re.compile(r"<\s*+/?\s*+memory[-_ ]index", re.IGNORECASE)
_NOUN: Final = re.compile(r"\b(?:memory|memories)\b")
_VERB: Final = re.compile(
    r"\b(?:read|write|list|delet|sav|stor|recall|retriev|forget|remember|updat|overwrit|fetch|access|expos"
    r"|manag(?!ement)|quer|search|brows|persist|edit|modif|remov|return|giv|hand|shar|lookup|look up"
    r"|answer|add|creat|append|insert|load|keep|record|clear|eras|memori[sz])\w*\b"
)
# Whose memory, or kept for when: what tells an agent's memory from a machine's. A machine has no *one* memory to
# read by a key, and no memories, so the countable noun tells too.
_AGENT: Final = re.compile(
    r"\b(?:(?:a|one|each|every|any|this|another) memory (?:by|under|for|with|that|whose|is|was|named|called|you)"
    r"|memories|agent|assistant|bot|harness|earlier runs?|previous(?:ly)? (?:runs?|sessions?|conversations?|saved)"
    r"|prior (?:runs?|sessions?)|past (?:runs?|sessions?|conversations?)|later runs?"
    r"|across (?:runs?|sessions?|conversations?)|between (?:runs?|sessions?|conversations?)"
    r"|(?:future|later) (?:tasks?|sessions?|conversations?)"
    r"|long[- ]term|remember(?:ed|s)?|learn(?:ed|t))\b"
)
# These tell as well, unless memory is only where something is: "stored in memory", "loads the model into memory".
_LOOSE: Final = re.compile(r"\b(?:model|persistent|durable|stored|saved|private|notes?)\b")
_PLACE: Final = re.compile(r"\b(?:in|into|from|to|of) (?:the )?memory\b")
# Remembering without the noun: a verb, and then what or for when. A product recall is something else.
_KEEPS: Final = re.compile(r"\b(?:remember|recall|memori[sz]|forget|store|save|keep)\w*\b")
_WHAT: Final = re.compile(
    r"\b(?:facts?|preferences?|learn(?:ed|t)|earlier|something|what (?:you|i|the user|was)|(?:know|remember)s?"
    r"|(?:previous|past|prior|future|later|across|between|multiple) (?:\w+ )?"
    r"(?:runs?|sessions?|conversations?|chats?))\b"
)
_WHO: Final = re.compile(r"\b(?:agent|assistant|bot|harness|model|llm|ai)\b")
_WHEN: Final = re.compile(
    r"\b(?:earlier|previous|past|prior|future|later|across|between) (?:\w+ )?"
    r"(?:runs?|sessions?|conversations?|chats?)\b"
)
_RECALL: Final = re.compile(r"\b(?:products?|vehicles?|food|drugs?|safety|fda|nhtsa|defects?|manufacturers?)\b")
_OTHER_SENSE: Final = re.compile(
    r"\b(?:ram|vram|gpu|cpu|heap|stack|leaks?|footprint|bandwidth|allocat\w*|process(?:es)?|address(?:es)?|bytes?"
    r"|[kmgt]i?b|pages?|paging|swap|kernel|garbage|profil\w*|dumps?|registers?|oom|out of memory|usage"
    r"|consum\w*|in-memory|shared memory|memory[- ]mapped|hardware|device|flash|debug\w*|buffers?|cache[sd]?"
    r"|memory[- ]efficient|memory (?:size|limits?|image|map|regions?|layout)|forensic\w*|lstm|neural"
    r"|short[- ]term memory (?:network|model|layer)s?|computer memory|human memory|memory foam|memory lane"
    r"|(?:your|its|my) memory of"  # what the model itself has in mind
    r"|photos?|games?|cards?|puzzles?)\b"
)
_MACHINE: Final = re.compile(
    r"\b(?:offsets?|length|size|word|hex|binary|machine|host|system|target|chip|firmware|controller|plc|emulat\w*"
    r"|virtual|physical|free|total|instance|container|pointer|segment|breakpoint|login)\b"
)
# "does not share its private memory": the denial stands before the noun, and near it.
_DENIED: Final = re.compile(
    r"\b(?:no|not|never|without|cannot|neither|nor|\w+n['’]t)\s+(?:[\w'’,-]+\s+){0,5}memor(?:y|ies)\b"
)


# A joined name written with digits for letters, for the quick test before tokens are looked at.
_LEET_HINT: Final = re.compile(r"(?i)m[e3]m[o0]ry")

MAX_TEXT: Final = 65_536
"""Characters of one text that are judged; a longer one is refused or told as unaudited, not passed."""
_EXCERPT: Final = 160


class Match(NamedTuple):
    """A place in a text that offers memory, the tool it resembles, and whether it is enough by itself."""

    tool: str
    excerpt: str
    strong: bool


def text_matches(text: str) -> Iterator[Match]:
    """Where a text that a stranger can read offers memory; at most one match of each sort."""
    folded = fold(text[:MAX_TEXT])
    if index := index_match(folded):
        yield index
    if _JOINED.search(folded) or _LEET_HINT.search(folded):
        for token in _TOKEN.finditer(folded):
            if len(token[0]) <= 200 and (tool := memory_name(token[0].strip(".-_/:"))):
                yield Match(tool, _around(folded, token.start()), strong=True)
                break
    if sentence := _sentence(folded.lower()):
        yield sentence


def index_match(text: str) -> Match | None:
    """The start-of-run index block, which belongs in the harness's prompt and nowhere else."""
    folded = fold(text)
    found = _INDEX.search(folded)
    return Match("memory_list", _around(folded, found.start()), strong=True) if found else None


def of_machine(text: str) -> bool:
    """Whether a text speaks of a machine's memory, or of another sense of the word."""
    folded = fold(text[:MAX_TEXT]).lower()
    return any(other.search(folded) for other in (_OTHER_SENSE, _MACHINE, _RECALL))


def _sentence(text: str) -> Match | None:
    weak: Match | None = None
    for sentence in _SENTENCE.split(text):
        if _NOUN.search(sentence) is None:
            match = _remembering(sentence)
        elif _OTHER_SENSE.search(sentence) or _DENIED.search(sentence):
            continue
        else:
            match = _of_memory(sentence)
        if match is not None and match.strong:
            return match
        weak = weak or match
    return weak


def _of_memory(sentence: str) -> Match | None:
    verb = _VERB.search(sentence)
    if verb is None:
        return None
    strong = _AGENT.search(sentence) or (_LOOSE.search(sentence) and not _PLACE.search(sentence))
    return Match(_verb_tool(verb[0]), sentence.strip()[:_EXCERPT], bool(strong))


def _remembering(sentence: str) -> Match | None:
    found = _KEEPS.search(sentence)
    if found is None or not _WHAT.search(sentence, found.end()) or _RECALL.search(sentence):
        return None
    strong = _WHO.search(sentence) is not None and _WHEN.search(sentence) is not None
    return Match(_verb_tool(found[0]), sentence.strip()[:_EXCERPT], strong)


def _verb_tool(verb: str) -> str:
    for stem, tool in (
        ("list", "memory_list"),
        ("brows", "memory_list"),
        ("search", "memory_list"),
        ("delet", "memory_delete"),
        ("forget", "memory_delete"),
        ("remov", "memory_delete"),
        ("writ", "memory_write"),
        ("sav", "memory_write"),
        ("stor", "memory_write"),
        ("updat", "memory_write"),
        ("remember", "memory_write"),
        ("overwrit", "memory_write"),
        ("add", "memory_write"),
        ("creat", "memory_write"),
        ("append", "memory_write"),
        ("insert", "memory_write"),
        ("keep", "memory_write"),
        ("record", "memory_write"),
        ("memori", "memory_write"),
        ("clear", "memory_delete"),
        ("eras", "memory_delete"),
    ):
        if verb.startswith(stem):
            return tool
    return "memory_read"


def _around(text: str, at: int) -> str:
    start = max(0, at - 60)
    if start:  # whole words only, but never past the place itself
        start = text.find(" ", start, at) + 1 or start
    return text[start : start + _EXCERPT].strip()

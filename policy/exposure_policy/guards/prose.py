"""Does a text that strangers read offer memory? Only wording is decided here.

A tool's name counts when it is written as one token; "memory" and "read" as neighbours in prose do not. A
sentence counts when it offers to keep or give back what an agent remembers, unless it speaks of hardware or
denies it.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from .names import fold, memory_name

__all__ = ["Match", "index_match", "text_matches"]

_TOKEN: Final = re.compile(r"[^\s\"'`“”‘’«»(),;<>\[\]{}!?|*]+")
# Inside a text only a joined name counts: prose has "memory" and "read" as neighbours for other reasons.
_JOINED: Final = re.compile(
    r"(?i)memor[yi](?:es)?[_.:\-/·‐‑]+\w|[a-z]Memory|memory[A-Z]|memory(list|read|write|delete)"
)
_SENTENCE: Final = re.compile(r"(?<=[.!?;])\s+|[\n\r]+|•")
_INDEX: Final = re.compile(r"<\s*/?\s*memory[-_ ]index", re.IGNORECASE)
_NOUN: Final = re.compile(r"\b(?:memory|memories)\b")
_VERB: Final = re.compile(
    r"\b(?:read|write|list|delet|sav|stor|recall|retriev|forget|remember|updat|overwrit|fetch|access|expos"
    r"|manag|quer|search|brows|persist|edit|modif|remov|return|giv|hand|shar|lookup|look up)\w*\b"
)
# Whose memory, or kept for when: what tells an agent's memory from a machine's. A machine has no *one* memory to
# read by a key, so the countable noun tells too.
_AGENT: Final = re.compile(
    r"\b(?:(?:a|one|each|every|any|this|another) memory (?:by|under|for|with|that|whose|is|was|named|called|you)"
    r"|agent|assistant|model|bot|harness|earlier runs?|previous(?:ly)? (?:runs?|sessions?|conversations?|saved)"
    r"|prior (?:runs?|sessions?)|past (?:runs?|sessions?|conversations?)|later runs?"
    r"|across (?:runs?|sessions?|conversations?)|between (?:runs?|sessions?|conversations?)"
    r"|long[- ]term|persistent|durable|stored|saved|private|notes?|remember(?:ed|s)?|learn(?:ed|t))\b"
)
_OTHER_SENSE: Final = re.compile(
    r"\b(?:ram|vram|gpu|cpu|heap|stack|leaks?|footprint|bandwidth|allocat\w*|process(?:es)?|address(?:es)?|bytes?"
    r"|[kmgt]i?b|pages?|paging|swap|kernel|garbage|profil\w*|dumps?|registers?|oom|out of memory|usage"
    r"|consum\w*|in-memory|shared memory|memory[- ]mapped|hardware|device|flash|debug\w*|buffers?|cache[sd]?"
    r"|memory[- ]efficient|computer memory|human memory|memory foam|memory lane|photos?|games?|cards?|puzzles?)\b"
)
# "does not share its private memory": the denial stands before the noun, and near it.
_DENIED: Final = re.compile(
    r"\b(?:no|not|never|without|cannot|neither|nor|\w+n['’]t)\s+(?:[\w'’,-]+\s+){0,5}memor(?:y|ies)\b"
)


# A joined name written with digits for letters, for the quick test before tokens are looked at.
_LEET_HINT: Final = re.compile(r"(?i)m[e3]m[o0]ry")

# A text longer than this is judged by its beginning: hostile input must not cost more than linear time.
_MAX_TEXT: Final = 65_536
_EXCERPT: Final = 160


class Match(NamedTuple):
    """A place in a text that offers memory, the tool it resembles, and whether it is enough by itself."""

    tool: str
    excerpt: str
    strong: bool


def text_matches(text: str) -> Iterator[Match]:
    """Where a text that a stranger can read offers memory; at most one match of each sort."""
    folded = fold(text[:_MAX_TEXT])
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
    folded = fold(text[:_MAX_TEXT])
    found = _INDEX.search(folded)
    return Match("memory_list", _around(folded, found.start()), strong=True) if found else None


def _sentence(text: str) -> Match | None:
    if _NOUN.search(text) is None:
        return None
    weak: Match | None = None
    for sentence in _SENTENCE.split(text):
        if _NOUN.search(sentence) is None or _OTHER_SENSE.search(sentence) or _DENIED.search(sentence):
            continue
        verb = _VERB.search(sentence)
        if verb is None:
            continue
        strong = _AGENT.search(sentence) is not None
        match = Match(_verb_tool(verb[0]), sentence.strip()[:_EXCERPT], strong)
        if strong:
            return match
        weak = weak or match
    return weak


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
    ):
        if verb.startswith(stem):
            return tool
    return "memory_read"


def _around(text: str, at: int) -> str:
    start = max(0, at - 60)
    if start:  # whole words only, but never past the place itself
        start = text.find(" ", start, at) + 1 or start
    return text[start : start + _EXCERPT].strip()

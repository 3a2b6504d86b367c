"""Does a name say memory in other words than the policy's own? English words, as published memories use them. Pure."""

from collections.abc import Iterable
from typing import Final

from ..guards.names import FILLER, HARDWARE, MAX_NAME, VERSION, words_of

__all__ = ["is_memory", "near_name", "plain_name", "verbs"]

_NOUNS: Final = frozenset(("memory", "memories"))
_VERBS: Final = {
    **dict.fromkeys("list index enumerate browse search find query ls".split(), "memory_list"),
    **dict.fromkeys("read get recall retrieve fetch load show view open lookup".split(), "memory_read"),
    **dict.fromkeys(
        "write save store remember add create update set put insert append record keep edit memorize"
        " memorise persist".split(),
        "memory_write",
    ),
    **dict.fromkeys("delete remove forget erase clear drop purge".split(), "memory_delete"),
}
# Verbs of remembering: as the head of a name they may be about memory without saying so.
_REMEMBERING: Final = frozenset("recall remember memorize memorise forget".split())
_MEMORIZING: Final = frozenset(("remember", "memorize", "memorise"))
# Of a machine's memory one says others: it is shown, got, loaded or cleared.
_PLAIN: Final = frozenset("read write append update delete edit".split())
_OF_NOTES: Final = _REMEMBERING | frozenset("store save keep persist record retrieve".split())
_OF_AGENTS: Final = frozenset(
    "agent agents agentic ai llm assistant claude chat conversation session long short term longterm persistent durable"
    " semantic episodic working core archival user project bank banks graph knowledge vault basic simple open super"
    " service store storage layer manager db database node js ts py python typescript".split()
)


def near_name(name: str) -> tuple[str, bool] | None:
    """The memory tool that `name` may mean in other words, and whether it hardly means anything else."""
    words = words_of(name[:MAX_NAME])
    if HARDWARE.intersection(words):
        return None
    if _NOUNS.intersection(words):
        verb = next((_VERBS[w] for w in words if w in _VERBS), None)
        if verb is not None:
            # A machine has one memory, and it is read or written, not saved or recalled.
            return verb, "memories" in words or not _OF_NOTES.isdisjoint(words)
        return ("memory_read", False) if all(w in _NOUNS or w in FILLER for w in words) else None
    return next(((_VERBS[w], False) for w in words[:2] if w in _REMEMBERING), None)


def plain_name(name: str) -> str | None:
    """The memory tool that `name` says in other words and with nothing else: `write_memory`, `readMemory`, `memorize`.

    A debugger has such names too: whoever asks looks whether a machine is spoken of beside it.
    """
    words = [w for w in words_of(name[:MAX_NAME]) if w not in FILLER and not VERSION.fullmatch(w)]
    if len(words) == 1:
        return _VERBS[words[0]] if words[0] in _MEMORIZING else None
    said = sorted(words, key=_NOUNS.__contains__)
    return _VERBS[said[0]] if len(said) == 2 and said[0] in _PLAIN and said[1] in _NOUNS else None


def is_memory(name: str) -> bool:
    """Whether a server's name says that it is a memory, with nothing beside it that could be another sense."""
    words = [w for w in words_of(name[:MAX_NAME]) if not VERSION.fullmatch(w)]
    return bool(_NOUNS.intersection(words)) and all(w in _NOUNS or w in FILLER or w in _OF_AGENTS for w in words)


def verbs(words: Iterable[str]) -> list[str]:
    """The memory tools whose verbs are among `words`, each once: what one tool that does all of it lets choose."""
    found = (_VERBS.get(part) for word in words for part in words_of(word[:MAX_NAME]))
    return list(dict.fromkeys(tool for tool in found if tool is not None))

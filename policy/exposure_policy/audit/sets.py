"""Is a server a memory by all that it offers together, where no offer is one by itself? Pure.

Made from published servers, and measured on them: see `make audit-corpus`. Only the audit asks; a guard knows this
product's own tools by schema, name and mark alone.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from ..guards.names import fold
from .likeness import Offer, Sign
from .prose import of_machine

__all__ = ["together"]

# The nine tools of the knowledge graph that the protocol's authors publish as their reference memory, and its forks.
_GRAPH: Final = (
    *("create_entities", "create_relations", "add_observations", "delete_entities", "delete_observations"),
    *("delete_relations", "read_graph", "search_nodes", "open_nodes"),
)
_ENOUGH_OF_GRAPH: Final = 4
_WORD: Final = re.compile(r"[a-z]+")
_NOUN: Final = re.compile(r"(?i)\bmemor(?:y|ies)\b")
_CAMEL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")
_REMEMBERING: Final = frozenset(
    (
        *("remember", "recall", "recollect", "memorize", "memorise", "forget"),
        *("memory", "memories", "mem", "mnemo", "engram"),
    )
)
# What those are called that keep what an agent remembers, beside the words themselves.
_CALLED: Final = re.compile(
    r"mnem|engram|hippocamp|memor|remember|recall|brain|agent[-_ ]?(?:knowledge|notes|vault)"
    r"|\bmem(?!ber|be[dt]|cach|check|cpy|dump|es?\b|fd|info|leak|pool|profil|scan|set|stat|swap|tables?\b|test|trace)"
)
# What an agent keeps for itself or for the next one, and the verbs of keeping it and of getting it back. A server that
# has a tool of each for one of these keeps memory, whatever it calls that.
_KEPT: Final = frozenset(
    ("context", "decision", "experience", "fact", "handoff", "insight", "learning", "preference", "thought")
)
_KEEPING: Final = frozenset(
    ("add", "capture", "create", "log", "persist", "push", "record", "remember", "save", "store", "write")
)
_GETTING: Final = frozenset(
    ("fetch", "find", "get", "list", "load", "pull", "query", "read", "recall", "resume", "retrieve", "search")
)
# Others have these too, and make them by these verbs: a browser's contexts, a user's preferences.
_OF_OTHERS: Final = frozenset(("context", "experience", "preference"))
_MAKING: Final = frozenset(("add", "create", "push", "write"))
# Words for what an agent remembers, and for remembering it, where tools are described in other languages. Those that
# also mean a machine's memory (memoria, mémoire, Speicher) are left out.
_ELSEWHERE: Final = re.compile(
    r"记忆|記憶|记住|記住|长期记|长期記|기억|회상|覚え(?:る|て|た)|思い出|запомн|воспомин|вспомн"
    r"|ged[äa]chtnis|erinnerung|gemerkt|souvenir|souviens|memoris|recuerd|recordar|lembr(?:ar|anca)",
    re.IGNORECASE,
)
_MACHINE_ELSEWHERE: Final = re.compile("内存|進程|进程|メモリ|메모리")
_MOST: Final = 3
"""Names that are told as evidence."""


def together(offers: Sequence[Offer]) -> Sign | None:
    """The sign that all offers of one server together are a memory; None if they are not."""
    tools = [offer for offer in offers if offer.kind == "tool"]
    names = {"_".join(_words(tool.name)): tool for tool in tools}
    graph = [name for name in names if any(name.endswith(known) for known in _GRAPH)]
    if len(graph) >= _ENOUGH_OF_GRAPH:
        return _sign("memory_list", graph)
    if paired := _paired(tools):
        return _sign("memory_write", paired)
    if sum(map(_of_machine, tools)) * 2 > len(tools):
        return None
    kept = [tool for tool in tools if not _of_machine(tool)]
    remembering = [tool.name for tool in kept if _REMEMBERING.intersection(_words(tool.name))]
    said = [tool.name for tool in kept if any(map(_NOUN.search, tool.texts.values()))]
    servers = [fold(offer.name).lower() for offer in offers if offer.kind == "server"]
    called = any(map(_CALLED.search, [*servers, *_shared(tools)]))
    if len(remembering) >= (1 if called else 2) or (called and said):
        return _sign("memory_read", remembering or said)
    elsewhere = [
        tool.name for tool in kept if _ELSEWHERE.search(" ".join((tool.name, tool.title, *tool.texts.values())))
    ]
    return _sign("memory_read", elsewhere) if len(elsewhere) >= 2 else None


def _shared(tools: Sequence[Offer]) -> Iterator[str]:
    """The word that all tools begin with: so a server names itself where it says no name."""
    first = {words[0] for tool in tools if (words := _words(tool.name))}
    if len(first) == 1 and len(tools) > 1:
        yield first.pop()


def _paired(tools: Sequence[Offer]) -> list[str]:
    """The tools that keep and give back one thing that agents keep; none if one of both is missing."""
    keeping: dict[str, str] = {}
    getting: dict[str, str] = {}
    for tool in tools:
        words = _words(tool.name)
        for word in {word.removesuffix("s") for word in words} & _KEPT:
            verbs = _KEEPING - _MAKING if word in _OF_OTHERS else _KEEPING
            if verbs.intersection(words):
                keeping.setdefault(word, tool.name)
            elif _GETTING.intersection(words):
                getting.setdefault(word, tool.name)
    return [name for word in keeping if word in getting for name in (keeping[word], getting[word])]


def _words(name: str) -> list[str]:
    return _WORD.findall(_CAMEL.sub("_", fold(name[:200])).lower())


def _of_machine(tool: Offer) -> bool:
    return any(of_machine(text) or _MACHINE_ELSEWHERE.search(text) for text in tool.texts.values())


def _sign(tool: str, names: Sequence[str]) -> Sign:
    return Sign("set", tool, "tools", ", ".join(names[:_MOST]) + (", …" if len(names) > _MOST else ""))

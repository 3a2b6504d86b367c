"""What each rule of a finding means, in words for the reports. One row a rule; the reports share them."""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ..decide import TOOLS
from .result import Finding

__all__ = ["NOT_LOOKED_AT", "RULES", "UNAUDITED_RULE", "Rule", "counted", "relation"]


class Rule(NamedTuple):
    """A rule's headline, its explanation, and what to do about a finding."""

    title: str
    meaning: str
    remedy: str
    precision: str


_TAKE_OFF: Final = "Take it off this surface. Memory is for the harness that launched the sidecar and for nobody else."

RULES: Final = {
    "name": Rule(
        "A memory tool is offered under its name",
        f"The name is one of {', '.join(TOOLS)}, with anything before it and a "
        "version or a word after it, in any case, separators or look-alike letters; or it says the same in English "
        "words that are known, as measured on well-known servers. Other words and languages are not known.",
        _TAKE_OFF,
        "high",
    ),
    "schema": Rule(
        "A memory tool is offered by its schema",
        "The arguments or the result have one of the shapes that a memory tool's have.",
        _TAKE_OFF,
        "high",
    ),
    "text": Rule(
        "A text offers memory",
        "A description, an example, a tag, an address or an introduction names a memory tool, carries the memory "
        "index, or says in one of the known English wordings that it keeps or gives back what an agent remembers.",
        "Take the capability off this surface; if there is none, take it out of the text.",
        "medium",
    ),
    "marker": Rule(
        "A tool of the sidecar is passed on",
        "The definition carries the private marker that the sidecar puts on its tools.",
        "Do not pass the sidecar's tool list on. " + _TAKE_OFF,
        "very-high",
    ),
    "address": Rule(
        "A resource has an address in memory",
        "Resources under memory:// are read by whoever connects.",
        _TAKE_OFF,
        "high",
    ),
    "identity": Rule(
        "A server introduces itself as the sidecar, or as a memory",
        "The sidecar speaks to one harness over a pipe and is not a server for others. A server that calls itself a "
        "memory offers one, also under other names.",
        "Find out what serves it here, and stop it.",
        "very-high",
    ),
    "set": Rule(
        "A server's tools are a memory together",
        "No tool is one by itself, but together they are those of a known memory, or several are named or described by "
        "words for remembering, some of them in other languages than English.",
        "Take the server off this surface, or accept the finding with the reason why it keeps nothing for an agent.",
        "medium",
    ),
    "listed": Rule(
        "The sidecar is listed in a host's configuration",
        "Any client that reads this file would try to start it. It refuses without a launch ticket, so the entry is "
        "of no use, and it shows that somebody meant memory to be shared.",
        "Remove the entry. Only a harness launches the sidecar, with a ticket that works once.",
        "high",
    ),
}

UNAUDITED_RULE: Final = Rule(
    "A surface could not be audited",
    "Something on offer could not be seen, for the reason given. What was not seen is not clean.",
    "Make it reachable for the audit, or raise its limits, and run it again.",
    "very-high",
)

NOT_LOOKED_AT: Final = (
    "An audit reads what is offered to strangers, and knows memory by names, shapes and wordings, as measured "
    "on well-known servers. It calls no tool, gets no prompt and reads no resource, so it does "
    "not tell what those answer, what is offered only to callers with credentials, or what a server adds later."
)


def relation(finding: Finding) -> str:
    """How a finding's offer stands to its memory tool: it is one, or it would offer some."""
    return "would offer" if finding.rule == "listed" else "is"


def counted(seen: Mapping[str, int]) -> str:
    """How many of what was seen, in words: `1 server, 4 tools`."""
    return ", ".join(f"{number} {kind}{'' if number == 1 else 's'}" for kind, number in seen.items())

"""Runs an audit: each target with its own collector, a few at a time, and one report over all.

A target cannot disturb another: its probe has its own time, size and faults. Texts are kept as they came.
"""

import re
import shlex
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit, urlunsplit

import anyio

from .cards import Card, probe_card, unseen_extensions
from .collect import Collector
from .hosts import probe_host_config
from .result import Bounds, Report, Target
from .servers import probe_server

__all__ = ["audit", "label"]

# More at once would make them compete for the time that each has.
_AT_ONCE: Final = 4
_KINDS: Final = ("mcp", "url", "sse", "card", "host-config")
_DEFAULT_BOUNDS: Final = Bounds()
_UNSEEN: Final = (
    "it has an extended card that a stranger cannot get; save what callers with credentials see as a file "
    "and give it with the same run"
)


async def audit(targets: Sequence[Target], bounds: Bounds = _DEFAULT_BOUNDS) -> Report:
    """Look at every target and report what a stranger finds there.

    Never raises for what a target does: whatever could not be seen is told in the report. Files are read
    as the caller; commands run as the caller, with the environment that the SDK's client passes on.

    Raises:
        ValueError: a target's kind is unknown.
    """
    for target in targets:
        if target.kind not in _KINDS:
            raise ValueError(f"unknown kind of target {target.kind!r}; the kinds are {', '.join(_KINDS)}")
    collectors = [Collector(t.kind, label(t), bounds, file=t.value if _is_file(t) else None) for t in targets]
    cards: dict[int, list[Card]] = {}
    limiter = anyio.Semaphore(_AT_ONCE)

    async def one(index: int, target: Target) -> None:
        async with limiter:
            if target.kind == "host-config":
                probe_host_config(target.value, collectors[index])
            elif target.kind == "card":
                cards[index] = await probe_card(target.value, collectors[index])
            else:
                await probe_server(target, collectors[index])

    async with anyio.create_task_group() as tasks:
        for index, target in enumerate(targets):
            tasks.start_soon(one, index, target)
    for index, seen in cards.items():
        if unseen_extensions(seen) and not _another(seen, cards):
            collectors[index].unaudited(_UNSEEN)
    return Report(tuple(collector.report() for collector in collectors))


def _another(seen: list[Card], cards: dict[int, list[Card]]) -> bool:
    """Whether the run has a second, different card of the same agent: then the extended one was seen."""
    every = [card for group in cards.values() for card in group]
    return all(any(o.name == c.name and o.data != c.data for o in every) for c in seen)


def _is_file(target: Target) -> bool:
    return target.kind == "host-config" or (
        target.kind == "card" and urlsplit(target.value).scheme not in ("http", "https")
    )


_SECRET_OPTION: Final = re.compile(r"(?i)^(--?[\w-]*(?:token|key|secret|password|passwd|auth|header)[\w-]*)(=?)(.*)$")
_ASSIGNMENT: Final = re.compile(r"^([A-Z_][A-Z0-9_]*)=.+$")


def label(target: Target) -> str:
    """The target as a report may show it: without user names, passwords, queries and values of secret options."""
    if target.kind == "mcp":
        return _command_label(target.value)
    if _is_file(target):
        return target.value
    parts = urlsplit(target.value)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, parts.path, "…" if parts.query else "", ""))


def _command_label(command: str) -> str:
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    shown: list[str] = []
    hide_next = False
    for word in words:
        if hide_next and not word.startswith("-"):
            shown.append("…")
            hide_next = False
        elif match := _SECRET_OPTION.match(word):
            shown.append(f"{match[1]}=…" if match[2] else word)
            hide_next = not match[2]
        elif match := _ASSIGNMENT.match(word):
            shown.append(f"{match[1]}=…")
        else:
            shown.append(word)
            hide_next = False
    return " ".join(shown)

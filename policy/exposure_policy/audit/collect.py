"""Turns what a target shows into findings, while it is looked at. Pure: no connection is made here.

A probe may be cut short at any point, by its time limit or by a fault of the target. What it had seen until
then is kept, and the reason is told: that is why findings are gathered here and not returned by the probe.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from .likeness import Offer, judge, offer_of, overlong
from .result import Bounds, Evidence, Finding, TargetReport
from .sets import together

__all__ = ["Collector"]

_LISTS: Final = {
    "tools": "tool",
    "prompts": "prompt",
    "resources": "resource",
    "resourceTemplates": "resource template",
}
# What a result holds besides, by the protocol, that is no text for a reader or is judged by itself.
_PLAIN: Final = frozenset(_LISTS) | {
    *("nextCursor", "serverInfo", "instructions", "_meta", "protocolVersion", "supportedVersions"),
    *("resultType", "ttlMs", "cacheScope"),
}
_MAX_REASONS: Final = 20
# Which evidence is told first: what names the tool, then what only shows that it is one.
_TELLING: Final = ("name", "marker", "identity", "address", "schema", "text", "set")


class Collector:
    """Findings, counts and reasons of one target."""

    def __init__(self, kind: str, label: str, bounds: Bounds, file: str | None = None) -> None:
        self.bounds = bounds
        self._kind = kind
        self._label = label
        self._file = file
        self._findings: dict[str, Finding] = {}
        self._seen: Counter[str] = Counter()
        self._pages: Counter[str] = Counter()
        self._distinct: set[tuple[str, str]] = set()
        self._reasons: list[str] = []
        self._offers: dict[tuple[str, str], Offer] = {}
        """Of an MCP server, as it was last seen: what they are together is judged at the end."""
        self._server = "the server"

    def unaudited(self, reason: str) -> None:
        """Something could not be seen, and why."""
        if reason not in self._reasons and len(self._reasons) < _MAX_REASONS:
            self._reasons.append(reason)

    def result(self, result: Mapping[str, Any]) -> Iterator[None]:
        """The raw result of any request to an MCP server: what it lists or says about itself is judged.

        Yields after each part, so that whoever drives it can stop in between.
        """
        for key, kind in _LISTS.items():
            items = result.get(key)
            if isinstance(items, list):
                self._pages[key] += 1
                page = self._pages[key]
                for item in items[: self.bounds.entries]:
                    if isinstance(item, Mapping):
                        self.offer("mcp", offer_of(kind, item), f", page {page}" if page > 1 else "")
                        yield
        info = result.get("serverInfo")
        meta = result.get("_meta")
        meta = dict(meta) if isinstance(meta, Mapping) else {}
        for key in [key for key in meta if str(key).endswith("/serverInfo")]:
            # The revision without a handshake names the server in every result's metadata instead.
            info = meta.pop(key)
        introduction = dict(info) if isinstance(info, Mapping) else {}
        if isinstance(name := introduction.get("name"), str):
            self._server = name
        if isinstance(instructions := result.get("instructions"), str):
            introduction["instructions"] = instructions
        if meta:
            introduction["_meta"] = dict(own) | meta if isinstance(own := introduction.get("_meta"), Mapping) else meta
        # A field that no version knows is the server's own, whichever of its results has it.
        introduction |= {f"result {key}": value for key, value in result.items() if key not in _PLAIN}
        if introduction:
            self.offer("mcp", offer_of("server", {"name": self._server} | introduction))

    def new_listing(self) -> None:
        """A second pass over the same server starts its pages again."""
        self._pages.clear()

    def offers(self, surface: str, offers: Iterable[Offer], line: Callable[[str], int] | None = None) -> None:
        """What a card shows; `line` tells where in its file a name stands."""
        for offer in offers:
            self.offer(surface, offer, line=line(offer.name) if line is not None else 1)

    def offer(self, surface: str, offer: Offer, page: str = "", line: int = 1) -> None:
        """Judge one offer, and count it once however often it comes."""
        if (offer.kind, offer.name) not in self._distinct:
            self._distinct.add((offer.kind, offer.name))
            self._seen[offer.kind] += 1
        if surface == "mcp":
            self._offers[offer.kind, offer.name] = offer
        if much := overlong(offer):
            self.unaudited(f"not all of the {offer.kind} {offer.name[:80]!r} was judged: {much}; shorten it")
        signs = sorted(judge(offer), key=lambda sign: _TELLING.index(sign.rule))
        if signs:
            evidence = tuple(Evidence(s.rule, s.where + page, s.evidence) for s in signs)
            shown: object = offer.shown
            if offer.kind == "server":  # which tells less of itself in some answers than in others
                shown = {sign.where: offer.shown.get(sign.where) for sign in signs}
            self.finding(Finding(surface, offer.kind, offer.name, signs[0].tool, evidence, line), shown)

    def finding(self, finding: Finding, shown: object) -> None:
        """Keep a finding, with an id over all that its offer shows.

        The same offer seen twice (on another page or in another revision) is told once; another one of the same
        name is another finding, so that accepting the first says nothing of it.
        """
        whole = [self._kind, self._label, finding.surface, finding.kind, finding.name, shown]
        try:
            text = json.dumps(whole, sort_keys=True, default=str)
        except (RecursionError, TypeError):  # nested too deeply, or by keys that are not text
            text = json.dumps([*whole[:-1], [(e.rule, e.where, e.text) for e in finding.evidence]])
        identity = hashlib.sha256(text.encode()).hexdigest()[:16]
        self._findings.setdefault(identity, replace(finding, id=identity))

    def count(self, kind: str, number: int) -> None:
        self._seen[kind] += number

    def report(self) -> TargetReport:
        """What came of it. Once everything was seen, or as much as there will be."""
        if not self._findings and (sign := together(list(self._offers.values()))):
            evidence = (Evidence(sign.rule, sign.where, sign.evidence),)
            names = sorted(name for kind, name in self._offers if kind == "tool")
            self.finding(Finding("mcp", "server", self._server, sign.tool, evidence), names)
        return TargetReport(
            kind=self._kind,
            label=self._label,
            findings=tuple(self._findings.values()),
            unaudited=tuple(self._reasons),
            seen=dict(self._seen),
            file=self._file,
        )

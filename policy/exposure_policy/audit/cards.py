"""Looks at A2A agent cards: in a file, at a URL, or where an agent's host publishes them.

A card is judged as it is on the wire, and must be one that the SDK's own client accepts. A card that says there
is more for those who sign in has a part that a stranger cannot see: that part is asked for without
credentials, and unaudited when it is refused, unless the same run was given it as a file.
"""

import copy
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

import anyio

from ..guards.a2a import card_parts
from .advice import TIME, explain
from .collect import Collector
from .files import ambiguous, line_of, read_text, told
from .likeness import offer_of

if TYPE_CHECKING:
    import httpx2

__all__ = ["Card", "probe_card", "unseen_extensions"]

# Where agents publish their card: the current path, and that of protocol versions before 0.3.
_WELL_KNOWN: Final = (".well-known/agent-card.json", ".well-known/agent.json")
_ABSENT: Final = frozenset((404, 405, 406, 410))
_EXTENDED_METHODS: Final = ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard")
_EXTENDED_PATHS: Final = ("extendedAgentCard", "v1/extendedAgentCard", "v1/card", "agent/authenticatedExtendedCard")


class Card:
    """A card that was seen, for what other targets of the same run need to know of it."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = data
        self.name = str(data.get("name"))


async def probe_card(value: str, collector: Collector) -> list[Card]:
    """Look at one card target, and return the cards that were seen. A failure becomes a reason, never an error."""
    cards: list[Card] = []
    listener = _Told(collector)
    with anyio.move_on_after(collector.bounds.seconds) as limit:
        try:
            if urlsplit(value).scheme in ("http", "https"):
                await _probe_url(value, collector, cards, listener)
            else:
                _probe_file(value, collector, cards)
        except Exception as error:  # noqa: BLE001 - whatever a host provokes is a reason, and the run goes on
            if not listener.failed:
                collector.unaudited(explain(error, "card"))
    if limit.cancelled_caught:
        collector.unaudited(f"it did not finish answering within {collector.bounds.seconds:g} seconds; {TIME}")
    return cards


def unseen_extensions(cards: list[Card]) -> bool:
    """Whether any of these cards says that it has an extended one."""
    return any(_declares_extended(card.data) for card in cards)


def _probe_file(path: str, collector: Collector, cards: list[Card]) -> None:
    try:
        text = read_text(path)
        data = json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        collector.unaudited(f"the file cannot be read as a card: {told(error)}; check its path and its syntax")
        return
    _noted(text, collector)
    _judge(data, collector, cards, lambda name: line_of(text, name))


def _noted(text: str | bytes, collector: Collector) -> None:
    if twice := ambiguous(text):
        collector.unaudited(f"{twice}; mend the card for its clients")


def _judge(data: Any, collector: Collector, cards: list[Card], line: Any = None) -> bool:
    """Judge one parsed answer; False if it is no card."""
    if not isinstance(data, Mapping):
        collector.unaudited("it is not a JSON object, as a card is; give the card itself")
        return False
    collector.offers("a2a", (offer_of(kind, part) for kind, part in card_parts(data)), line)
    if not isinstance(data.get("name"), str) or not isinstance(data.get("skills"), list):
        collector.unaudited("it is not an agent card: a card has a name and a list of skills; complete it")
        return False
    from a2a.client.card_resolver import parse_agent_card

    try:
        parse_agent_card(copy.deepcopy(dict(data)))
    except Exception as error:  # noqa: BLE001 - the SDK raises more than its own errors on hostile cards
        collector.unaudited(f"the SDK does not accept it as a card: {told(error)}; mend it for its clients")
        return False
    cards.append(Card(data))
    return True


class _Told:
    """Tells what the client finds wrong with an answer."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self.failed = False

    def fail(self, reason: str) -> None:
        self.failed = True
        self._collector.unaudited(reason)

    def note(self, reason: str) -> None:
        self._collector.unaudited(reason)


async def _probe_url(url: str, collector: Collector, cards: list[Card], listener: _Told) -> None:
    from .http import client

    # No redirect to elsewhere: what is there is not this agent's.
    async with client(collector.bounds, listener, lambda *_: None) as http:
        exact = urlsplit(url).path.endswith(".json")
        seen = 0
        for candidate in [url] if exact else _candidates(url):
            answer = await _get(http, candidate, collector, wanted=exact)
            if answer is not None:
                seen += 1
                _judge(answer, collector, cards)
        if not seen:
            where = "there" if exact else "there, nor at the well-known paths"
            collector.unaudited(f"no agent card was found {where}; give the URL at which the card itself is")
        for card in list(cards):
            if _declares_extended(card.data):
                await _probe_extended(http, url, card, collector, cards)


def _candidates(url: str) -> list[str]:
    base = url if url.endswith("/") else url + "/"
    found = [urljoin(base, path) for path in _WELL_KNOWN] + [urljoin(base, "/" + path) for path in _WELL_KNOWN]
    return list(dict.fromkeys(found))


async def _get(http: "httpx2.AsyncClient", url: str, collector: Collector, *, wanted: bool) -> Any:
    status, body = await _fetch(http, "GET", url)
    if status in _ABSENT and not wanted:
        return None
    if status != 200:
        hint = "a stranger cannot get it: give it" if status in (401, 403) else "give the card"
        collector.unaudited(f"{_path(url)} answered with status {status}; {hint} as a file")
        return None
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        collector.unaudited(f"{_path(url)} is not JSON, as a card is; give the URL at which the card itself is")
        return None


async def _fetch(http: "httpx2.AsyncClient", method: str, url: str, json_body: Any = None) -> tuple[int, bytes]:
    response = await http.request(method, url, json=json_body)
    return response.status_code, response.content


def _path(url: str) -> str:
    return urlsplit(url).path or "/"


# --- the extended card -------------------------------------------------------------------------------------


def _declares_extended(card: Mapping[str, Any]) -> bool:
    capabilities = card.get("capabilities")
    declared = [card.get(k) for k in ("supportsAuthenticatedExtendedCard", "supports_authenticated_extended_card")]
    if isinstance(capabilities, Mapping):
        declared += [capabilities.get(k) for k in ("extendedAgentCard", "extended_agent_card")]
    return any(value is True for value in declared)


async def _probe_extended(
    http: "httpx2.AsyncClient", url: str, card: Card, collector: Collector, cards: list[Card]
) -> None:
    """Ask for the extended card as a stranger would, at the agent's own origin only."""
    origin = urlsplit(url)
    for endpoint in dict.fromkeys(_endpoints(card.data)):
        there = urljoin(url, endpoint)
        if urlsplit(there)[:2] != origin[:2]:
            continue
        for method in _EXTENDED_METHODS:
            status, body = await _fetch(
                http, "POST", there, {"jsonrpc": "2.0", "id": 1, "method": method, "params": {}}
            )
            answer = _json(body) if status == 200 else None
            if isinstance(answer, Mapping) and isinstance(answer.get("result"), Mapping):
                _judge(answer["result"], collector, cards)
                return
        for path in _EXTENDED_PATHS:
            status, body = await _fetch(http, "GET", there.rstrip("/") + "/" + path)
            answer = _json(body) if status == 200 else None
            if isinstance(answer, Mapping) and "skills" in answer:
                _judge(answer, collector, cards)
                return


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _endpoints(card: Mapping[str, Any]) -> list[str]:
    found = [card.get("url")]
    for key in ("supportedInterfaces", "supported_interfaces", "additionalInterfaces"):
        interfaces = card.get(key)
        if isinstance(interfaces, list):
            found += [i.get("url") for i in interfaces if isinstance(i, Mapping)]
    return [url for url in found if isinstance(url, str)]

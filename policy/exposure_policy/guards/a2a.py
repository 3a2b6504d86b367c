"""Keeps memory off a published A2A agent card. Everything here that knows the `a2a-sdk`'s objects stays here.

A card is plain data with texts, so it is judged as a whole: its own words, every skill, and any card nested in
it. Current protobuf cards, the pydantic and protobuf cards of protocol 0.3, and parsed JSON of any version are
taken. An agent whose skills use memory privately is fine; a skill that offers it is not.

The SDK is never imported here: its objects are recognised by what they can do.
"""

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from ..table import Surface
from .likeness import Offer, offer_of, refuse

__all__ = ["card_data", "card_offers", "check_card", "guard_handler", "guard_modifier"]

Handler = TypeVar("Handler")

# Not words that anybody reads: signatures are base64 of the card itself.
_WORDLESS: Final = frozenset(("signatures", "iconUrl", "icon_url"))
_MAX_DEPTH: Final = 12
_FLAG: Final = "_memory_exposure_guarded"


def check_card(card: object) -> None:
    """Return if `card` offers no memory. Check an extended card the same way.

    Takes an SDK card of either generation, parsed JSON, or JSON text.

    Raises:
        ExposureRefused: the card, one of its skills or a card nested in it offers memory, by name, schema or text.
        TypeError: `card` is not a card.
        ValueError: `card` is text that is not JSON.
    """
    for offer in card_offers(card_data(card)):
        refuse(offer, Surface.A2A)


def guard_handler(handler: "Handler") -> "Handler":
    """Check the cards an SDK request handler serves, now and whenever it answers with its extended card.

    Returns the same handler.

    Raises:
        ExposureRefused: its public or extended card offers memory already.
    """
    held: Any = handler
    for attribute in ("_agent_card", "agent_card", "extended_agent_card"):
        card = getattr(held, attribute, None)
        if card is not None:
            check_card(card)
    if getattr(held, _FLAG, False):
        return handler
    answer = held.on_get_extended_agent_card

    async def on_get_extended_agent_card(*args: Any, **kwargs: Any) -> Any:
        card = await answer(*args, **kwargs)
        check_card(card)
        return card

    held.on_get_extended_agent_card = on_get_extended_agent_card
    setattr(held, _FLAG, True)
    return handler


def guard_modifier(modifier: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Wrap a `card_modifier`: what it returns is checked before it is served."""

    async def checked(*args: Any, **kwargs: Any) -> Any:
        card = await modifier(*args, **kwargs)
        check_card(card)
        return card

    return checked


def card_data(card: object) -> Mapping[str, Any]:
    """A card as plain data, in its JSON form.

    Raises:
        TypeError: `card` is not a card.
        ValueError: `card` is text that is not JSON.
    """
    if isinstance(card, str | bytes | bytearray):
        try:
            card = json.loads(card)
        except RecursionError as error:
            raise ValueError("the card is nested too deeply to be one") from error
    if isinstance(card, Mapping):
        return card
    if hasattr(card, "DESCRIPTOR"):
        from google.protobuf.json_format import MessageToDict

        message: Any = card
        data: Mapping[str, Any] = MessageToDict(message)
        return data
    if hasattr(card, "model_dump"):
        dumped: Mapping[str, Any] = card.model_dump(mode="json", by_alias=True, exclude_none=True)
        return dumped
    raise TypeError(f"an agent card is an SDK card or a JSON object, not {type(card).__name__}")


def card_offers(card: Mapping[str, Any]) -> Iterator[Offer]:
    """What a card shows to strangers: first the card itself, then each skill; cards nested in it likewise."""
    stack: list[tuple[Any, int]] = [(card, 0)]
    first = True
    while stack:
        node, depth = stack.pop()
        if isinstance(node, list):
            stack.extend((item, depth + 1) for item in node if depth < _MAX_DEPTH)
            continue
        if not isinstance(node, Mapping):
            continue
        skills = node.get("skills")
        if first or isinstance(skills, list | Mapping):
            own = {k: v for k, v in node.items() if k != "skills" and k not in _WORDLESS}
            yield offer_of("agent card", own)
            first = False
        for skill in _skills(skills):
            yield offer_of("skill", skill)
        stack.extend((v, depth + 1) for k, v in node.items() if k != "skills" and depth < _MAX_DEPTH)


def _skills(skills: Any) -> Iterator[Mapping[str, Any]]:
    """The skills of a card; in a mapping of skills, which no version knows but a reader understands, by their keys."""
    if isinstance(skills, Mapping):
        skills = [{"id": key, "skill": skill} for key, skill in skills.items()]
    for skill in skills if isinstance(skills, list) else ():
        yield skill if isinstance(skill, Mapping) else {"name": str(skill)}

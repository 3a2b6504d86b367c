"""Keeps memory from A2A peers and off a published agent card. All that knows the `a2a-sdk`'s objects stays here.

While a peer is served, by a request handler, an executor or an ASGI application, the mark of `exposure_policy.serving`
is set, and memory does not answer. A card is judged as a whole: its own fields, every skill, and any card nested in it.
Current protobuf cards, the pydantic and protobuf cards of protocol 0.3, and parsed JSON of any version are taken.

The SDK is never imported here: its objects are recognised by what they can do.
"""

import base64
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

from ..table import Surface
from .asgi import guard_application
from .own_answers import hinted
from .wrap import Guard, guard_of, reclass

__all__ = ["card_data", "card_parts", "check_card", "guard", "guard_modifier"]

Held = TypeVar("Held")

# Not words that anybody reads.
_WORDLESS: Final = frozenset(("signature", "iconUrl", "icon_url"))
_MAX_DEPTH: Final = 12
_MAX_HEADER: Final = 64 * 1024
"""Characters of a signature's protected header that are decoded; a longer one is read as the text that it is."""


def check_card(card: object, *, accept: Mapping[str, str] | None = None) -> None:
    """Return if `card` offers no memory. Check an extended card the same way.

    Takes an SDK card of either generation, parsed JSON, or JSON text. `accept` is that of `guard`.

    Raises:
        ExposureRefused: the card, one of its skills or a card nested in it is memory's by name, schema, mark or index.
        TypeError: `card` is not a card.
        ValueError: `card` is text that is not JSON, or `accept` holds what is no id.
    """
    _check(card, Guard(Surface.A2A, accept))


def guard(held: Held, *, accept: Mapping[str, str] | None = None) -> Held:
    """Keep memory from the peers of an A2A agent. Returns the same object; guarding twice is harmless.

    Takes what serves peers: the SDK's request handler (its executor is guarded with it, and its cards are checked now
    and whenever it answers with one), an agent executor, or the ASGI application of the agent, which also publishes its
    card. While a peer is served, memory does not answer.

    Args:
        accept: findings that somebody has reviewed and found to be no memory: ids from refusals, each with a reason.

    Raises:
        ExposureRefused: a card offers memory already, or the object cannot be wrapped.
        TypeError: it is none of these.
        ValueError: `accept` holds what is no id, or an id without a reason.
    """
    if (made := guard_of(held)) is not None:
        made.accept(accept)
        return held
    made = Guard(Surface.A2A, accept)
    methods = _methods(held)
    if not methods:
        return guard_application(held, made, partial(_check, made=made))
    for attribute in ("_agent_card", "agent_card", "extended_agent_card"):
        card = getattr(held, attribute, None)
        if card is not None:
            _check(card, made)
    executor = getattr(held, "agent_executor", None)
    if executor is not None and guard_of(executor) is None:
        reclass(executor, made, {name: _guarded(type(executor), name, made) for name in _methods(executor)})
    reclass(held, made, {name: _guarded(type(held), name, made) for name in methods})
    return held


def guard_modifier(modifier: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Wrap a `card_modifier`: it runs as what serves a peer, and the card that it returns is checked."""
    made = Guard(Surface.A2A, None)

    async def checked(*args: Any, **kwargs: Any) -> Any:
        card = await made.served("agent card", partial(modifier, *args, **kwargs), _error)
        _check(card, made)
        return card

    return checked


def _methods(held: object) -> list[str]:
    """What peers reach: the methods of a request handler (`on_...`), or those of an executor."""
    names = [name for name in dir(type(held)) if name.startswith("on_") and callable(getattr(type(held), name, None))]
    if "on_message_send" in names:
        return names
    both = ["execute", "cancel"]
    return both if all(callable(getattr(type(held), name, None)) for name in both) else []


def _guarded(kind: type, name: str, made: Guard) -> Callable[..., Any]:
    plain = getattr(kind, name)

    async def answered(self: Any, *args: Any, **kwargs: Any) -> Any:
        async def answer() -> Any:
            for queue in (*args, *kwargs.values()):
                _watch(queue, made)
            result = await plain(self, *args, **kwargs)
            _look_at(name, result, made)
            return result

        return await made.served(name, answer, _error)

    async def streamed(self: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        look_at = partial(_look_at, name, made=made)
        async for event in made.stepped(name, plain(self, *args, **kwargs), look_at, _error):
            yield event

    is_stream = inspect.isasyncgenfunction(plain) or inspect.isasyncgenfunction(inspect.unwrap(plain))
    return streamed if is_stream else answered


def _watch(queue: Any, made: Guard) -> None:
    """Look at each event that is put into the queue that an executor is given, before it is in."""
    kind = type(queue)
    if not hasattr(kind, "enqueue_event") or guard_of(queue) is not None:
        return
    reclass(queue, made, {"enqueue_event": _enqueue_event})


async def _enqueue_event(self: Any, event: Any) -> Any:
    made = guard_of(self)
    assert made is not None  # noqa: S101 - only a guarded queue has this method
    _look_at("event", event, made)
    return await super(type(self), self).enqueue_event(event)


def _look_at(name: str, result: object, made: Guard) -> None:
    if result is None:
        return
    if name == "on_get_extended_agent_card":
        _check(result, made)
    elif hasattr(result, "SerializeToString"):
        # A protobuf message: its texts stand in it as they are, so most need no more than one look.
        if hinted(result.SerializeToString().decode("utf-8", "replace")):
            made.answer(name, card_data(result))
    elif hasattr(result, "model_dump"):
        made.answer(name, result.model_dump(mode="json", by_alias=True, exclude_none=True))


def _error() -> Exception:
    try:
        from a2a.utils.errors import InternalError
    except ImportError:  # another version of the SDK
        return RuntimeError("Internal error")
    return InternalError()


def _check(card: object, made: Guard) -> None:
    for kind, data in card_parts(card_data(card)):
        made.offer(kind, data)


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


def card_parts(card: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
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
            if isinstance(signatures := own.get("signatures"), list):
                own["signatures"] = [_signature_headers(signature) for signature in signatures]
            yield "agent card", own
            first = False
        for skill in _skills(skills):
            yield "skill", skill
        stack.extend((v, depth + 1) for k, v in node.items() if k != "skills" and depth < _MAX_DEPTH)


def _skills(skills: Any) -> Iterator[Mapping[str, Any]]:
    """The skills of a card; in a mapping of skills, which no version knows but a reader understands, by their keys."""
    if isinstance(skills, Mapping):
        skills = [{"id": key, "skill": skill} for key, skill in skills.items()]
    for skill in skills if isinstance(skills, list) else ():
        yield skill if isinstance(skill, Mapping) else {"name": str(skill)}


def _signature_headers(signature: Any) -> Any:
    """What a signature says in words: its headers, of which the protected one is JSON in base64 (RFC 7515)."""
    if not isinstance(signature, Mapping):
        return signature
    headers = {k: v for k, v in signature.items() if k not in _WORDLESS}
    protected = headers.get("protected")
    if isinstance(protected, str) and len(protected) <= _MAX_HEADER:
        with suppress(ValueError, RecursionError):  # then it stays the text that it is
            headers["protected"] = json.loads(base64.urlsafe_b64decode(protected + "=" * (-len(protected) % 4)))
    return headers

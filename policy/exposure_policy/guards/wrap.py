"""What the guards of every SDK share: one object that remembers what was accepted, refuses, marks and tells the log.

An object of an SDK is guarded by giving it a class of its own, made from the one it has. So everything that looks the
object up, by whatever name it holds it, meets the guard; nothing is patched that others use too.
"""

import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar

from ..decide import ExposureRefused
from ..serving import Serving, follow_threads, served
from ..table import Surface
from .names import MAX_NAME
from .own_answers import answer_signs
from .own_signs import name_signs, offer_signs, overlong
from .refuse import refuse

__all__ = ["LOG", "Guard", "guard_of", "held_privately", "reclass"]

LOG: Final = logging.getLogger("exposure_policy")
PRIVATE: Final = "__memory_private__"
"""The class attribute by which the harness library marks what belongs to memory."""

_GUARD: Final = "_exposure_policy_guard"
_EXCERPT: Final = 160
_MAX_CLEAN: Final = 1024
_MAX_KNOWN: Final = 16_384
"""Offers that are remembered as clean, and the characters that one may have: at most 16 MiB, as a rule below one."""
_ID: Final = re.compile(r"[0-9a-f]{16}")
Result = TypeVar("Result")


class Guard:
    """A guard for one surface, and what of its findings somebody has reviewed and accepted."""

    def __init__(self, surface: Surface, accept: Mapping[str, str] | None) -> None:
        self.surface = surface
        self.accepted: dict[str, str] = {}
        self.reviewed: set[str] = set()
        """Names of offers that pass because a finding was accepted: these may be called too."""
        self._clean: set[str] = set()
        self.accept(accept)
        follow_threads()

    def accept(self, accept: Mapping[str, str] | None) -> None:
        """Accept more findings: ids from refusals, each with a reason.

        Raises:
            ValueError: what stands there is no id, or gives no reason.
        """
        for found, reason in (accept or {}).items():
            if not isinstance(found, str) or not _ID.fullmatch(found):
                raise ValueError(f"accept names {found!r}; use the 16 digits of the id that a refusal tells")
            if not isinstance(reason, str) or not reason.strip():
                raise ValueError(f"accept gives no reason for {found}; say in a sentence why it is no memory")
            self.accepted[found] = reason.strip()

    def offer(self, kind: str, data: Mapping[str, Any]) -> None:
        """Raise `ExposureRefused` if what is offered is one of memory's own tools."""
        # A server lists the same again and again; what was clean is known by how it reads.
        text = repr(data)
        if text in self._clean:
            return
        signs = offer_signs(data)
        if len(text) > MAX_NAME and (much := overlong(data)):
            rule = f"{much}, more than can be judged; shorten it"
            raise ExposureRefused(str(data.get("name", kind))[:_EXCERPT], self.surface.value, rule)
        if not signs and len(text) <= _MAX_KNOWN:
            if len(self._clean) >= _MAX_CLEAN:
                self._clean.clear()
            self._clean.add(text)
        if signs:
            name = next((str(data[field]) for field in ("name", "id", "uri", "uriTemplate") if data.get(field)), kind)
            refuse(signs, name, self.surface, kind, data, self.accepted)
            self.reviewed.add(name)

    def asked(self, request: str, name: str) -> None:
        """Raise `ExposureRefused` if what a stranger asks for has the name of one of memory's own tools."""
        if signs := name_signs(name):
            refuse(signs, name, self.surface, request, {"name": name}, self.accepted)

    def handler(self, name: str, handler: object) -> None:
        """Raise `ExposureRefused` if the handler itself is memory's own: a run, a sidecar, or a method of one."""
        if held_privately(handler):
            rule = "it belongs to the harness's memory, which is private to its harness"
            raise ExposureRefused(name, self.surface.value, rule)

    def answer(self, request: str, answer: object) -> None:
        """Raise `ExposureRefused` if an answer, as plain data, holds one of memory's own."""
        for sign in answer_signs(answer):
            refuse((sign,), request, self.surface, "answer", [request, sign.rule, sign.tool], self.accepted)

    async def served(
        self, request: str, answer: Callable[[], Awaitable[Result]], error: Callable[[], Exception]
    ) -> Result:
        """`answer()`, with the mark set. A refusal goes to the log, and to the stranger only `error()`.

        What the refusal says would quote the very text that was refused.
        """
        with Serving(self.surface, request) as serving:
            try:
                result = await answer()
            except ExposureRefused:
                LOG.exception("an answer to %s was withheld", request)
                raise error() from None
            except Exception as failure:
                if not self._may_tell(failure, serving):
                    LOG.exception("an error in answer to %s was withheld", request)
                    raise error() from None
                raise
            finally:
                self.tell(serving)
        return result

    async def stepped(
        self,
        request: str,
        steps: AsyncIterator[Result],
        look_at: Callable[[Result], None],
        error: Callable[[], Exception],
    ) -> AsyncIterator[Result]:
        """The same for an asynchronous generator: the mark is set while it runs, and not while its caller does.

        `look_at` raises `ExposureRefused` for a value that must not go out.
        """

        async def step() -> Result:
            result = await anext(steps)
            look_at(result)
            return result

        try:
            while True:
                try:
                    result = await self.served(request, step, error)
                except StopAsyncIteration:
                    return
                yield result
        finally:
            close = getattr(steps, "aclose", None)
            if close is not None:
                await self.served(request, close, error)

    def failed(self, failed: bool) -> None:
        """Raise `ExposureRefused` if an answer tells of a failure, and memory was asked for in vain on the way to it.

        SDKs put the text of a handler's error into the answer; the refusal's text is for the log.
        """
        mark = served()
        if failed and mark is not None and mark.refused:
            raise ExposureRefused(
                mark.refused[0], self.surface.value, "memory was asked for while a stranger was served"
            )

    def _may_tell(self, failure: Exception, serving: Serving) -> bool:
        """Whether an error may go out: SDKs send its text, and what data it carries, to the stranger.

        One that follows a refusal may quote that in any words. Any other may hold an answer that was kept.
        """
        if isinstance(failure, StopAsyncIteration):
            return True
        if serving.refused:
            return False
        try:
            self.answer("an error", [str(failure), *map(_plain, (*failure.args, *vars(failure).values()))])
        except ExposureRefused:
            return False
        return True

    def tell(self, serving: Serving) -> None:
        """Tell the log what of memory was asked for in vain: a handler may have kept the refusal to itself."""
        if serving.refused:
            what = ", ".join(dict.fromkeys(serving.refused))
            LOG.error("while %s was served, memory was asked for %s and refused", serving.request, what)


def _plain(part: object) -> object:
    """What an error carries as plain data; as Python shows it where that is none, or holds itself."""
    try:
        return json.loads(json.dumps(part, default=_dumped, skipkeys=True))
    except (ValueError, TypeError, RecursionError):
        return str(part)


def _dumped(part: Any) -> object:
    return part.model_dump(by_alias=True) if hasattr(part, "model_dump") else str(part)


def guard_of(held: object) -> Guard | None:
    """The guard of an object, if it has one itself. That its class or another object has one says nothing."""
    found = getattr(held, "__dict__", {}).get(_GUARD)
    return found if isinstance(found, Guard) else None


@lru_cache(maxsize=256)  # one for each kind of queue, of which each message has its own
def _class_of(kind: type, members: tuple[tuple[str, Any], ...]) -> type:
    return type(kind.__name__, (kind,), {"__module__": kind.__module__, "__doc__": kind.__doc__, **dict(members)})


def reclass(held: Any, guard: Guard, members: Mapping[str, Any]) -> None:
    """Give an object a class of its own, which has these members besides its own.

    Raises:
        ExposureRefused: the object does not allow it. What cannot be wrapped is refused, never passed over.
    """
    kind = type(held)
    try:
        held.__class__ = _class_of(kind, tuple(members.items()))  # type: ignore[arg-type]
        held.__dict__[_GUARD] = guard
    except (TypeError, AttributeError, KeyError) as error:
        rule = f"an object of {kind.__module__}.{kind.__qualname__} cannot be wrapped, so memory cannot be kept from it"
        raise ExposureRefused(kind.__name__, guard.surface.value, rule) from error


def held_privately(handler: object) -> bool:
    """Whether a handler is memory's own: marked itself, or bound to or made from what is."""
    seen = 0
    while handler is not None and seen < 10:
        if getattr(handler if isinstance(handler, type) else type(handler), PRIVATE, False) is True:
            return True
        held = getattr(handler, "__dict__", None)
        if isinstance(held, dict) and held.get(PRIVATE) is True:
            return True
        seen += 1
        # A bound method, a partial and a wrapper each stand for one other object.
        wrapped = held.get("__wrapped__") if isinstance(held, dict) else None
        handler = getattr(handler, "__self__", None) or getattr(handler, "func", None) or wrapped
    return False

"""How long one operation of the store waits for the broker, and what its caller is told where that was in vain.

A single request is short (`api.ATTEMPT_SECONDS`) and asked again until the operation's deadline. Who finds the broker
silent listens for it on behalf of all later calls, so that these fail at once instead of waiting one after another.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from ...store.errors import StoreError, StoreFullError, UnavailableError
from .api import ATTEMPT_SECONDS, NO_ROOM, NO_STREAM, Api, NoAnswerError, RefusedError, is_temporary

__all__ = ["AWAY", "CALL_SECONDS", "Patience", "in_time", "left", "not_permitted", "now", "refusal"]

T = TypeVar("T")

CALL_SECONDS: Final = 5.0
"""One operation of the store, retries included: a model waits, an outage is told. A healthy cluster elects a
new leader within it most of the time."""

SHARED_SECONDS: Final = 0.25
"""What a call waits for a broker that an earlier call has found silent and that still is."""

AWAY: Final = (
    "The memory store cannot be reached now. Nothing was changed. Try again in a little while, or go on without memory."
)


class Patience:
    """The waits of the calls on one stream."""

    def __init__(self, api: Api, stream: str) -> None:
        self._api = api
        self._stream = stream
        self._listening: asyncio.Task[None] | None = None
        """Under way from when a call waited in vain until the broker's next word."""

    async def deadline(self) -> float:
        """When a call that begins now gives up.

        Raises:
            UnavailableError: at once, or nearly so: an earlier call has waited in vain, and nothing was heard since.
                Calls of a run are served in order, so their waits would add up.
        """
        listening = self._listening
        if listening is not None and not listening.done():
            await asyncio.wait({listening}, timeout=SHARED_SECONDS)
            if not listening.done():
                raise UnavailableError(AWAY)
        return now() + CALL_SECONDS

    async def ask(self, request: Callable[[], Awaitable[T]], deadline: float) -> T:
        """The answer to something that changes nothing, asked again until the deadline.

        Raises:
            UnavailableError: there was none.
        """
        while True:
            try:
                return await request()
            except RefusedError as error:
                if not is_temporary(error) or now() >= deadline:
                    raise refusal(error) from error
            except NoAnswerError as error:
                if now() >= deadline:
                    self.heard_nothing(error)
                    raise UnavailableError(AWAY) from error
            await asyncio.sleep(0.1)

    def heard_nothing(self, failure: Exception) -> None:
        """A call gave up. If that was for silence, listen for the broker on behalf of the calls to come."""
        if (
            isinstance(failure, NoAnswerError)
            and failure.silent
            and (self._listening is None or self._listening.done())
        ):
            self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        while not self._api.is_closed:
            try:
                await self._api.info(self._stream, ATTEMPT_SECONDS)
                return
            except RefusedError:
                return
            except NoAnswerError as error:
                if not error.silent:
                    return
            await asyncio.sleep(0.1)


def now() -> float:
    """Seconds on the loop's monotonic clock."""
    return asyncio.get_running_loop().time()


def left(deadline: float) -> float:
    """Seconds that one request may take: never more than an attempt, and enough for an answer even at the deadline."""
    return max(0.2, min(ATTEMPT_SECONDS, deadline - now()))


def in_time(deadline: float) -> None:
    """Raise `UnavailableError` if the deadline of a change has passed that was surely not made."""
    if now() >= deadline:
        raise UnavailableError("Other writers kept changing this memory. Nothing was changed. Try again.")


def refusal(error: RefusedError) -> StoreError:
    """A refusal that repeating cannot cure, for the model."""
    if error.error == NO_STREAM:
        return UnavailableError(
            "The memory store is gone: its bucket was deleted. Nothing was changed. "
            "Go on without memory; its operator must make the bucket again."
        )
    if error.error in NO_ROOM:
        return StoreFullError(
            "The memory store has no room left. Nothing was changed. Delete a memory that is no longer needed, "
            "or go on without storing."
        )
    if error.code == 403:
        refused = UnavailableError(
            "The broker does not permit this. Nothing was changed. Go on without it; the operator must allow it."
        )
        refused.remedy = not_permitted(error)
        return refused
    if is_temporary(error):
        return UnavailableError(AWAY)
    return UnavailableError(
        "The memory store refused this. Nothing was changed. Go on without it; its operator must look into it."
    )


def not_permitted(error: RefusedError) -> str:
    """What an operator must allow: the subject, and where all that is needed stands."""
    missing = error.forbidden or "do this"
    own_inbox = ", or set inbox_prefix in the NATS context to where it may" if missing.startswith("subscribe") else ""
    return (
        f"the broker does not permit this user to {missing}; allow that{own_inbox} "
        "(docs/jetstream.md has the table of all that is needed)"
    )

"""How long one operation of the store waits for the broker, and what its caller is told where that was in vain.

A single request is short (`api.ATTEMPT_SECONDS`) and asked again until the operation's deadline. Who finds the broker
silent listens for it on behalf of all later calls, so that these fail at once instead of waiting one after another.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from ...store.errors import StoreError, UnavailableError
from .api import ATTEMPT_SECONDS, Api, NoAnswerError, RefusedError, is_temporary
from .refused import AWAY

__all__ = ["CALL_SECONDS", "Patience", "both", "in_time", "left", "now"]

T = TypeVar("T")
U = TypeVar("U")

CALL_SECONDS: Final = 5.0
"""One operation of the store, retries included: a model waits, an outage is told. A healthy cluster elects a
new leader within it most of the time."""

SHARED_SECONDS: Final = 0.25
"""What a call waits for a broker that an earlier call has found silent and that still is."""


class Patience:
    """The waits of the calls on one stream."""

    def __init__(self, api: Api, stream: str, refusal: Callable[[RefusedError], StoreError]) -> None:
        """`refusal` puts what the broker refused into words."""
        self._api = api
        self._stream = stream
        self._refusal = refusal
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
                    self.heard_nothing(error)
                    raise self._refusal(error) from error
            except NoAnswerError as error:
                if now() >= deadline:
                    self.heard_nothing(error)
                    raise UnavailableError(AWAY) from error
            await asyncio.sleep(0.1)

    def heard_nothing(self, failure: Exception) -> None:
        """A call gave up. If that was in vain, listen for the broker on behalf of the calls to come.

        In vain is silence, and as well a broker that is there and whose JetStream is not.
        """
        in_vain = is_temporary(failure) if isinstance(failure, RefusedError) else isinstance(failure, NoAnswerError)
        if in_vain and (self._listening is None or self._listening.done()):
            self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        while not self._api.is_closed:
            try:
                await self._api.info(self._stream, ATTEMPT_SECONDS)
                return
            except RefusedError as error:
                if not is_temporary(error):
                    return
            except NoAnswerError:
                pass
            await asyncio.sleep(0.1)


async def both(one: Coroutine[Any, Any, T], other: Coroutine[Any, Any, U]) -> tuple[T, U]:
    """Two questions that go out together, in one write. If one fails, the other is given up."""
    task = asyncio.create_task(other)
    try:
        return await one, await task
    finally:
        if not task.cancel() and not task.cancelled():
            task.exception()  # Where both failed, nobody else asks for the second error, and the loop would log it.


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

"""Passes over all that a prefix of a bucket holds, for listings."""

import asyncio
import secrets
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from .api import ATTEMPT_SECONDS, Api, Message, NoAnswerError, RefusedError
from .consumer import consumer

__all__ = ["Scans"]

T = TypeVar("T")

LIST_SECONDS: Final = 20.0
"""One pass of a listing that keeps moving: over a slow link, with bodies that other programs wrote."""

BATCH: Final = 64
"""Messages a pass pulls at once. Two batches are under way: at most 9 MB in memory."""

PATIENCE: Final = 8
"""Batches without a message. The waits after them double, and come to half a second."""

_BAD_REQUEST: Final = 400
"""The code of a server that will not make a consumer: for `max_consumers`, say. A missing permission has another."""


class Scans:
    """Passes over the subjects that match one filter."""

    def __init__(self, api: Api, stream: str, every: str) -> None:
        """`every` matches all the subjects."""
        self._api = api
        self._stream = stream
        self._filter = every

    async def scan(
        self,
        filters: Sequence[str],
        awaited: set[str],
        top: int,
        take: Callable[[Message], T],
        *,
        headers_only: bool,
    ) -> dict[str, T]:
        """One pass over `filters`, or message by message where the bucket takes no further consumer.

        That is for `max_consumers`, and limits that forbid one like ours: the agents of a fleet list at once.
        """
        try:
            return await self._pass(filters, awaited, top, take, headers_only=headers_only)
        except RefusedError as error:
            if error.code != _BAD_REQUEST:
                raise
        return await self._walk(take)

    async def _walk(self, take: Callable[[Message], T]) -> dict[str, T]:
        """Every message under the prefix, asked of the leader one after the other: the last of a subject counts."""
        found: dict[str, T] = {}
        give_up = asyncio.get_running_loop().time() + LIST_SECONDS
        message = await self._api.next(self._stream, self._filter, 1, ATTEMPT_SECONDS)
        while message is not None:
            found[message.subject] = take(message)
            if asyncio.get_running_loop().time() > give_up:
                raise NoAnswerError("the listing is not complete", sent=True)
            message = await self._api.next(self._stream, self._filter, message.sequence + 1, ATTEMPT_SECONDS)
        return found

    async def _pass(
        self,
        filters: Sequence[str],
        awaited: set[str],
        top: int,
        take: Callable[[Message], T],
        *,
        headers_only: bool,
    ) -> dict[str, T]:
        """One pass of a consumer over `filters`: at least every subject of `awaited`, as it was at `top` or later.

        The consumer may live on a member that lags, and keys may be overwritten while it runs, and then come later
        or twice. So it has seen enough when it has passed the leader's newest message and met every key that
        the leader has; not when it falls silent, and not only then, which under constant writes may be never.
        """
        found: dict[str, T] = {}
        missing = set(awaited)
        passed = 0
        now = asyncio.get_running_loop().time
        give_up = now() + LIST_SECONDS
        silent = 0
        async with consumer(
            self._api,
            self._stream,
            "memory-" + secrets.token_hex(8),
            filters,
            headers_only=headers_only,
            batch=BATCH,
            timeout=ATTEMPT_SECONDS,
        ) as puller:
            while missing or passed < top:
                messages = await puller.pull(ATTEMPT_SECONDS)
                for message in messages:
                    found[message.subject] = take(message)
                    missing.discard(message.subject)
                    passed = max(passed, message.sequence)
                if not messages:
                    # A consumer just made may say so for an instant, one on a member that lags for longer.
                    silent += 1
                    await asyncio.sleep(0.001 * 2**silent)
                if silent == PATIENCE or now() > give_up:
                    # Lagging, or what it waits for was purged meanwhile: the caller begins anew.
                    raise NoAnswerError("the listing is not complete", sent=True)
        return found

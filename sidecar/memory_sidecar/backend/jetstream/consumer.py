"""An ephemeral consumer: the one way to get many messages of a stream in one pass on the server. Used by listings.

It is gone when its block ends, however that ends; should its deletion be lost, the server removes it by itself.
"""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from .api import Api, Message, NoAnswerError, RefusedError

if TYPE_CHECKING:
    from nats.aio.msg import Msg

__all__ = ["Puller", "consumer"]

_running: Final[set["asyncio.Task[None]"]] = set()
"""Deletions under way: the loop itself keeps only a weak reference to a task."""


@asynccontextmanager
async def consumer(
    api: Api, stream: str, name: str, filters: Sequence[str], *, headers_only: bool, batch: int, timeout: float
) -> AsyncIterator["Puller"]:
    """An ephemeral consumer of the last message of each matching subject, gone when the block ends."""
    config: dict[str, Any] = {
        "name": name,
        "deliver_policy": "last_per_subject",
        "ack_policy": "none",
        "replay_policy": "instant",
        "headers_only": headers_only,
        "mem_storage": True,
        "num_replicas": 1,
        # Should this process die, or the deletion below be lost, the server removes the consumer itself.
        "inactive_threshold": 10_000_000_000,
    }
    create = f"CONSUMER.CREATE.{stream}.{name}"
    if len(filters) == 1:
        config["filter_subject"] = filters[0]
        create += "." + filters[0]
    else:
        config["filter_subjects"] = list(filters)
    puller = Puller(api, stream, name, batch)
    try:
        await api.call(create, {"stream_name": stream, "config": config}, timeout)
        await puller.start()
        yield puller
    finally:
        # The caller may be cancelled, once or again: the deletion runs on its own and is only waited for.
        deletion = asyncio.create_task(_forget(api, f"CONSUMER.DELETE.{stream}.{name}", puller))
        _running.add(deletion)
        deletion.add_done_callback(_running.discard)
        await asyncio.shield(deletion)


async def _forget(api: Api, subject: str, puller: "Puller") -> None:
    with suppress(RefusedError, NoAnswerError):
        await puller.stop()
        await api.call(subject, {}, 1.0)


class Puller:
    """Pulls what a consumer has, in batches. Two are under way, so that the broker never waits for the client; that
    bounds the client's memory."""

    def __init__(self, api: Api, stream: str, consumer: str, batch: int) -> None:
        nc = api.nc
        self._api = api
        self._nc = nc
        self._subject = f"{api.prefix}.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._earlier = nc.last_error
        self._batch = batch
        self._inbox = nc.new_inbox()
        self._subscription: Any = None
        self._under_way = 0
        self._arrived: deque[Msg] = deque()
        self._more: asyncio.Future[None] | None = None

    async def start(self) -> None:
        import nats.errors

        async def arrived(message: "Msg") -> None:
            self._arrived.append(message)
            if self._more is not None and not self._more.done():
                self._more.set_result(None)

        try:
            self._subscription = await self._nc.subscribe(self._inbox, cb=arrived)
        except nats.errors.Error as error:
            raise NoAnswerError(str(error), sent=False) from error

    async def stop(self) -> None:
        import nats.errors

        if self._subscription is not None:
            with suppress(nats.errors.Error):
                await self._subscription.unsubscribe()

    async def pull(self, timeout: float) -> list[Message]:
        """The next batch; fewer if there are no more. `timeout` is for each wait in between."""
        import nats.errors

        try:
            while self._under_way < 2:
                request = json.dumps({"batch": self._batch, "no_wait": True}).encode()
                await self._nc.publish(self._subject, request, reply=self._inbox)
                self._under_way += 1
        except nats.errors.Error as error:
            raise NoAnswerError(str(error), sent=False) from error
        found: list[Message] = []
        while len(found) < self._batch:
            if not self._arrived:
                self._more = asyncio.get_running_loop().create_future()
                await asyncio.wait({self._more}, timeout=timeout)
                if not self._arrived:
                    silence = NoAnswerError("timed out", sent=True, silent=True)
                    self._api.check_permitted(self._subject, self._earlier, silence)
                    raise silence
            message = self._arrived.popleft()
            # Told by the subject, not by the header alone: a stored message may carry any header.
            if message.subject == self._inbox:
                if (message.headers or {}).get("Status") in ("404", "408"):
                    break
                raise NoAnswerError("the consumer went away", sent=True)
            found.append(_delivered(message))
        self._under_way -= 1
        return found


def _delivered(message: "Msg") -> Message:
    # $JS.ACK.<stream>.<consumer>.<tries>.<stream sequence>..., or with domain and account after ACK.
    tokens = message.reply.split(".")
    sequence = int(tokens[5] if len(tokens) == 9 else tokens[7])
    return Message(message.subject, sequence, message.headers or {}, message.data)

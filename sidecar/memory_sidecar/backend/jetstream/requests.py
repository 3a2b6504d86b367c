"""Requests over the client library in fewer turns of the event loop than it takes itself.

The library hands each request to a task that writes, and each answer to a queue, from there to a task, and from there
to a future; both together are most of what a request on loopback costs. Here what was published in one turn of the
loop is written at its end, in one piece, and an answer goes from the reader to the future that waits for it. All else
is the library's: what may be published and when, the subscription that answers come by, and making it anew.
"""

import asyncio
import secrets
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

__all__ = ["Requests"]


class Requests(Client):
    """The library's client; only `request` and what it rests on are quicker."""

    def __init__(self) -> None:
        super().__init__()
        self._awaited: dict[bytes, asyncio.Future[Msg]] = {}
        """Who waits for an answer, by the subject that it is sent to."""
        self._answers: int | None = None
        """The subscription that answers come by."""
        self._is_writing = False

    async def request(
        self,
        subject: str,
        payload: bytes = b"",
        timeout: float = 0.5,
        old_style: bool = False,  # noqa: ARG002 - of the library's signature
        headers: dict[str, Any] | None = None,
    ) -> Msg:
        """As the library's; `old_style` makes no difference.

        Raises:
            nats.errors.NoRespondersError, nats.errors.TimeoutError, and what `publish` raises.
        """
        if self.is_draining_pubs:
            raise nats.errors.ConnectionDrainingError
        if not self._resp_sub_prefix:
            self._answers = self._sid + 1
            await self._init_request_sub()
        # Nobody who learned the subscription, as from a server's monitoring, can answer in the broker's place.
        name = bytes(self._resp_sub_prefix or b"") + secrets.token_hex(8).encode()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Msg] = loop.create_future()
        self._awaited[name] = answer
        expiry = loop.call_later(timeout, _expire, answer)
        try:
            await self.publish(subject, payload, reply=name.decode(), headers=headers)
            message = await answer
        finally:
            expiry.cancel()
            del self._awaited[name]
        if message.headers and message.headers.get("Status") == "503":
            raise nats.errors.NoRespondersError
        return message

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        if sid != self._answers:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        answer = self._awaited.get(bytes(subject))
        if answer is None or answer.done():
            return
        parsed = await self._process_headers(headers)
        answer.set_result(self._build_message(sid, subject, reply, data, parsed))

    async def _flush_pending(self, force_flush: bool = False) -> Any:
        # Where a write may have to wait, for room or for a connection, the library's own task does it.
        if force_flush or not self.is_connected or self._is_behind():
            return await super()._flush_pending(force_flush)
        if not self._is_writing:
            self._is_writing = True
            asyncio.get_running_loop().call_soon(self._write)
        return None

    def _write(self) -> None:
        self._is_writing = False
        if self._pending and self.is_connected and self._transport:
            pending, self._pending, self._pending_data_size = self._pending, [], 0
            self._transport.writelines(pending)

    def _is_behind(self) -> bool:
        """Whether the socket has not taken yet what was written before."""
        writer = getattr(self._transport, "_io_writer", None)
        return writer is None or writer.transport.get_write_buffer_size() > 0


def _expire(answer: asyncio.Future[Msg]) -> None:
    if not answer.done():
        answer.set_exception(nats.errors.TimeoutError())

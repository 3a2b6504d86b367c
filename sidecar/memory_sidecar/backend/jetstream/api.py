"""The few JetStream requests this product makes, as the server defines them. Nothing here knows about notes.

Plain requests, not the client library's KV classes: those hide which member of a cluster answered, give one
error for two operations, and buffer writes while disconnected. Every failure leaves here as one of two facts:
`RefusedError`, the server said no, or `NoAnswerError`, which says whether anything may have been sent. What
either means for an operation is the store's business.
"""

import asyncio
import base64
import json
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.msg import Msg

__all__ = [
    "ATTEMPT_SECONDS",
    "CONFLICT",
    "NO_ROOM",
    "NO_STREAM",
    "Api",
    "Message",
    "NoAnswerError",
    "RefusedError",
    "StreamInfo",
    "is_temporary",
]

ATTEMPT_SECONDS: Final = 1.5
"""One request. Short, because the answer to a lost one is to look and ask again."""

NO_STREAM: Final = 10059
_NO_MESSAGE: Final = 10037

CONFLICT: Final = frozenset({10071, 10164})
"""The expected sequence is not the last one. A replicated stream answers the second while another write of the
subject is still under way, which may even be an earlier attempt of the caller's own."""

NO_ROOM: Final = frozenset({10002, 10023, 10028, 10047, 10077})
"""Refusals by a limit of the bucket, the account or the server. Some come with a code that says temporary."""

_POLL_SECONDS: Final = 0.05
"""How often a wait for the connection to come back looks again; the library offers no event for it."""

_HEADER_LINE: Final = b"NATS/1.0"


class RefusedError(Exception):
    """The server answered with an error. `code` is HTTP-like, `error` the server's own number.

    `forbidden` is what a user is not permitted, as in "publish to SUBJECT"; empty for any other refusal.
    """

    def __init__(self, code: int, error: int, description: str, forbidden: str = "") -> None:
        self.code = code
        self.error = error
        self.forbidden = forbidden
        super().__init__(f"JetStream refused: {description} ({error})")


class NoAnswerError(Exception):
    """No answer came. `sent` is False only when the request surely reached no stream."""

    def __init__(self, why: str, *, sent: bool, served: bool = True, silent: bool = False) -> None:
        self.sent = sent
        self.served = served
        """False when the broker said that nobody serves this subject."""
        self.silent = silent
        """True when nothing at all was heard."""
        super().__init__(why)


def is_temporary(error: RefusedError) -> bool:
    """Whether asking again can help: an election, a server that starts, a stream without a quorum."""
    return error.code == 503 and error.error not in NO_ROOM


class Message(NamedTuple):
    """A stored message."""

    subject: str
    sequence: int
    headers: Mapping[str, str]
    data: bytes
    time: str = ""
    """When it was stored, to the nanosecond; only from `last` and `next`."""


class StreamInfo(NamedTuple):
    """What a stream's leader says about it. `subjects` is filled only when asked for."""

    config: Mapping[str, Any]
    created: str
    last_sequence: int
    subject_count: int
    replicas: int
    subjects: frozenset[str]


class Api:
    """Requests over a borrowed connection. `timeout` is the seconds one attempt may take."""

    def __init__(self, nc: "Client", *, domain: str | None = None, api_prefix: str | None = None) -> None:
        self._nc = nc
        prefix = api_prefix or (f"$JS.{domain}.API" if domain else "$JS.API")
        self._prefix = prefix.rstrip(".")
        # A broker maps KV subjects under a foreign API prefix to the domain that the prefix leads to.
        self._publish_prefix = "" if self._prefix == "$JS.API" else self._prefix + "."

    @property
    def checks_prefixes(self) -> bool:
        """Whether the server can check, as it stores a message, the last one under a whole prefix (2.12 and later)."""
        version = self._nc.connected_server_version
        return (version.major, version.minor) >= (2, 12)

    @property
    def is_closed(self) -> bool:
        """Whether the connection was closed for good."""
        return self._nc.is_closed

    @property
    def connection(self) -> int:
        """Another number each time the connection was made anew."""
        return int(self._nc.stats["reconnects"])

    async def info(self, stream: str, timeout: float, *, subjects: str | None = None) -> StreamInfo:
        """The stream's configuration and state; with `subjects`, also which subjects matching it exist."""
        found: set[str] = set()
        while True:
            body = {} if subjects is None else {"subjects_filter": subjects, "offset": len(found)}
            answer = await self._call(f"STREAM.INFO.{stream}", body, timeout)
            state = answer["state"]
            page = state.get("subjects") or {}
            found.update(page)
            # The server lists at most 100,000 subjects in one answer.
            if not page or len(found) >= int(answer.get("total") or 0):
                break
        return StreamInfo(
            config=answer["config"],
            created=str(answer["created"]),
            last_sequence=int(state["last_seq"]),
            subject_count=int(state.get("num_subjects") or 0),
            replicas=int(answer["config"].get("num_replicas") or 1),
            subjects=frozenset(found),
        )

    async def last(self, stream: str, subject: str, timeout: float) -> Message | None:
        """The newest message whose subject matches, as the stream's leader has it. None if there is none."""
        return await self._message(stream, {"last_by_subj": subject}, timeout)

    async def next(self, stream: str, subject: str, sequence: int, timeout: float) -> Message | None:
        """The first message at `sequence` or after whose subject matches, as the stream's leader has it."""
        return await self._message(stream, {"seq": sequence, "next_by_subj": subject}, timeout)

    async def _message(self, stream: str, wanted: Mapping[str, Any], timeout: float) -> Message | None:
        # Never a direct get: any member answers that one, also one that lags.
        try:
            answer = await self._call(f"STREAM.MSG.GET.{stream}", wanted, timeout)
        except RefusedError as error:
            if error.error == _NO_MESSAGE:
                return None
            raise
        found = answer["message"]
        return Message(
            str(found["subject"]),
            int(found["seq"]),
            _headers(base64.b64decode(found.get("hdrs") or "")),
            base64.b64decode(found.get("data") or ""),
            str(found["time"]),
        )

    async def publish(self, subject: str, data: bytes, headers: Mapping[str, str], timeout: float) -> int:
        """Store a message and return its sequence."""
        message = await self._request(self._publish_prefix + subject, data, timeout, headers)
        answer = _answer(message)
        if "seq" not in answer:
            # Somebody else's subscriber answered; whether the stream took it is unknown.
            raise NoAnswerError("not an acknowledgement", sent=True)
        return int(answer["seq"])

    @asynccontextmanager
    async def consumer(
        self, stream: str, name: str, filters: Sequence[str], *, headers_only: bool, batch: int, timeout: float
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
        puller = Puller(self, self._nc, f"{self._prefix}.CONSUMER.MSG.NEXT.{stream}.{name}", batch)
        try:
            await self._call(create, {"stream_name": stream, "config": config}, timeout)
            await puller.start()
            yield puller
        finally:
            # The caller may be cancelled, once or again: the deletion runs on its own and is only waited for.
            deletion = asyncio.create_task(self._forget(f"CONSUMER.DELETE.{stream}.{name}", puller))
            _running.add(deletion)
            deletion.add_done_callback(_running.discard)
            await asyncio.shield(deletion)

    async def _forget(self, subject: str, puller: "Puller") -> None:
        with suppress(RefusedError, NoAnswerError):
            await puller.stop()
            await self._call(subject, {}, 1.0)

    async def _call(self, subject: str, body: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        data = json.dumps(body).encode() if body else b""
        return _answer(await self._request(f"{self._prefix}.{subject}", data, timeout, None))

    async def _request(self, subject: str, data: bytes, timeout: float, headers: Mapping[str, str] | None) -> "Msg":
        import nats.errors

        nc = self._nc
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while not nc.is_connected:
            if nc.is_closed or loop.time() >= deadline:
                raise NoAnswerError("not connected", sent=False, silent=True)
            await asyncio.sleep(_POLL_SECONDS)
        earlier = nc.last_error
        try:
            return await nc.request(
                subject,
                data,
                timeout=max(0.1, deadline - loop.time()),
                headers=dict(headers) if headers else None,
            )
        except nats.errors.NoRespondersError as error:
            raise NoAnswerError("nobody serves this subject", sent=False, served=False) from error
        except (
            nats.errors.MaxPayloadError,
            nats.errors.OutboundBufferLimitError,
            nats.errors.ConnectionClosedError,
            nats.errors.ConnectionDrainingError,
            nats.errors.BadSubjectError,
        ) as error:
            raise NoAnswerError(str(error), sent=False) from error
        except (nats.errors.Error, TimeoutError, OSError) as error:
            self.check_permitted(subject, earlier, error)
            raise NoAnswerError("timed out", sent=True, silent=True) from error

    def check_permitted(self, subject: str, earlier: Exception | None, cause: BaseException) -> None:
        """Raise `RefusedError` if the broker said that this request, or hearing any answer, is not permitted.

        `earlier` is the last error that was known before the request. Such a refusal comes by itself, not as an answer.
        """
        latest = self._nc.last_error
        text = str(latest).lower()
        if "permissions violation" not in text:
            return
        inbox = self._nc.new_inbox().rpartition(".")[0]
        # Said once, when the library subscribes before its first request; the error stays.
        if "permissions violation for subscription" in text and inbox.lower() in text:
            forbidden = f"subscribe to {inbox}.>"
        elif latest is not earlier and subject.lower() in text:
            forbidden = f"publish to {_as_granted(subject)}"
        else:
            return
        raise RefusedError(403, 0, f"no permission to {forbidden}", forbidden) from cause


def _as_granted(subject: str) -> str:
    """The subject that a permission names: without what differs from one listing to the next."""
    head, consumer, rest = subject.partition(".CONSUMER.")
    tokens = rest.split(".")
    count = 3 if tokens[0] == "MSG" else 2
    return f"{head}{consumer}{'.'.join(tokens[:count])}.>" if consumer else subject


_running: Final[set["asyncio.Task[None]"]] = set()
"""Deletions under way: the loop itself keeps only a weak reference to a task."""


class Puller:
    """Pulls what a consumer has, in batches. Two are under way, so that the broker never waits for the client; that
    bounds the client's memory."""

    def __init__(self, api: Api, nc: "Client", subject: str, batch: int) -> None:
        self._api = api
        self._nc = nc
        self._subject = subject
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


def _answer(message: "Msg") -> dict[str, Any]:
    try:
        answer = json.loads(message.data)
    except (ValueError, RecursionError) as error:
        raise NoAnswerError("not a JetStream answer", sent=True) from error
    if not isinstance(answer, dict):
        raise NoAnswerError("not a JetStream answer", sent=True)
    if refusal := answer.get("error"):
        raise RefusedError(
            int(refusal.get("code") or 0), int(refusal.get("err_code") or 0), str(refusal.get("description") or "")
        )
    return answer


def _headers(raw: bytes) -> dict[str, str]:
    found = {}
    for line in raw.removeprefix(_HEADER_LINE).split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon:
            found[name.strip().decode("ascii", "replace")] = value.strip().decode("utf-8", "replace")
    return found

"""The few JetStream requests this product makes, as the server defines them. Nothing here knows about notes.

Plain requests, not the client library's KV classes: those hide which member of a cluster answered, give one
error for two operations, and buffer writes while disconnected. Every failure leaves here as one of two facts:
`RefusedError`, the server said no, or `NoAnswerError`, which says whether anything may have been sent. What
either means for an operation is the store's business.
"""

import asyncio
import base64
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...named_tuple import NamedTuple
from .events import without_keys

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
        self.for_log = f"code {code}, error {error}" + ("" if forbidden else f", {description}")
        super().__init__(f"JetStream refused: {description} ({error})")


class NoAnswerError(Exception):
    """No answer came. `sent` is False only when the request surely reached no stream."""

    def __init__(self, why: str, *, sent: bool, served: bool = True, silent: bool = False) -> None:
        self.sent = sent
        self.served = served
        """False when the broker said that nobody serves this subject."""
        self.silent = silent
        """True when nothing at all was heard."""
        self.for_log = why
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
    messages: int = 0
    stored_bytes: int = 0
    """What the messages take, as the bucket's `max_bytes` counts it."""
    peers: Sequence[Mapping[str, Any]] = ()
    """The other replicas, as the leader sees them: `name`, `current`, `offline`, `active`, `lag`."""


class Api:
    """Requests over a borrowed connection. `timeout` is the seconds one attempt may take."""

    def __init__(self, nc: "Client", *, domain: str | None = None, api_prefix: str | None = None) -> None:
        self.nc = nc
        prefix = api_prefix or (f"$JS.{domain}.API" if domain else "$JS.API")
        self.prefix = prefix.rstrip(".")
        # A broker maps KV subjects under a foreign API prefix to the domain that the prefix leads to.
        self._publish_prefix = "" if self.prefix == "$JS.API" else self.prefix + "."

    @property
    def checks_prefixes(self) -> bool:
        """Whether the server can check, as it stores a message, the last one under a whole prefix (2.12 and later)."""
        version = self.nc.connected_server_version
        return (version.major, version.minor) >= (2, 12)

    @property
    def is_closed(self) -> bool:
        """Whether the connection was closed for good."""
        return self.nc.is_closed

    @property
    def connection(self) -> int:
        """Another number each time the connection was made anew."""
        return int(self.nc.stats["reconnects"])

    async def info(self, stream: str, timeout: float, *, subjects: str | None = None) -> StreamInfo:
        """The stream's configuration and state; with `subjects`, also which subjects matching it exist."""
        found: set[str] = set()
        while True:
            body = {} if subjects is None else {"subjects_filter": subjects, "offset": len(found)}
            answer = await self.call(f"STREAM.INFO.{stream}", body, timeout)
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
            messages=int(state.get("messages") or 0),
            stored_bytes=int(state.get("bytes") or 0),
            peers=tuple((answer.get("cluster") or {}).get("replicas") or ()),
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
            answer = await self.call(f"STREAM.MSG.GET.{stream}", wanted, timeout)
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

    async def purge(self, stream: str, subject: str, before: int, timeout: float) -> int:
        """Remove the messages of `subject` whose sequence is below `before`; how many those were."""
        answer = await self.call(f"STREAM.PURGE.{stream}", {"filter": subject, "seq": before}, timeout)
        return int(answer.get("purged") or 0)

    async def call(self, subject: str, body: Mapping[str, Any], timeout: float) -> dict[str, Any]:
        """The answer to one request of the API; `subject` without the prefix."""
        data = json.dumps(body).encode() if body else b""
        return _answer(await self._request(f"{self.prefix}.{subject}", data, timeout, None))

    async def _request(self, subject: str, data: bytes, timeout: float, headers: Mapping[str, str] | None) -> "Msg":
        import nats.errors

        nc = self.nc
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while not nc.is_connected:
            if nc.is_closed or loop.time() >= deadline:
                raise NoAnswerError(f"not connected, so {_shown(subject)} was not asked", sent=False, silent=True)
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
            raise NoAnswerError(f"nobody serves {_shown(subject)}", sent=False, served=False) from error
        except (
            nats.errors.MaxPayloadError,
            nats.errors.OutboundBufferLimitError,
            nats.errors.ConnectionClosedError,
            nats.errors.ConnectionDrainingError,
            nats.errors.BadSubjectError,
        ) as error:
            raise NoAnswerError(f"{error}, asking {_shown(subject)}", sent=False) from error
        except (nats.errors.Error, TimeoutError, OSError) as error:
            self.check_permitted(subject, earlier, error)
            raise NoAnswerError(f"{_shown(subject)} timed out", sent=True, silent=True) from error

    def check_permitted(self, subject: str, earlier: Exception | None, cause: BaseException) -> None:
        """Raise `RefusedError` if the broker said that this request, or hearing any answer, is not permitted.

        `earlier` is the last error that was known before the request. Such a refusal comes by itself, not as an answer.
        """
        latest = self.nc.last_error
        text = str(latest).lower()
        if "permissions violation" not in text:
            return
        inbox = self.nc.new_inbox().rpartition(".")[0]
        # Said once, when the library subscribes before its first request; the error stays.
        if "permissions violation for subscription" in text and inbox.lower() in text:
            forbidden = f"subscribe to {inbox}.>"
        elif latest is not earlier and (named := self._named(subject, text)):
            forbidden = f"publish to {_as_granted(named)}"
        else:
            return
        raise RefusedError(403, 0, f"no permission to {forbidden}", forbidden) from cause

    def _named(self, subject: str, text: str) -> str | None:
        """As what a refusal names a subject, if it does. A server of the domain itself names it without the domain."""
        _, prefix, rest = subject.rpartition(f"{self.prefix}.")
        within = rest if rest.startswith("$KV.") else f"$JS.API.{rest}"
        names = (subject, within) if prefix else (subject,)
        return next((name for name in names if name.lower() in text), None)


def _as_granted(subject: str) -> str:
    """The subject that a permission names: without what differs from one listing to the next."""
    head, consumer, rest = subject.partition(".CONSUMER.")
    tokens = rest.split(".")
    count = 3 if tokens[0] == "MSG" else 2
    return f"{head}{consumer}{'.'.join(tokens[:count])}.>" if consumer else subject


def _shown(subject: str) -> str:
    return without_keys(_as_granted(subject))


def _answer(message: "Msg") -> dict[str, Any]:
    try:
        answer = json.loads(message.data)
    except (ValueError, RecursionError) as error:
        raise NoAnswerError("not a JetStream answer", sent=True) from error
    if not isinstance(answer, dict):
        raise NoAnswerError("not a JetStream answer", sent=True)
    if refusal := answer.get("error"):
        told = refusal if isinstance(refusal, dict) else {}
        code, number = (value if isinstance(value := told.get(name), int) else 0 for name in ("code", "err_code"))
        raise RefusedError(code, number, str(told.get("description") or ""))
    return answer


def _headers(raw: bytes) -> dict[str, str]:
    found = {}
    for line in raw.removeprefix(_HEADER_LINE).split(b"\r\n"):
        name, colon, value = line.partition(b":")
        if colon:
            found[name.strip().decode("ascii", "replace")] = value.strip().decode("utf-8", "replace")
    return found

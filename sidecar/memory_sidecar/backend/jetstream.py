"""Notes in a JetStream KV bucket that the operator owns: bound, never created, and shared by a fleet.

Everything rests on one fact of the server: a publish that names the sequence it expects its subject to be at
is applied exactly when that is so. Hence every write here is a compare and swap, also those that need no
authority; a write whose confirmation is lost is sent again without danger; and what happened is decided by looking
at what is stored, never by the kind of error alone. Looking means asking the stream's leader: other members of a
cluster lag.
"""

import asyncio
import hashlib
import json
import random
import re
import secrets
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from .. import nats_context
from ..store.contract import Entry, Info, Item
from ..store.document import UNREADABLE, parse, parse_description, serialize
from ..store.errors import (
    KeyExistsError,
    KeyNotFoundError,
    OutcomeUnknownError,
    StaleError,
    StoreError,
    StoreFullError,
    UnavailableError,
    UnreadableError,
)
from ..store.rules import (
    MAX_DESCRIPTION,
    MAX_ENTRIES,
    MAX_ENTRY_BYTES,
    check_capacity,
    is_key,
    one_line,
    validate_key,
    validate_write,
)
from ..store.scope import Scope
from .jetstream_api import (
    CONFLICT,
    NO_ROOM,
    NO_STREAM,
    Api,
    Message,
    NoAnswerError,
    RefusedError,
    StreamInfo,
    is_temporary,
)
from .opened import BackendError, Opened

if TYPE_CHECKING:
    from nats.aio.client import Client

__all__ = [
    "JetStreamOptions",
    "JetStreamStore",
    "bind",
    "inspect_jetstream",
    "nesting",
    "open_jetstream",
    "resolve_prefix",
]

T = TypeVar("T")

BIND_SECONDS: Final = 10.0
"""The whole of `bind`: a wrong name surfaces at the start of a run instead of hanging it."""

CALL_SECONDS: Final = 5.0
"""One operation of the store, retries included: a model waits, an outage is told. A healthy cluster elects a
new leader within it most of the time."""

ATTEMPT_SECONDS: Final = 1.5
"""One request. Short, because the answer to a lost one is to look and ask again."""

LIST_SECONDS: Final = 20.0
"""One pass of a listing that keeps moving: over a slow link, with bodies that other programs wrote."""

LAG_SECONDS: Final = 1.5
"""How long a new leader may not know yet what an earlier one acknowledged. After that, a revision beyond the end
of the stream is taken for one that was never given."""

BATCH: Final = 128
"""Messages a listing pulls at once: at most 9 MB in memory."""

UNGUARDED: Final = 64
"""Creates that may be under way at once without ever exceeding the capacity. See `JetStreamStore.create`."""

_BUCKET: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
_REVISION: Final = re.compile(r"([1-9][0-9]{0,19})(?:@(.{1,64}))?")

_OPERATION: Final = "KV-Operation"
_MARKER_REASON: Final = "Nats-Marker-Reason"
_EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
_EXPECTED_OF: Final = "Nats-Expected-Last-Subject-Sequence-Subject"
_WRITE: Final = "Memory-Write"
"""Our own header: names one write, so that its writer knows it again when the confirmation is lost. Not
`Nats-Msg-Id`, whose deduplication depends on a window that the operator sets."""
_DESCRIPTION: Final = "Memory-Description"
"""Our own header: lets a listing leave bodies at the broker. The document stays the truth; what other programs
write has no such header and is read in full."""

_HEADER_BYTES: Final = 100 + 100 + 512
"""More than all our headers but the description take: the write's id, what it expects, and where."""

_AWAY: Final = (
    "The memory store cannot be reached now. Nothing was changed. Try again in a little while, or go on without memory."
)


class JetStreamOptions(NamedTuple):
    """`harness.memory.options` of the JetStream backend."""

    bucket: str
    """The KV bucket, which must exist."""
    prefix: str | None = None
    """Before every key, with a dot between: the identity if omitted; "" for none."""
    no_require_read_before_update: bool = False
    """Allow overwriting what this run has not read."""


def resolve_prefix(options: JetStreamOptions, identity: str) -> str:
    """The prefix in force, "" for a flat bucket.

    Raises:
        BackendError: the bucket, the prefix or the identity that stands in for it is not legal.
    """
    if _BUCKET.fullmatch(options.bucket) is None:
        raise BackendError(
            f"harness.memory.options.bucket {options.bucket!r:.80} is not the name of a KV bucket; "
            "use letters, digits, _ and -"
        )
    if options.prefix is None:
        if not is_key(identity):
            raise BackendError(
                f"the identity {identity!r:.80} cannot be a key prefix; set identity to letters, digits and "
                "_ = - or set harness.memory.options.prefix"
            )
        return identity
    if options.prefix and not is_key(options.prefix):
        raise BackendError(
            f"harness.memory.options.prefix {options.prefix!r:.80} is not legal; use letters, digits and . _ = - "
            'with no dot at either end, or "" for none'
        )
    return options.prefix


def nesting(prefix: str, others: Iterable[str] = ()) -> list[str]:
    """What an operator must know about who shares keys with `prefix`, one sentence each; [] if nobody can.

    A stored name is prefix, dot, key, and keys may hold dots: `a` with key `b.c` and `a.b` with key `c` are one
    and the same. `others` are further prefixes in use, as far as they are known.
    """
    notes = []
    if not prefix:
        notes.append("the flat prefix sees, and may change, the keys of every other prefix of the bucket")
    parts = prefix.split(".")
    for length in range(1, len(parts)):
        outer = ".".join(parts[:length])
        notes.append(f"agents with the prefix {outer} see, and may change, these keys too")
    for other in sorted(set(others)):
        if prefix and other.startswith(prefix + "."):
            notes.append(f"this prefix sees, and may change, the keys of the prefix {other}")
        elif not other and prefix:
            notes.append("agents with the flat prefix see, and may change, these keys too")
    return notes


async def bind(
    nc: "Client",
    options: JetStreamOptions,
    *,
    identity: str,
    context_name: str | None = None,
    domain: str | None = None,
    api_prefix: str | None = None,
) -> Opened:
    """Bind to the bucket over a connection that stays the caller's. Never creates or changes a bucket.

    Takes at most ten seconds. `context_name` is for the commands in remedies; `domain` or `api_prefix`
    lead to the JetStream that holds the bucket.

    Raises:
        BackendError: the bucket cannot be used; the text holds the remedy.
    """
    prefix = resolve_prefix(options, identity)
    bucket = options.bucket
    api = Api(nc, domain=domain, api_prefix=api_prefix)
    info = await _bind_info(api, bucket, context_name)
    for refusal in refusals(bucket, info.config, context_name):
        raise BackendError(refusal)
    store = JetStreamStore(
        api,
        bucket,
        prefix,
        created=info.created,
        blind=options.no_require_read_before_update,
    )
    identifying = json.dumps([bucket, prefix, info.created]).encode()
    return Opened(store, "jetstream:" + hashlib.blake2b(identifying, digest_size=16).hexdigest())


class Connected(NamedTuple):
    """An open store and its connection, which the caller owns."""

    opened: Opened
    close: Callable[[], Coroutine[Any, Any, None]]
    """Closes the connection within two seconds, whatever the broker does."""
    ports: tuple[int, ...]
    """The TCP ports that staying connected needs: those of the cluster's members known now, and of name servers."""


async def open_jetstream(options: JetStreamOptions, *, identity: str, context: str | None) -> Connected:
    """Connect as the NATS context says and bind: each of the two steps takes at most ten seconds.

    `context` None stands for NATS_CONTEXT or the selected context.

    Raises:
        BackendError: there is no connection or no usable bucket; the text holds the remedy.
    """
    resolve_prefix(options, identity)  # What is wrong without looking at a broker is told without one.
    try:
        loaded = nats_context.load(context)
        nc = await nats_context.connect(loaded)
    except nats_context.ContextError as error:
        raise BackendError(str(error)) from error

    async def close() -> None:
        await nats_context.close(nc)

    try:
        opened = await bind(
            nc,
            options,
            identity=identity,
            context_name=loaded.name,
            domain=loaded.jetstream_domain or None,
            api_prefix=loaded.jetstream_api_prefix or None,
        )
    except BaseException:
        await close()
        raise
    return Connected(opened, close, nats_context.ports(loaded, nc))


def add_command(bucket: str, context_name: str | None) -> str:
    """The command that makes the bucket as this backend wants it, ready to paste."""
    context = f" --context {context_name}" if context_name else ""
    return f"nats{context} kv add {bucket} --history=1 --max-value-size={MAX_ENTRY_BYTES}"


async def _bind_info(api: Api, bucket: str, context_name: str | None) -> StreamInfo:
    deadline = _now() + BIND_SECONDS
    absent = 0
    while True:
        left = max(0.1, deadline - _now())
        try:
            # The client library can wait on its own, out of reach of one request's limit.
            async with asyncio.timeout(left):
                return await api.info(f"KV_{bucket}", min(3.0, left))
        except RefusedError as error:
            absent += error.error in _JETSTREAM_OFF
            if not is_temporary(error) or left < 1.0 or absent > ABSENT:
                raise BackendError(_bind_refusal(error, bucket, context_name)) from error
        except NoAnswerError as error:
            absent += not error.served
            if absent > ABSENT:
                raise BackendError(
                    "JetStream does not answer on this connection; enable it on the server and for this account, "
                    "or check jetstream_domain and jetstream_api_prefix in the NATS context"
                ) from error
            if left < 1.0:
                raise BackendError(_UNREACHABLE) from error
        except TimeoutError as error:
            raise BackendError(_UNREACHABLE) from error
        await asyncio.sleep(0.25)


ABSENT: Final = 8
"""How many answers, a quarter of a second apart, say that JetStream is off and not merely starting."""

_JETSTREAM_OFF: Final = frozenset({10039, 10076})

_UNREACHABLE: Final = (
    f"the NATS broker did not answer within {BIND_SECONDS:.0f} seconds; check that it runs, that the NATS context "
    "points to it and that its permissions allow the JetStream API"
)


def _bind_refusal(error: RefusedError, bucket: str, context_name: str | None) -> str:
    if error.error == NO_STREAM:
        return f'KV bucket "{bucket}" does not exist; create it with: {add_command(bucket, context_name)}'
    if error.code == 403:
        return (
            f'no permission to use the KV bucket "{bucket}"; allow this user to publish to '
            f"$JS.API.STREAM.INFO.KV_{bucket} and the like (see the documentation) and to subscribe to its inbox "
            "(inbox_prefix in the NATS context)"
        )
    if error.error in _JETSTREAM_OFF:
        return (
            "JetStream is not enabled for this account; enable it on the server, or use a NATS context of an "
            "account that has it"
        )
    return f'the KV bucket "{bucket}" cannot be used: {error}; check the state of JetStream on the server'


def refusals(bucket: str, config: Mapping[str, Any], context_name: str | None) -> list[str]:
    """Why a bucket of these settings is refused, with the remedy each; none if it will do.

    Refused is what would lose memories, or refuse to store them, behind the agents' back.
    """
    context = f" --context {context_name}" if context_name else ""
    edit, anew = f"nats{context} stream edit KV_{bucket}", add_command(bucket, context_name)
    return [
        f'KV bucket "{bucket}" {what}; {remedy.format(edit=edit, anew=anew)}'
        for what, remedy in (*_losses(config), *_obstacles(bucket, config))
    ]


async def inspect_jetstream(
    options: JetStreamOptions, *, identity: str, context: str | None
) -> tuple[dict[str, Any], list[str]]:
    """Bind as a run would, and tell the bucket's state and all that would be refused. Changes nothing.

    Raises:
        BackendError: there is no connection or no such bucket; the text holds the remedy.
    """
    prefix = resolve_prefix(options, identity)
    try:
        loaded = nats_context.load(context)
        nc = await nats_context.connect(loaded)
    except nats_context.ContextError as error:
        raise BackendError(str(error)) from error
    try:
        api = Api(nc, domain=loaded.jetstream_domain or None, api_prefix=loaded.jetstream_api_prefix or None)
        info = await _bind_info(api, options.bucket, loaded.name)
        root = f"$KV.{options.bucket}."
        stored = await api.info(f"KV_{options.bucket}", ATTEMPT_SECONDS * 2, subjects=root + ">")
        found = refusals(options.bucket, info.config, loaded.name)
    except (RefusedError, NoAnswerError) as error:
        raise BackendError(_UNREACHABLE) from error
    finally:
        await nats_context.close(nc)
    keys = {subject.removeprefix(root) for subject in stored.subjects}
    ours = {key.removeprefix(prefix + ".") for key in keys if not prefix or key.startswith(prefix + ".")}
    config = info.config
    state = {
        "created": info.created,
        "replicas": info.replicas,
        "storage": str(config.get("storage", "file")),
        "history": int(config.get("max_msgs_per_subject") or 0),
        "value_cap_bytes": max(0, int(config.get("max_msg_size") or 0)) or None,
        "keys_here": len(ours),
        "keys_elsewhere": len(keys) - len(ours),
        # A key with a dot may be this prefix's own, or the key of an agent whose prefix nests under it.
        "prefixes_that_may_nest": sorted({key.split(".")[0] for key in ours if "." in key}),
    }
    return state, found


def _losses(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Settings under which stored memories could silently vanish, with the remedy.

    That single messages may expire (`allow_msg_ttl`, which some clients set on every bucket they make) is none:
    only a message whose own writer asked for it does, and none of ours ever does.
    """
    if config.get("max_age"):
        yield (
            "has a TTL, so stored memories would silently expire",
            "remove it with: {edit} --max-age=0s",
        )
    if config.get("discard", "old") == "old":
        for limit, name in (("max_msgs", "messages"), ("max_bytes", "bytes")):
            if int(config.get(limit) or 0) > 0:
                yield (
                    f"discards its oldest values beyond {config[limit]} {name}, so memories would silently vanish",
                    "make it refuse new ones instead with: {edit} --discard=new",
                )
    if config.get("retention", "limits") != "limits":
        yield "removes values once they were consumed", "make another bucket with: {anew}"


def _obstacles(bucket: str, config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Settings under which legal memories could not be stored or found again, with the remedy."""
    if 0 < int(config.get("max_msg_size") or 0) < MAX_ENTRY_BYTES:
        yield (
            f"caps values at {config['max_msg_size']} bytes, below the {MAX_ENTRY_BYTES} of a full entry",
            f"raise it with: {{edit}} --max-msg-size={MAX_ENTRY_BYTES}",
        )
    if config.get("mirror"):
        yield (
            "is a mirror, which lags behind its origin and cannot be written",
            "name the origin in harness.memory.options.bucket",
        )
    elif f"$KV.{bucket}.>" not in (config.get("subjects") or ()):
        yield "is a stream that only has the name of one", "make a bucket of another name with nats kv add"
    if config.get("no_ack"):
        yield "confirms no writes (no_ack)", "turn that off with: {edit} --ack"
    if config.get("allow_msg_counter"):
        yield "holds counters, not values (allow_msg_counter)", "make another bucket with: {anew}"
    if config.get("discard_new_per_subject"):
        yield "refuses overwrites once a key has its full history", "make another bucket with: {anew}"
    if config.get("sealed"):
        yield "is sealed, so nothing can ever be stored in it", "make another bucket with: {anew}"
    if config.get("subject_transform"):
        yield "renames keys as it stores them (subject_transform)", "remove the transform"


class JetStreamStore:
    """The `Store` over one prefix of one bucket. Any number of calls may run at once on the connection's loop.

    A revision is the sequence of the value's message. Sequences mean nothing in a bucket that was deleted and made
    again, so every update first asks the leader when the bucket was made. A revision of an earlier bucket counts as
    changed; one earned in the new bucket carries its time of creation. What remains open is a bucket deleted, made
    and filled anew, with the same key at the same sequence, between that answer and the write that follows it.
    """

    def __init__(self, api: Api, bucket: str, prefix: str, *, created: str, blind: bool = False) -> None:
        self._api = api
        self._bucket = bucket
        self._stream = f"KV_{bucket}"
        self._root = f"$KV.{bucket}." + (f"{prefix}." if prefix else "")
        self._blind = blind
        self._born = created
        """When the bucket that the fingerprint stands for was made."""
        self._created = created
        """When the bucket now in place was made, as last seen."""
        self._newest = 0
        """A sequence which that bucket is known to have reached."""

    def info(self) -> Info:
        return Info("jetstream", self._bucket)

    async def list(self) -> list[Item]:
        items = await _steadily(self._list_once, _deadline())
        return [Item(key, items[key]) for key in sorted(items)]

    async def read(self, key: str, *, scope: Scope | None = None) -> Entry:
        validate_key(key)
        created = self._created
        message = await self._last(self._root + key, _deadline())
        if message is None or not _is_value(message):
            if scope is not None and scope.revision(key) is not None:
                scope.drop(key, "stale")
            raise KeyNotFoundError
        entry = parse(message.data)
        if scope is not None:
            scope.grant(key, self._revision(message.sequence, created), "read")
        return entry

    async def create(self, key: str, description: str, content: str, *, scope: Scope | None = None) -> None:
        """See the contract. How far the capacity is exact when several writers race:

        near the limit (the last 64 places) a create is applied only if nothing under the prefix has changed
        since the entries were counted, which the server checks. Below that it is applied at once, so only more
        than 64 creates counted before and stored after the same instant could exceed the limit. A server
        before 2.12 cannot check a whole prefix; there, creates that race for the last places can exceed it by
        their number.
        """
        document = _Document(key, description, content)
        with _honest(key, scope):
            revision = await self._create(key, document, _deadline())
        if scope is not None:
            scope.grant(key, revision, "created")

    async def update(self, key: str, description: str, content: str, *, scope: Scope | None = None) -> None:
        document = _Document(key, description, content)
        deadline = _deadline()
        with _honest(key, scope):
            if self._blind:
                revision = await self._overwrite(key, document, deadline)
            else:
                held = scope.revision(key) if scope is not None else None
                if held is None:
                    raise StaleError("not_read")
                expected = await self._expected(held, deadline)
                swapped = None if expected is None else await self._swap(key, document, expected, deadline)
                if swapped is None:
                    raise StaleError("changed")
                revision = swapped
        if scope is not None:
            scope.grant(key, revision, "updated")

    async def delete(self, key: str, *, scope: Scope | None = None) -> bool:
        validate_key(key)
        deadline = _deadline()
        removed = None
        with _honest(key, scope):
            while removed is None:
                message = await self._last(self._root + key, deadline)
                if message is None or not _is_value(message):
                    break
                parse(message.data)
                if await self._swap(key, _MARKER, message.sequence, deadline) is not None:
                    removed = self._revision(message.sequence, self._created)
                else:
                    _in_time(deadline)
        if scope is not None and removed is not None:
            scope.drop(key, "deleted", removed)
        elif scope is not None and scope.revision(key) is not None:
            scope.drop(key, "stale")
        return removed is not None

    async def delete_revision(self, key: str, revision: str) -> bool:
        """As `store.contract.Removing` promises."""
        validate_key(key)
        deadline = _deadline()
        expected = await self._expected(revision, deadline)
        message = await self._last(self._root + key, deadline)
        if expected is None or message is None or not _is_value(message) or message.sequence != expected:
            return False
        parse(message.data)
        return await self._swap(key, _MARKER, expected, deadline) is not None

    # Authority

    def _revision(self, sequence: int, created: str) -> str:
        return str(sequence) if created == self._born else f"{sequence}@{created}"

    async def _expected(self, revision: str, deadline: float) -> int | None:
        """The sequence that `revision` stands for; None if it is of another bucket than the one in place."""
        found = _REVISION.fullmatch(revision)
        await self._info(deadline)
        if found is None or (found[2] or self._born) != self._created:
            return None
        return int(found[1])

    # Writing

    async def _create(self, key: str, document: "_Document", deadline: float) -> str:
        expected: int | None = 0
        while True:
            guard = None
            # Other prefixes and delete markers count in the first number too: it only tells when to look closer.
            if (await self._info(deadline)).subject_count > MAX_ENTRIES - UNGUARDED:
                expected, guard = await self._count(key, deadline)
            if expected is None:
                raise KeyExistsError("This key already holds a memory.")
            revision = await self._swap(key, document, expected, deadline, guard)
            if revision is not None:
                return revision
            _in_time(deadline)
            # Close to the limit all creates of the prefix meet; those that met must not meet again at once.
            await asyncio.sleep(random.uniform(0, 0.05))  # noqa: S311 - spreads load, guards nothing
            expected = _free_at(await self._last(self._root + key, deadline))

    async def _count(self, key: str, deadline: float) -> tuple[int | None, int | None]:
        """Check the capacity for a create of `key`.

        Returns the sequence the key must still be at (None: it holds a value), and the one that the whole prefix
        must still be at, or None where there is room enough not to care.
        """
        info = await self._info(deadline, subjects=self._root + ">")
        if len(info.subjects) <= MAX_ENTRIES - UNGUARDED:
            return _free_at(await self._last(self._root + key, deadline)), None
        newest = await self._last(self._root + ">", deadline)
        found = await _steadily(self._scan_all, deadline)
        expected = _free_at(found.get(self._root + key))
        live = sum(_is_value(message) and self._key(subject) is not None for subject, message in found.items())
        if expected is not None:
            check_capacity(live)
        guarded = live >= MAX_ENTRIES - UNGUARDED and newest is not None and self._api.checks_prefixes
        return expected, newest.sequence if guarded and newest is not None else None

    async def _overwrite(self, key: str, document: "_Document", deadline: float) -> str:
        while True:
            message = await self._last(self._root + key, deadline)
            try:
                if message is None or not _is_value(message):
                    return await self._create(key, document, deadline)
                parse(message.data)
                revision = await self._swap(key, document, message.sequence, deadline)
                if revision is not None:
                    return revision
            except KeyExistsError:
                pass  # Somebody was faster; that value is then overwritten.
            _in_time(deadline)

    async def _swap(
        self, key: str, document: "_Document", expected: int, deadline: float, guard: int | None = None
    ) -> str | None:
        """Store `document` if the key's last message is still `expected`, and return its revision, else None.

        With `guard`, only if also the last message under the whole prefix still is that one.

        Raises:
            OutcomeUnknownError: an attempt was sent, and nothing that is stored tells whether it was applied.
            UnavailableError, StoreFullError: surely nothing was stored.
        """
        attempt = _Attempt(self._root + key, expected, created=self._created, newest=self._newest, begun=_now())
        while True:
            headers = document.headers | attempt.headers(self._root, guard)
            try:
                sequence = await self._api.publish(attempt.subject, document.data, headers, _left(deadline))
                return self._revision(sequence, attempt.created)
            except NoAnswerError as error:
                attempt.unsure |= error.sent
                failure: Exception = error
            except RefusedError as error:
                failure = error
                if error.error not in CONFLICT:
                    # Even a temporary refusal may come from a leader that goes on with what it was given.
                    attempt.unsure |= is_temporary(error)
                    if not is_temporary(error):
                        raise (OutcomeUnknownError() if attempt.unsure else _refusal(error)) from error
            applied_at = await self._look(attempt, deadline)
            if applied_at is not None:
                return self._revision(applied_at, attempt.created) if applied_at else None
            if guard is not None and isinstance(failure, RefusedError):
                newest = await self._last(self._root + ">", deadline)
                if newest is None or newest.sequence != guard:
                    return None
            if _now() >= deadline:
                raise (OutcomeUnknownError() if attempt.unsure else UnavailableError(_AWAY)) from failure
            # Writers that met must not meet again at once.
            await asyncio.sleep(random.uniform(0.02, 0.1))  # noqa: S311 - spreads load, guards nothing

    async def _look(self, attempt: "_Attempt", deadline: float) -> int | None:
        """What became of an attempt: its sequence, 0 if it can no longer be applied, None if it still may be."""
        try:
            # In this order, so that a leader that has not caught up yet is not taken for a key that was purged.
            info = await self._info(deadline)
            last = await self._last(attempt.subject, deadline)
        except UnavailableError as error:
            if attempt.unsure:
                raise OutcomeUnknownError from error
            raise
        sequence = last.sequence if last is not None else 0
        if last is not None and last.headers.get(_WRITE) == attempt.write:
            return sequence
        here = info.created == attempt.created
        behind = info.last_sequence < attempt.expected and _now() < attempt.begun + LAG_SECONDS
        if here and (sequence == attempt.expected or behind):
            return None
        # The key moved on without us, unless our write was applied and then replaced or purged.
        if attempt.unsure and not (here and last is not None and attempt.never_preceded(last)):
            raise OutcomeUnknownError
        return 0

    # Looking

    async def _info(self, deadline: float, *, subjects: str | None = None) -> StreamInfo:
        async def ask() -> StreamInfo:
            return await self._api.info(self._stream, _left(deadline), subjects=subjects)

        info = await _steadily(ask, deadline)
        self._created, self._newest = info.created, info.last_sequence
        return info

    async def _last(self, subject: str, deadline: float) -> Message | None:
        async def ask() -> Message | None:
            return await self._api.last(self._stream, subject, _left(deadline))

        return await _steadily(ask, deadline)

    def _key(self, subject: str) -> str | None:
        key = subject.removeprefix(self._root)
        return key if is_key(key) else None

    async def _list_once(self) -> dict[str, str]:
        items = {}
        bare = {}
        for subject, message in (await self._scan_all()).items():
            key = self._key(subject)
            if key is None or not _is_value(message):
                continue
            description = message.headers.get(_DESCRIPTION)
            if description is None:
                bare[subject] = message.sequence
            else:
                items[key] = one_line(description)[:MAX_DESCRIPTION].rstrip()
        if bare:
            filters = list(bare) if len(bare) <= BATCH else [self._root + ">"]
            described = await self._scan(filters, set(bare), max(bare.values()), _described, headers_only=False)
            for subject in bare:
                key = self._key(subject)
                description = described[subject]
                if key is not None and description is not None:
                    items[key] = description
        return items

    async def _scan_all(self) -> dict[str, Message]:
        """The last message of every subject under the prefix, markers too, without bodies."""
        newest = await self._api.last(self._stream, self._root + ">", ATTEMPT_SECONDS)
        if newest is None:
            return {}
        info = await self._api.info(self._stream, ATTEMPT_SECONDS, subjects=self._root + ">")
        return await self._scan(
            [self._root + ">"], set(info.subjects), newest.sequence, lambda message: message, headers_only=True
        )

    async def _scan(
        self,
        filters: Sequence[str],
        awaited: set[str],
        top: int,
        take: Callable[[Message], T],
        *,
        headers_only: bool,
    ) -> dict[str, T]:
        """One pass over `filters`: at least every subject of `awaited`, as it was at sequence `top` or later.

        The consumer may live on a member that lags, and keys may be overwritten while it runs, and then come later
        or twice. So it has seen enough when it has passed the leader's newest message and met every key that
        the leader has; not when it falls silent, and not only then, which under constant writes may be never.
        """
        found: dict[str, T] = {}
        missing = set(awaited)
        passed = 0
        give_up = _now() + LIST_SECONDS
        patience = 10
        async with self._api.consumer(
            self._stream,
            "memory-" + secrets.token_hex(8),
            filters,
            headers_only=headers_only,
            timeout=ATTEMPT_SECONDS,
        ) as puller:
            while missing or passed < top:
                messages = await puller.pull(BATCH, ATTEMPT_SECONDS)
                for message in messages:
                    found[message.subject] = take(message)
                    missing.discard(message.subject)
                    passed = max(passed, message.sequence)
                if not messages:
                    patience -= 1
                    await asyncio.sleep(0.05)
                if patience == 0 or _now() > give_up:
                    # Lagging, or what it waits for was purged meanwhile: the caller begins anew.
                    raise NoAnswerError("the listing is not complete", sent=True)
        return found


class _Document:
    """A validated write as it is stored."""

    def __init__(self, key: str, description: str, content: str) -> None:
        line = validate_write(key, description, content)
        self.data = serialize(line, content)
        # A bucket's cap counts headers too; an entry at its limits has no room for its description twice.
        room = MAX_ENTRY_BYTES - len(self.data) - _HEADER_BYTES
        self.headers = {_DESCRIPTION: line} if len(line.encode()) <= room else {}


class _Marker(_Document):
    def __init__(self) -> None:
        self.data = b""
        self.headers = {_OPERATION: "DEL"}


_MARKER: Final = _Marker()


class _Attempt:
    """One write, however often it has to be sent. Sent twice it is still applied once: the first changes what the
    second expects."""

    def __init__(self, subject: str, expected: int, *, created: str, newest: int, begun: float) -> None:
        self.subject = subject
        self.expected = expected
        self.created = created
        self.floor = max(expected, newest)
        """The newest message of the bucket that was known before the first sending."""
        self.write = secrets.token_urlsafe(16)
        self.unsure = False
        """Whether some attempt may have been applied without our hearing of it."""
        self.begun = begun

    def headers(self, root: str, guard: int | None) -> dict[str, str]:
        if guard is None:
            return {_WRITE: self.write, _EXPECTED: str(self.expected)}
        return {_WRITE: self.write, _EXPECTED: str(guard), _EXPECTED_OF: root + ">"}

    def never_preceded(self, last: Message) -> bool:
        """Whether `last`, the key's last message, proves that this write was never applied.

        This write would have got a sequence beyond `floor`. So it was not applied if `last` is older than that,
        or if what `last` directly replaced is: its writer had the server check that, and the header is kept.
        """
        if last.sequence <= self.floor:
            return True
        predecessor = last.headers.get(_EXPECTED, "")
        return _EXPECTED_OF not in last.headers and predecessor.isdecimal() and int(predecessor) <= self.floor


def _is_value(message: Message) -> bool:
    return _OPERATION not in message.headers and _MARKER_REASON not in message.headers


def _free_at(message: Message | None) -> int | None:
    """The sequence at which a key is free: 0 if never used, else its marker's; None if it holds a value."""
    if message is None:
        return 0
    return None if _is_value(message) else message.sequence


def _described(message: Message) -> str | None:
    """The description in a whole value, None for a marker. The body is not kept."""
    if not _is_value(message):
        return None
    try:
        return parse_description(message.data, len(message.data)) or ""
    except UnreadableError:
        return UNREADABLE


def _now() -> float:
    return asyncio.get_running_loop().time()


def _deadline() -> float:
    return _now() + CALL_SECONDS


def _left(deadline: float) -> float:
    return max(0.2, min(ATTEMPT_SECONDS, deadline - _now()))


def _in_time(deadline: float) -> None:
    if _now() >= deadline:
        raise UnavailableError("Other writers kept changing this memory. Nothing was changed. Try again.")


async def _steadily(ask: Callable[[], Awaitable[T]], deadline: float) -> T:
    """The answer to something that changes nothing, asked again until the deadline.

    Raises:
        UnavailableError: there was none.
    """
    while True:
        try:
            return await ask()
        except RefusedError as error:
            if not is_temporary(error) or _now() >= deadline:
                raise _refusal(error) from error
        except NoAnswerError as error:
            if _now() >= deadline:
                raise UnavailableError(_AWAY) from error
        await asyncio.sleep(0.1)


def _refusal(error: RefusedError) -> StoreError:
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
        return UnavailableError(
            "The broker does not permit this. Nothing was changed. Go on without it; the operator must allow it."
        )
    if is_temporary(error):
        return UnavailableError(_AWAY)
    return UnavailableError(
        "The memory store refused this. Nothing was changed. Go on without it; its operator must look into it."
    )


@contextmanager
def _honest(key: str, scope: Scope | None) -> Iterator[None]:
    """Whatever leaves a write with an unknown or refused outcome takes the authority over the key."""
    try:
        yield
    except (StaleError, OutcomeUnknownError, asyncio.CancelledError) as error:
        if scope is not None:
            scope.drop(key, "stale" if isinstance(error, StaleError) else "unknown")
        raise

"""The notes under one prefix of a bucket: looking, changing, and how long a call waits.

Everything rests on one fact of the server: a publish that names the sequence it expects its subject to be at
is applied exactly when that is so. Hence every write here is a compare and swap, also those that expect nothing in
particular; a write whose confirmation is lost is sent again without danger; and what happened is decided by looking
at what is stored, never by the kind of error alone. Looking means asking the stream's leader: other members of a
cluster lag.
"""

import asyncio
import random
from functools import partial
from typing import Final, TypeVar

from ...store.contract import ABSENT, ANYTHING, Expected, Info, Item, Stored
from ...store.errors import ConflictError, OutcomeUnknownError, StoreFullError, UnavailableError
from ...store.rules import MAX_ENTRIES, check_capacity
from .api import (
    CONFLICT,
    Api,
    NoAnswerError,
    RefusedError,
    is_temporary,
)
from .leader import LAG_SECONDS, REVISION, Leader
from .message import MARKER, WRITE, Attempt, Document, free_at, is_proof, is_value, replaced_by, revision_of
from .refused import AWAY, no_room_to_delete, refusal
from .view import View
from .waiting import Patience, in_time, left, now
from .watched import Settings

__all__ = ["Notes"]

T = TypeVar("T")

LOOK_SECONDS: Final = 0.25
"""How long what the leader held at the last look stands for another look: long enough for the change that a read was
made for, and nothing beside the time that a power cut and a restart take."""

UNGUARDED: Final = 64
"""Creates that may be under way at once without ever exceeding the capacity. See `Notes.put`."""


class Notes:
    """What `store.contract.Backend` asks for, as coroutines. Any number may run at once on the connection's loop.

    A revision names one message: its sequence, and what tells it from any other that ever had that sequence
    (`revision_of`). For sequences are given again in a bucket that was deleted and made again, and by a broker that
    lost its last writes in a power cut. So every change first looks whether the leader holds that very message; that
    nothing replaces it from then on, the broker checks by the sequence. What remains open is a loss of writes, and a
    new value at the same sequence, between the two.
    """

    def __init__(self, api: Api, bucket: str, prefix: str, *, created: str, settings: Settings) -> None:
        """`created` is when the bucket was made."""
        self._api = api
        self._bucket = bucket
        self._stream = f"KV_{bucket}"
        self._root = f"$KV.{bucket}." + (f"{prefix}." if prefix else "")
        self._refusal = partial(refusal, bucket=bucket, root=self._root)
        self._view = View(api, self._stream, self._root, settings.see)
        self._patience = Patience(api, self._stream, self._refusal)
        self._leader = Leader(api, self._stream, self._patience, settings, created=created)
        self._looked: tuple[str, str, float] | None = None
        """The key, revision and time of the last look that found a value: a change that follows it needs no other."""

    def info(self) -> Info:
        return Info("jetstream", self._bucket)

    async def list(self) -> list[Item]:
        items = await self._patience.ask(self._view.list, await self._patience.deadline())
        return [Item(key, items[key]) for key in sorted(items)]

    async def get(self, key: str, after: str | None) -> Stored | None:
        message = await self._leader.newest(self._root + key, after, await self._patience.deadline())
        if message is None or not is_value(message):
            self._looked = None
            return None
        revision = revision_of(message)
        self._looked = key, revision, now()
        return Stored(revision, message.data)

    async def holds(self, key: str, revision: str) -> bool:
        """Whether the key holds the very document of `revision`, also if the bucket was made anew since."""
        message = await self._leader.last(self._root + key, await self._patience.deadline())
        if message is None or not is_value(message):
            return False
        return revision_of(message) == revision and is_proof(message)

    async def written(self, key: str) -> str | None:
        """When the key's note was stored, as the broker tells it; None if it holds none. For operators' commands."""
        message = await self._leader.last(self._root + key, await self._patience.deadline())
        return message.time if message is not None and is_value(message) else None

    async def put(self, key: str, data: bytes, expected: Expected) -> str:
        """See the contract. How far the capacity is exact when several writers race:

        near the limit (the last 64 places) a create is applied only if nothing under the prefix has changed
        since the entries were counted, which the server checks. Below that it is applied at once, so only more
        than 64 creates counted before and stored after the same instant could exceed the limit. A server
        before 2.12 cannot check a whole prefix; there, creates that race for the last places can exceed it by
        their number.
        """
        document, deadline = Document(data), await self._patience.deadline()
        if expected is ABSENT:
            return await self._create(key, document, deadline)
        if expected is ANYTHING:
            return await self._overwrite(key, document, deadline)
        return await self._replace(key, document, expected, deadline)

    async def remove(self, key: str, expected: Expected) -> str | None:
        deadline = await self._patience.deadline()
        while True:
            message = await self._leader.last(self._root + key, deadline) if expected is ANYTHING else None
            if expected is ANYTHING and (message is None or not is_value(message)):
                return None
            revision = revision_of(message) if message is not None else str(expected)
            try:
                await self._mark_or_purge(key, revision, deadline)
            except ConflictError as conflict:
                if conflict.absent:
                    return None
                if expected is not ANYTHING:
                    raise
            else:
                return revision
            in_time(deadline)

    async def _mark_or_purge(self, key: str, revision: str, deadline: float) -> None:
        """Put the mark of a deletion in place of the message that `revision` names; purge it where no mark has room.

        A full bucket takes a mark only in place of something larger, and one that keeps a history takes none.
        """
        try:
            await self._replace(key, MARKER, revision, deadline)
        except StoreFullError as full:
            sequence = int(revision.partition("@")[0])
            purged = await purge(self._api, self._stream, self._root + key, sequence, full, left(deadline))
            last = await self._leader.last(self._root + key, deadline)
            if not purged or (last is not None and replaced_by(last) == sequence):
                raise ConflictError(absent=free_at(last) is not None) from None
            if last is not None and is_value(last) and replaced_by(last) != 0:
                # Of a history, and written by a program that does not say over what.
                raise OutcomeUnknownError from full

    async def _replace(self, key: str, document: "Document", revision: str, deadline: float) -> str:
        """Store `document` in place of the message that `revision` names."""
        found = REVISION.fullmatch(revision)
        looked, self._looked = self._looked, None
        if found is None:
            raise ConflictError(absent=False)
        sequence = int(found[1])
        if looked is None or looked[:2] != (key, revision) or now() - looked[2] > LOOK_SECONDS:
            last = await self._leader.newest(self._root + key, revision, deadline)
            if last is None or not is_value(last):
                raise ConflictError(absent=True)
            if revision_of(last) != revision:
                raise ConflictError(absent=False)
        await self._leader.info(deadline, change=True)
        swapped = await self._swap(key, document, sequence, deadline)
        if swapped is None:
            raise ConflictError(absent=free_at(await self._leader.last(self._root + key, deadline)) is not None)
        return swapped

    # Writing

    async def _create(self, key: str, document: "Document", deadline: float) -> str:
        while True:
            info, last = await self._leader.before_change(self._root + key, deadline)
            expected, guard = free_at(last), None
            # Other prefixes and delete markers count in the first number too: it only tells when to look closer.
            if expected is not None and info.subject_count > MAX_ENTRIES - UNGUARDED:
                expected, guard = await self._count(key, expected, deadline)
            if expected is None:
                raise ConflictError(absent=False)
            revision = await self._swap(key, document, expected, deadline, guard)
            if revision is not None:
                return revision
            in_time(deadline)
            if guard is not None:
                # Close to the limit all creates of the prefix meet; those that met must not meet again at once.
                await asyncio.sleep(random.uniform(0, 0.05))  # noqa: S311 - spreads load, guards nothing

    async def _count(self, key: str, free: int, deadline: float) -> tuple[int | None, int | None]:
        """Check the capacity for a create of `key`, which was found free at the sequence `free`.

        Returns the sequence the key must still be at (None: it holds a value), and the one that the whole prefix
        must still be at, or None where there is room enough not to care.
        """
        subject = self._root + key
        state = await self._patience.ask(lambda: self._view.current(exact=False), deadline)
        self._leader.created, self._leader.reached = state.created, state.reached
        known = state.subjects.get(subject)
        if state.live >= MAX_ENTRIES or (known is not None and known.note is not None):
            # A purge may have made room since the view last looked. So a create is refused only by an exact count.
            state = await self._patience.ask(self._view.current, deadline)
            known = state.subjects.get(subject)
        if known is not None and known.note is not None:
            return None, None
        check_capacity(state.live)
        if state.live >= MAX_ENTRIES - UNGUARDED and state.newest is not None and self._api.checks_prefixes:
            return known.sequence if known is not None else 0, state.newest.sequence
        return free, None

    async def _overwrite(self, key: str, document: "Document", deadline: float) -> str:
        while True:
            _, message = await self._leader.before_change(self._root + key, deadline)
            try:
                if message is None or not is_value(message):
                    return await self._create(key, document, deadline)
                revision = await self._swap(key, document, message.sequence, deadline)
                if revision is not None:
                    return revision
            except ConflictError:
                pass  # Somebody was faster; that value is then overwritten.
            in_time(deadline)

    async def _swap(
        self, key: str, document: "Document", expected: int, deadline: float, guard: int | None = None
    ) -> str | None:
        """Store `document` if the key's last message is still `expected`, and return its revision, else None.

        With `guard`, only if also the last message under the whole prefix still is that one.

        Raises:
            OutcomeUnknownError: an attempt was sent, and nothing that is stored tells whether it was applied.
            UnavailableError, StoreFullError: surely nothing was stored.
        """
        attempt = Attempt(
            self._root + key,
            expected,
            created=self._leader.created,
            newest=self._leader.reached,
            begun=now(),
            data=document.data,
        )
        while True:
            headers = document.headers | attempt.headers(self._root, guard)
            try:
                sequence = await self._api.publish(attempt.subject, document.data, headers, left(deadline))
                return self._view.wrote(attempt, document, sequence)
            except NoAnswerError as error:
                attempt.unsure |= error.sent
                failure: Exception = error
            except RefusedError as error:
                failure = error
                if error.error not in CONFLICT:
                    # Even a temporary refusal may come from a leader that goes on with what it was given.
                    attempt.unsure |= is_temporary(error)
                    if not is_temporary(error):
                        raise (OutcomeUnknownError() if attempt.unsure else self._refusal(error)) from error
            applied_at = await self._look(attempt, deadline)
            if applied_at is not None:
                return self._view.wrote(attempt, document, applied_at) if applied_at else None
            if guard is not None and isinstance(failure, RefusedError):
                newest = await self._leader.last(self._root + ">", deadline)
                if newest is None or newest.sequence != guard:
                    return None
            if now() >= deadline:
                self._patience.heard_nothing(failure)
                raise (OutcomeUnknownError() if attempt.unsure else UnavailableError(AWAY)) from failure
            # Writers that met must not meet again at once.
            await asyncio.sleep(random.uniform(0.02, 0.1))  # noqa: S311 - spreads load, guards nothing

    async def _look(self, attempt: "Attempt", deadline: float) -> int | None:
        """What became of an attempt: its sequence, 0 if it can no longer be applied, None if it still may be."""
        try:
            # In this order, so that a leader that has not caught up yet is not taken for a key that was purged.
            info = await self._leader.info(deadline)
            last = await self._leader.last(attempt.subject, deadline)
        except UnavailableError as error:
            if attempt.unsure:
                raise OutcomeUnknownError from error
            raise
        sequence = last.sequence if last is not None else 0
        if last is not None and last.headers.get(WRITE) == attempt.write:
            return sequence
        here = info.created == attempt.created
        behind = info.last_sequence < attempt.expected and now() < attempt.begun + LAG_SECONDS
        if here and (sequence == attempt.expected or behind):
            return None
        # The key moved on without us, unless our write was applied and then replaced or purged.
        if attempt.unsure and not (here and last is not None and attempt.never_preceded(last)):
            raise OutcomeUnknownError
        return 0


async def purge(api: Api, stream: str, subject: str, sequence: int, full: StoreFullError, timeout: float) -> int:
    """Remove the message of `subject` at `sequence` and what is older; how many those were. Nothing newer can be hit.

    Raises:
        StoreFullError: the broker refuses that too; `full` is why no mark could be stored.
        OutcomeUnknownError, UnavailableError: no answer came.
    """
    try:
        return await api.purge(stream, subject, sequence + 1, timeout)
    except NoAnswerError as error:
        raise (OutcomeUnknownError() if error.sent else UnavailableError(AWAY)) from error
    except RefusedError as error:
        raise no_room_to_delete(full, error) from error

"""What one prefix of a bucket holds: seen whole once, then kept and brought up to date by asking what is new.

A listing is complete or an error, as the stream's leader has it during the call, and leaves no consumer behind. The
first is one pass of a consumer over the last message of every subject: also where they are few, so that a permission
which is lacking shows at once. Later ones rest on three facts, each asked for anew:

* Messages get rising sequences. So whatever changed after the pass is found by asking the leader for the next
  message after the newest one known, until there is none. Nothing changed if the stream has not grown. The own writes
  that directly follow what is known are known themselves.
* After that, every subject of the leader is among those known. Subjects can only have gone, by a purge, which leaves
  no message: the leader's own list of subjects tells which. A create needs no list: it may count one too many until
  that would make it refuse.
* The stream still is the one that was seen: made at the same moment, no shorter than before, and the newest known
  message still in its place or replaced by a newer one of its key. A broker that lost its last writes in a power cut
  gives their sequences again; so what is known is dropped, too, whenever the connection was made anew.

What is asked at once may be answered in any order, each as of a moment of the call. Where any of this does not hold, or
too much is new, the pass is made again. Each value is parsed once.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from ...observe import gauges
from ...store.rules import MAX_ENTRIES, is_key
from .api import ATTEMPT_SECONDS, Api, Message, StreamInfo
from .known import Known, Mark, State, mark_of
from .message import Attempt, Document, described, described_by_header, is_value
from .scans import Scans
from .waiting import both

__all__ = ["View"]

Marked: TypeAlias = list[tuple[Mark, Message | None]]
"""Each mark, and the first message from there on."""

FILTERS: Final = 128
"""Keys that are asked for by name. With more of them, all are looked at."""

FEW: Final = 10
"""New messages that are asked for one by one; a pass costs about as many requests."""

MOST_KEPT: Final = 4 * MAX_ENTRIES
"""Subjects that are kept between listings. Marks of deletions are among them, and illegal names."""


class View:
    """What the subjects under `root`, which ends with a dot, hold. Any number of calls may run at once."""

    def __init__(self, api: Api, stream: str, root: str, see: Callable[[Mapping[str, Any]], None]) -> None:
        """`see` is told the bucket's settings each time they come along."""
        self._see = see
        self._api = api
        self._stream = stream
        self._root = root
        self._filter = root + ">"
        self._scans = Scans(api, stream, self._filter)
        self._held: State | None = None

    async def list(self) -> dict[str, str]:
        """The description of every note, by key.

        Raises:
            RefusedError, NoAnswerError: the listing is not complete; asking again may help.
        """
        state = await self.current()
        gauges.see("deletion_marks", len(state.subjects) - state.live)
        bare = {
            subject: known.sequence
            for subject, known in state.subjects.items()
            if known.note is not None and known.description is None
        }
        if bare:
            filters = list(bare) if len(bare) <= FILTERS else [self._filter]
            read = await self._scans.scan(
                filters,
                set(bare),
                max(bare.values()),
                lambda message: self._known(message) if message.subject in bare else None,
                headers_only=False,
            )
            found = {subject: known for subject, known in read.items() if known is not None}
            state = self._keep(state._replace(subjects={**state.subjects, **found}))
        return {known.note: known.description or "" for known in state.subjects.values() if known.note is not None}

    async def current(self, *, exact: bool = True) -> State:
        """What the leader holds now. If not `exact`, subjects that were purged meanwhile may still be among it.

        Raises:
            RefusedError, NoAnswerError: it cannot be told; asking again may help.
        """
        held = self._held
        advanced = None if held is None else await self._advanced(held, exact)
        return self._keep(advanced or await self._whole())

    def wrote(self, attempt: Attempt, document: Document, sequence: int) -> str:
        """This process stored a message: no listing needs to ask for it. Returns its revision."""
        revision = attempt.revision(sequence)
        if self._held is not None:
            note = None if document.description is None else attempt.subject.removeprefix(self._root)
            known = Known(sequence, note, document.description)
            self._held = self._held.after(attempt.subject, known, revision, attempt.created) or self._held
        return revision

    def _keep(self, state: State) -> State:
        held = self._held
        if held is None or held.created != state.created or not held.is_later(state):
            self._held = state if len(state.subjects) <= MOST_KEPT else None
        return state

    async def _advanced(self, held: State, exact: bool) -> State | None:
        """`held` and what is new; None if that cannot be told for sure."""
        info, marked = await both(
            self._api.info(self._stream, ATTEMPT_SECONDS, subjects=self._filter if exact else None), self._marked(held)
        )
        self._see(info.config)
        if not self._is_same(held, info, marked):
            self._held = None
            return None
        if not _only_grows(info.config):
            return None
        state = await self._taken_in(held, info, marked)
        if state is None:
            return None
        subjects = dict(state.subjects)
        if exact:
            if not info.subjects <= subjects.keys():
                return None
            for subject in subjects.keys() - info.subjects:
                if subjects[subject].sequence <= info.last_sequence:
                    del subjects[subject]
        for mark, message in marked:
            if message is not None and message.sequence == mark.sequence:
                continue
            # It was replaced by a newer message, purged, or lost by the broker. Nothing tells which.
            known = subjects.get(mark.subject)
            if known is None or known.sequence == mark.sequence:
                self._held = None
                return None
        return state._replace(subjects=subjects)

    async def _marked(self, held: State) -> Marked:
        """The first message from each mark on: the mark itself, if it stands."""
        newest, seen = held.newest, held.seen
        if newest is None:
            return []
        if seen is None or seen == newest:
            return [(newest, await self._next(newest.sequence))]
        found = await both(self._next(newest.sequence), self._next(seen.sequence))
        return [(newest, found[0]), (seen, found[1])]

    async def _taken_in(self, held: State, info: StreamInfo, marked: Marked) -> State | None:
        """`held`, and the messages after its newest, up to what `info` knew at least; None if there are too many."""
        subjects, newest, upto = dict(held.subjects), held.newest, held.upto
        fresh = marked[0][1] if marked else None
        if fresh is not None and fresh.sequence <= upto:
            fresh = None
        if fresh is None and info.last_sequence > held.reached:
            fresh = await self._next(upto + 1)
        for _ in range(FEW):
            if fresh is None:
                break
            subjects[fresh.subject], newest, upto = self._known(fresh), mark_of(fresh), fresh.sequence
            # Also where that was the stream's last message: an earlier one may have been replaced by a later since.
            fresh = await self._next(upto + 1)
        if fresh is not None:
            self._held = held._replace(newest=newest, seen=newest, subjects=subjects)  # what was parsed stays so
            return None
        return State(held.created, held.connection, info.last_sequence, newest, newest, subjects)

    def _is_same(self, held: State, info: StreamInfo, marked: Marked) -> bool:
        """Whether the stream is the one that was seen, as far as what stands at the marks tells."""
        if held.created != info.created or held.connection != self._api.connection or info.last_sequence < held.reached:
            return False
        return all(
            message is None or message.sequence != mark.sequence or mark_of(message) == mark for mark, message in marked
        )

    async def _whole(self) -> State:
        """One pass over the last message of every subject, without bodies."""
        connection, before = self._api.connection, self._held
        newest, info = await both(
            self._api.last(self._stream, self._filter, ATTEMPT_SECONDS),
            self._api.info(self._stream, ATTEMPT_SECONDS, subjects=self._filter),
        )
        if newest is not None and newest.sequence > info.last_sequence:
            # The subjects must be those at the newest message, or later.
            info = await self._api.info(self._stream, ATTEMPT_SECONDS, subjects=self._filter)
        self._see(info.config)
        known = before.subjects if before is not None and before.created == info.created else {}
        subjects: dict[str, Known] = {}
        if newest is not None or info.subjects:
            top = newest.sequence if newest is not None else 0
            subjects = await self._scans.scan(
                [self._filter],
                set(info.subjects),
                top,
                lambda message: self._recalled(message, known),
                headers_only=True,
            )
        if newest is None:
            return State(info.created, connection, 0, None, None, subjects)
        mark = mark_of(newest)
        return State(info.created, connection, newest.sequence, mark, mark, subjects)

    async def _next(self, sequence: int) -> Message | None:
        return await self._api.next(self._stream, self._filter, sequence, ATTEMPT_SECONDS)

    def _known(self, message: Message) -> Known:
        """From a whole message: the document itself tells the description."""
        note = self._note(message)
        return Known(message.sequence, note, None if note is None else described(message))

    def _recalled(self, message: Message, before: Mapping[str, Known]) -> Known:
        """From a message without its body."""
        known = before.get(message.subject)
        if known is not None and known.sequence == message.sequence:
            return known
        note = self._note(message)
        return Known(message.sequence, note, None if note is None else described_by_header(message))

    def _note(self, message: Message) -> str | None:
        key = message.subject.removeprefix(self._root)
        return key if is_value(message) and is_key(key) else None


def _only_grows(config: Mapping[str, Any]) -> bool:
    """Whether no older message of a subject can ever become its last one again.

    That takes an older one, and a way to remove a single message: by name, or by a lifetime of its own.
    """
    return int(config.get("max_msgs_per_subject") or 0) == 1 or bool(
        config.get("deny_delete") and not config.get("allow_msg_ttl")
    )

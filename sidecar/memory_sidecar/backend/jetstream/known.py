"""What is known of the messages under a prefix: data, and what a write of one's own adds to it."""

from collections.abc import Mapping

from ...named_tuple import NamedTuple
from .api import Message
from .message import revision_of

__all__ = ["Known", "Mark", "State", "mark_of"]


class Known(NamedTuple):
    """The last message of one subject."""

    sequence: int
    note: str | None
    """The key of the note it holds; None for the mark of a deletion, and where the name is not a legal key."""
    description: str | None
    """None where only a body tells that was not asked for yet, and where there is no note."""


class Mark(NamedTuple):
    """The newest message under the prefix; the revision tells it from another of the same sequence."""

    sequence: int
    subject: str
    revision: str


def mark_of(message: Message) -> Mark:
    return Mark(message.sequence, message.subject, revision_of(message))


class State(NamedTuple):
    """What was known at some moment. Never changed in place: calls overlap."""

    created: str
    """When the stream was made."""
    connection: int
    reached: int
    """Every message up to this sequence, which the stream had reached, is taken in."""
    newest: Mark | None
    seen: Mark | None
    """What was the newest when the leader was last asked: later ones were acknowledged to this process, not seen."""
    subjects: Mapping[str, Known]

    @property
    def upto(self) -> int:
        """The sequence of the newest message."""
        return 0 if self.newest is None else self.newest.sequence

    @property
    def live(self) -> int:
        """How many notes there are."""
        return sum(known.note is not None for known in self.subjects.values())

    def is_later(self, other: "State") -> bool:
        """Whether this one, of the same stream, knows of more."""
        return (self.upto, self.reached) > (other.upto, other.reached)

    def after(self, subject: str, known: Known, revision: str, created: str) -> "State | None":
        """With one message more, which an acknowledgement told of; None if another one came before it.

        `created` is when the stream was made that holds it.
        """
        if known.sequence != self.reached + 1 or created != self.created:
            return None
        newest = Mark(known.sequence, subject, revision)
        # The broker compared what the write replaced, which is as good as seeing it.
        seen = newest if self.seen is None or self.seen.subject == subject else self.seen
        return self._replace(
            reached=known.sequence, newest=newest, seen=seen, subjects={**self.subjects, subject: known}
        )

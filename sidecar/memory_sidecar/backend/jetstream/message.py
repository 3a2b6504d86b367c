"""A note as a message of the bucket: its subject, body and headers, and what those prove about a write.

The document is the truth, as in a file. Two headers of ours stand beside it, which other programs may ignore and
need not write: one names the write, the other repeats the description so that listings leave bodies at the broker.
"""

import base64
import re
import secrets
from typing import Final

from ...store.document import UNREADABLE, parse_description
from ...store.errors import UnreadableError
from ...store.rules import MAX_DESCRIPTION, MAX_ENTRY_BYTES, one_line
from ...system.digest import blake2b
from .api import Message

__all__ = [
    "MARKER",
    "WRITE",
    "Attempt",
    "Document",
    "described",
    "described_by_header",
    "free_at",
    "is_proof",
    "is_value",
    "replaced_by",
    "revision_of",
]

_OPERATION: Final = "KV-Operation"
_DELETIONS: Final = ("DEL", "PURGE")
_MARKER_REASON: Final = "Nats-Marker-Reason"
_MARKER_REASONS: Final = ("MaxAge", "Purge", "Remove")
"""All that the server writes: https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-43.md."""
_EXPECTED: Final = "Nats-Expected-Last-Subject-Sequence"
_EXPECTED_OF: Final = "Nats-Expected-Last-Subject-Sequence-Subject"
WRITE: Final = "Memory-Write"
"""Our own header: names one write, so that its writer knows it again when the confirmation is lost. Not
`Nats-Msg-Id`, whose deduplication depends on a window that the operator sets."""
_WRITE_NAME: Final = re.compile(r"[A-Za-z0-9_-]{16,64}")
_NAME_LENGTH: Final = 24
"""Of the names that are made now; their second half is a digest of the document. Earlier ones were 22 long, and chance
alone."""
_DESCRIPTION: Final = "Memory-Description"
"""Our own header: lets a listing leave bodies at the broker. The document stays the truth; what other programs
write has no such header and is read in full."""

_HEADER_BYTES: Final = 100 + 100 + 512
"""More than all our headers but the description take: the write's id, what it expects, and where."""


class Document:
    """A document as it is stored, with its description beside it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.headers: dict[str, str] = {}
        self.description: str | None = UNREADABLE
        """What listings show; None if this is no note."""
        try:
            line = parse_description(data, len(data)) or ""
        except UnreadableError:  # put back from quarantine, as it was
            return
        self.description = line
        # A bucket's cap counts headers too; an entry at its limits has no room for its description twice.
        room = MAX_ENTRY_BYTES - len(data) - _HEADER_BYTES
        self.headers = {_DESCRIPTION: line} if len(line.encode()) <= room else {}


class _Marker(Document):
    def __init__(self) -> None:
        self.data = b""
        self.headers = {_OPERATION: "DEL"}
        self.description = None


MARKER: Final = _Marker()
"""What is stored in place of a note that was deleted."""


class Attempt:
    """One write, however often it has to be sent. Sent twice it is still applied once: the first changes what the
    second expects."""

    def __init__(
        self, subject: str, expected: int, *, created: str, newest: int, begun: float, data: bytes = b""
    ) -> None:
        self.subject = subject
        self.expected = expected
        self.created = created
        self.floor = max(expected, newest)
        """The newest message of the bucket that was known before the first sending."""
        self.write = secrets.token_urlsafe(9) + _half_digest(data)
        self.unsure = False
        """Whether some attempt may have been applied without our hearing of it."""
        self.begun = begun

    def revision(self, sequence: int) -> str:
        """What `revision_of` tells of the message, once it is stored at `sequence`."""
        return f"{sequence}@{self.write}"

    def headers(self, root: str, guard: int | None) -> dict[str, str]:
        if guard is None:
            return {WRITE: self.write, _EXPECTED: str(self.expected)}
        return {WRITE: self.write, _EXPECTED: str(guard), _EXPECTED_OF: root + ">"}

    def never_preceded(self, last: Message) -> bool:
        """Whether `last`, the key's last message, proves that this write was never applied.

        This write would have got a sequence beyond `floor`. So it was not applied if `last` is older than that,
        or if what `last` directly replaced is: its writer had the server check that, and the header is kept.
        """
        if last.sequence <= self.floor:
            return True
        predecessor = last.headers.get(_EXPECTED, "")
        return _EXPECTED_OF not in last.headers and predecessor.isdecimal() and int(predecessor) <= self.floor


def replaced_by(message: Message) -> int | None:
    """The sequence of the note that `message` replaced, as its writer had the server check it: 0 for none at all.

    None where that is not known: other programs name no sequence.
    """
    expected = message.headers.get(_EXPECTED, "")
    if _EXPECTED_OF in message.headers:
        return 0  # near the capacity, which concerns creates alone
    return int(expected) if expected.isdecimal() else None


def is_value(message: Message) -> bool:
    """Whether a note is stored here, and not the mark of a deletion.

    Some clients name the operation of a value too (`PUT`), so only the two that delete are marks, and those that the
    server writes itself.
    """
    headers = message.headers
    return headers.get(_OPERATION) not in _DELETIONS and headers.get(_MARKER_REASON) not in _MARKER_REASONS


def revision_of(message: Message) -> str:
    """The sequence, and what no other message of that sequence has: the name of the write, else when it was stored.

    The second is for what other programs write. A broker that gave a sequence twice stored at two moments. A name that
    is not of this document is no name: a program that stores edited messages anew may keep their headers.
    """
    write = message.headers.get(WRITE, "")
    is_name = _WRITE_NAME.fullmatch(write) and (len(write) != _NAME_LENGTH or _is_bound(write, message.data))
    return f"{message.sequence}@{write if is_name else message.time}"


def is_proof(message: Message) -> bool:
    """Whether the revision of `message` is that of this document alone, in whatever bucket it is found.

    So it is by the digest in a write's name, and by the moment at which the broker stored what has none: restoring
    keeps both, and nothing else gives them to another document.
    """
    mark = revision_of(message).partition("@")[2]
    return mark == message.time or _is_bound(mark, message.data)


def _is_bound(name: str, data: bytes) -> bool:
    return len(name) == _NAME_LENGTH and name.endswith(_half_digest(data))


def _half_digest(data: bytes) -> str:
    """Twelve characters that tell a document from any other one, as far as chance is concerned."""
    return base64.urlsafe_b64encode(blake2b(data, digest_size=9).digest()).decode()


def free_at(message: Message | None) -> int | None:
    """The sequence at which a key is free: 0 if never used, else its marker's; None if it holds a value."""
    if message is None:
        return 0
    return None if is_value(message) else message.sequence


def described_by_header(message: Message) -> str | None:
    """The description that the writer put beside the value; None where none is, as in what other programs write."""
    description = message.headers.get(_DESCRIPTION)
    if description is None:
        return None
    # Of a thousand, nearly all are in the form in which they were stored.
    plain = description.isascii() and description.isprintable()
    line = " ".join(description.split()) if plain else one_line(description)
    return line[:MAX_DESCRIPTION].rstrip()


def described(message: Message) -> str:
    """The description of a whole value, as reading it would show it."""
    try:
        return parse_description(message.data, len(message.data)) or ""
    except UnreadableError:
        return UNREADABLE

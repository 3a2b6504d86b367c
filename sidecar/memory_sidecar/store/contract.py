"""What a backend is: compare and swap over documents, five methods. `authority.Store` does the rest, once for all.

A backend keeps documents by key and knows nothing of runs, authority, descriptions' rules or refusals' wording. The
contract's suite (`memory_sidecar.testing`) checks each sentence below on real entries. What holds for every method:

*Order.* All changes of one key, by whatever process, have one order, and `get` sees the newest change that was
    acknowledged before it was called, by anyone. A lagging replica or a cache of its own is no such place.
*Atomicity.* A change is whole or absent. That what is there is what was expected, that there is room, and the change
    itself are one step: nothing can come between, no matter how many threads and processes share the backing store.
*Acknowledgement.* When `put` or `remove` returns, the change is visible to every other reader, and as durable as the
    backing store can make it. Before that, or when the method raises, it isn't promised.
*Unknown outcomes.* A change that was visible or under way when its confirmation failed raises `OutcomeUnknownError`,
    never another error and never success. A write of the caller's own is never taken for somebody else's: sent again
    after a lost confirmation, it is acknowledged or unknown, and no `ConflictError`.
*Threads.* Any thread may call any method at any time, from when the backend was opened until it is closed.
*Interruption.* An exception that comes from outside (Ctrl-C), a killed thread or a killed process leave the old
    document or the new one, and no lock that outlives the process.
*Errors.* Only `StoreError` and its kinds leave a backend, each with a text that a model may read: no path, no
    credential, no traceback; the cause is chained. Anything else is a fault of the backend, told as "The memory store
    failed". `UnavailableError`: surely nothing was changed.
*Keys and documents* are legal when they come here (`rules`); nothing else may be stored under the store's own root by
    its name alone. What others put there and isn't a document under a legal key is invisible, and never destroyed.
"""

from ..enumeration import Enum
from ..hints import Final, Literal, Protocol
from ..named_tuple import NamedTuple

__all__ = ["ABSENT", "ANYTHING", "Backend", "Entry", "Expected", "Info", "Item", "Stored"]


class Info(NamedTuple):
    """Where memories are. Both parts may land on a telemetry span.

    `backend` is the registered backend name. `location` is an operator's identifier (a bucket), never a
    path, a URL with userinfo or a credential; the file backend returns "".
    """

    backend: str
    location: str


class Item(NamedTuple):
    """One line of a listing. The body is always a separate read."""

    key: str
    description: str


class Entry(NamedTuple):
    """A whole memory, as read.

    `header` is what another program or a person wrote in front of the content, from the document's first byte on,
    fences and description included, as it stands there; "" where that is just what ours writes for the description,
    and where the document begins with the content. An overwrite keeps it (`document.serialize`).
    """

    description: str
    content: str
    header: str = ""


class Stored(NamedTuple):
    """A document as it is stored, and the revision that names this state of its key.

    A revision is an opaque text of at most 200 printable ASCII characters. Two different documents that a key held one
    after the other never have the same one, and every process reads the same one for the same state.
    """

    revision: str
    document: bytes


class _Expectation(Enum):
    ABSENT = "absent"
    ANYTHING = "anything"


ABSENT: Final = _Expectation.ABSENT
"""The key is to hold nothing."""
ANYTHING: Final = _Expectation.ANYTHING
"""Whatever the key holds, or nothing."""

Expected = str | Literal[_Expectation.ABSENT, _Expectation.ANYTHING]
"""A revision, `ABSENT` or `ANYTHING`: what must be there for a change to be made."""


class Backend(Protocol):
    """Documents by key. See the module's text for what holds for every method."""

    def info(self) -> Info:
        """The backend's name and location. Never fails, never does I/O."""
        ...

    def list(self) -> list[Item]:
        """Every document's key and description, sorted by key; complete, or an error. Bodies are not read.

        What stands under a legal key and cannot be read is listed with the description `document.UNREADABLE`, and hides
        no other. `document.parse_description` tells the description from a document's beginning. A document that is
        there from before the call until after it is in the listing, whatever else happens meanwhile.

        Raises:
            UnavailableError: the store cannot be reached or read now.
        """
        ...

    def get(self, key: str, *, after: str | None = None) -> Stored | None:
        """The newest document under `key`, from the place where changes are decided; None if there is none.

        `after` is a revision that the caller has for the key. A place that can lag behind what it acknowledged (a
        leader elected a moment ago) must not answer from before it; any other backend ignores it.

        It does not judge the document. One larger than `rules.MAX_READ_BYTES` may be cut right after that many bytes.

        Raises:
            UnreadableError: something is there that cannot be read: no permission, a damaged disk, or no document at
                all but something else that has the key's name.
            UnavailableError: the store cannot be reached or read now.
        """
        ...

    def put(self, key: str, document: bytes, expected: Expected) -> str:
        """Store `document`, at most `rules.MAX_ENTRY_BYTES`, if the key is at `expected`. Returns its revision.

        A key that holds nothing is filled only while fewer than `rules.MAX_ENTRIES` documents are stored; replacing one
        is always within capacity. Of any number of calls at once that expect the same state, one succeeds.

        Raises:
            ConflictError: the key is not at `expected`; nothing was stored.
            StoreFullError: there is no room; nothing was stored. A conflict is told first.
            UnreadableError: something that is no document has the key's name; it is left as it is.
            UnavailableError: nothing was stored.
            OutcomeUnknownError: it may be stored; then under the error's `revision`, where that is known.
        """
        ...

    def remove(self, key: str, expected: str | Literal[_Expectation.ANYTHING]) -> str | None:
        """Remove the document under `key` if it is at `expected`. Returns the revision that this call removed, or None
        if the key holds nothing: of any number of calls at once, one gets the revision.

        Raises:
            ConflictError: the key holds another revision; nothing was removed.
            UnreadableError: something that is no document has the key's name; it is left as it is.
            UnavailableError: nothing was removed.
            OutcomeUnknownError: the document may or may not be gone.
        """
        ...

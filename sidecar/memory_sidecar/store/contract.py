"""What a store is: six methods and no close. A backend borrows its connection and never closes it.

Obligations that hold for every method of every backend:

- it validates the key (`rules`) before it touches the store, and raises only `StoreError` and its kinds;
- it is safe to call from several threads and from several independent processes sharing one backing store;
- a change is whole or absent, and an acknowledged change stays: it is durable when the method returns, as far
  as the backing store can promise;
- cancelling or killing a call leaves the old value or the new one;
- `scope` is the calling run's record. None is valid and authorises no overwrite. It is passed on each call,
  never kept, so that one store serves many runs.
"""

from typing import NamedTuple, Protocol

from .scope import Scope

__all__ = ["Entry", "Info", "Item", "Removing", "Store"]


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

    `header` is what another program keeps in front of the content, from the document's first byte on, fences and
    description included, as it stands there; "" where nothing but the description is. An overwrite keeps it
    (`document.serialize`).
    """

    description: str
    content: str
    header: str = ""


class Store(Protocol):
    """A key/value store of notes. See the module's text for what holds for every method."""

    def info(self) -> Info:
        """The backend's name and location. Never fails, never does I/O."""
        ...

    def list(self) -> list[Item]:
        """Every entry, sorted by key; complete, or an error. Grants no authority.

        An entry that exists but cannot be read is listed with the description `(unreadable)` and hides
        no other. Bodies are not read.

        Raises:
            UnavailableError: the store cannot be reached or read now.
        """
        ...

    def read(self, key: str, *, scope: Scope | None = None) -> Entry:
        """The entry under `key`. Records its revision in `scope`: the only way to earn authority by looking.

        Raises:
            InvalidError: the key is not legal.
            KeyNotFoundError: nothing is stored under it; `scope` forgets the key.
            UnreadableError: something is, but it is not a readable note.
            UnavailableError: the store cannot be reached or read now.
        """
        ...

    def create(self, key: str, description: str, content: str, *, scope: Scope | None = None) -> None:
        """Store a new entry. Of any number of concurrent creates of one key, one succeeds.

        Grants authority over the key: the caller just wrote that value.

        Raises:
            InvalidError: a part is not legal.
            KeyExistsError: the key already holds an entry; it is unchanged.
            StoreFullError: `rules.MAX_ENTRIES` are stored.
            UnavailableError: nothing was stored.
            OutcomeUnknownError: the entry may or may not be stored; `scope` forgets the key, for that reason.
        """
        ...

    def update(self, key: str, description: str, content: str, *, scope: Scope | None = None) -> None:
        """Replace what `key` holds. Grants authority over the new value.

        Where the backend requires read before update, it replaces only the very revision that `scope`
        holds (compare and swap). Elsewhere it also writes a key that holds nothing yet, within capacity.

        Raises:
            InvalidError: a part is not legal.
            StaleError: read before update is required and `scope` has no revision of the key (`not_read`)
                or an old one (`changed`); nothing was written and `scope` forgets the key.
            StoreFullError: the key holds nothing and the store is full.
            UnreadableError: what is stored is not a readable note; it is left as it is.
            UnavailableError: nothing was stored.
            OutcomeUnknownError: the new value may or may not be stored; `scope` forgets the key.
        """
        ...

    def delete(self, key: str, *, scope: Scope | None = None) -> bool:
        """Remove the entry. True exactly when this call removed one, whose revision `scope` then records; it
        forgets the key either way.

        Raises:
            InvalidError: the key is not legal.
            UnreadableError: what is stored is not a readable note; it is left as it is.
            UnavailableError: nothing was removed.
            OutcomeUnknownError: the entry may or may not be gone; `scope` forgets the key.
        """
        ...


class Removing(Protocol):
    """What a store may offer an operator beyond the six methods, which serve a model."""

    def delete_revision(self, key: str, revision: str) -> bool:
        """Remove the entry only while it is at `revision`, as `read` recorded it; True exactly when this call did.

        Whoever keeps a copy before removing needs it: a plain `delete` would also remove what was written since.

        Raises:
            as `Store.delete` does.
        """
        ...

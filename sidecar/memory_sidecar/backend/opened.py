"""What opening a backend yields, the same for all of them."""

from collections.abc import Callable, Mapping, Sequence

from ..hints import ClassVar
from ..named_tuple import NamedTuple
from ..remedy import RemedyError
from ..store.authority import Store

__all__ = ["BackendError", "NotMadeError", "Opened", "Running", "nothing"]


class BackendError(RemedyError):
    """A backend cannot be opened: the run must not start. It is told to the operator, with the remedy."""


class NotMadeError(BackendError):
    """There is no such store yet, and it was not to be made; a run that starts makes it."""

    THEN: ClassVar[str] = "it will be made at the first start"


class Opened(NamedTuple):
    """A usable store, and the `fingerprint` that tells it from every other store.

    Revisions mean something only in the store that made them, so a run resumed on another fingerprint
    keeps none. It identifies without revealing: a digest, never a path or an address.
    """

    store: Store
    fingerprint: str
    names: Callable[[str], Mapping[str, str]] | None = None
    """What the note under a key is called, by the fingerprint of each store in which it can be met; where prefixes
    nest, one note has several names. None: it is in this store alone."""
    of: Callable[[str], str | None] = lambda _identity: None
    """The fingerprint of the memory that an identity has beside this one, by default; None if that cannot be told."""
    holds: Callable[[str, str], bool] | None = None
    """Whether a key holds the very document of a revision, though another store gave it: where a store that is restored
    cannot be told from one that is made anew, its revisions are proofs. None where they mean nothing elsewhere.
    It raises StoreError."""


def nothing() -> None:
    """There is nothing to begin or to close."""


class Running(NamedTuple):
    """An open backend, how to use it from a thread, and which rights the process must keep for it.

    `begin` starts what threads the backend needs; it is called once, before the store is first used and after the
    process has given up its other rights. From then on any thread may call the store. `close` releases what the backend
    needed, within a few seconds, whatever state it is in.
    """

    opened: Opened
    begin: Callable[[], None] = nothing
    close: Callable[[], None] = nothing
    directories: tuple[str, ...] = ()
    """Where it writes files; none if it only reads."""
    only_read: tuple[str, ...] = ()
    """Where it reads files that the process must not be able to write."""
    ports: tuple[int, ...] | None = None
    """TCP ports it connects to; None for no network at all."""
    open_for: Callable[[str], Opened] | None = None
    """Of a place that many identities share: opens the memory of one, from any thread, after `begin`. `opened` is
    nobody's then. It raises BackendError."""
    problems: Sequence[RemedyError] = ()
    """Why a run would be refused here, where `Place.anyway` let it be opened for reading all the same."""

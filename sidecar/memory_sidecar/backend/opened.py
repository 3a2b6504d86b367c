"""What opening a backend yields, the same for all of them."""

from ..named import NamedTuple
from ..remedy import RemedyError
from ..store.store import Store

__all__ = ["BackendError", "Opened"]


class BackendError(RemedyError):
    """A backend cannot be opened: the run must not start. It is told to the operator, with the remedy."""


class Opened(NamedTuple):
    """A usable store, and the `fingerprint` that tells it from every other store.

    Revisions mean something only in the store that made them, so a run resumed on another fingerprint
    keeps none. It identifies without revealing: a digest, never a path or an address.
    """

    store: Store
    fingerprint: str

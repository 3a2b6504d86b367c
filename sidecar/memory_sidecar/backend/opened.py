"""What opening a backend yields, the same for all of them."""

from typing import NamedTuple

from ..store.contract import Store

__all__ = ["BackendError", "Opened"]


class BackendError(Exception):
    """A backend cannot be opened: the run must not start. The text is for the operator, with the remedy."""


class Opened(NamedTuple):
    """A usable store, and the `fingerprint` that tells it from every other store.

    Revisions mean something only in the store that made them, so a run resumed on another fingerprint
    keeps none. It identifies without revealing: a digest, never a path or an address.
    """

    store: Store
    fingerprint: str

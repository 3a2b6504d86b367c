"""A run's authority: which keys it has seen, and at which revision.

Only a backend changes a scope, and only for these reasons: a read or a write of the run's own shows it a
value (grant); a delete, a refusal or an unknown outcome means it no longer knows the value (drop). Listing
and the index grant nothing, nor does a refusal that shows a description (show): that is noted for the ledger alone. A
`None` scope is valid everywhere and authorises nothing.
"""

from collections.abc import Mapping

from ..hints import Final, Literal
from ..named_tuple import NamedTuple

__all__ = ["SHOWN", "Change", "Granted", "Lost", "Scope"]

Granted = Literal["read", "created", "updated"]
Lost = Literal["deleted", "stale", "unknown"]
"""Why authority goes: this run removed the note; it was refused, or what it knew is void; nobody knows whether its
change was stored."""
SHOWN: Final = "shown"
"""The model saw the note's description and not its content: no authority comes or goes."""


class Change(NamedTuple):
    """One step of a scope: `revision` is what the key was seen at, or None when the authority went."""

    key: str
    revision: str | None
    why: Granted | Lost | Literal["shown"]
    met: str | None = None
    """Of a loss, where the backend knows it: the revision that was removed, or that may have been stored."""


class Scope:
    """Revisions by key. A revision is an opaque text that only the backend that made it understands."""

    def __init__(self, keys: Mapping[str, str] | None = None) -> None:
        self._keys = dict(keys or {})
        self._changes: list[Change] = []

    def revision(self, key: str) -> str | None:
        """The revision at which this run last saw `key`, or None if it has no authority over it."""
        return self._keys.get(key)

    def grant(self, key: str, revision: str, why: Granted) -> None:
        """The run has seen `key` at `revision`. Seeing the same revision again by reading is no change."""
        if why == "read" and self._keys.get(key) == revision:
            return
        self._keys[key] = revision
        self._changes.append(Change(key, revision, why))

    def drop(self, key: str, why: Lost, met: str | None = None) -> None:
        """The run's knowledge of `key` is void. Recorded even if there was none: a refusal is evidence."""
        self._keys.pop(key, None)
        self._changes.append(Change(key, None, why, met))

    def show(self, key: str, revision: str | None) -> None:
        """The model was shown the description that `key` has at `revision`. Its authority stays as it is."""
        self._changes.append(Change(key, revision, SHOWN))

    def snapshot(self) -> dict[str, str]:
        """All keys and revisions, sorted by key: what a journal or a harness keeps."""
        return dict(sorted(self._keys.items()))

    def drain(self) -> list[Change]:
        """The changes since the last drain, oldest first; the caller must journal them before it replies."""
        changes, self._changes = self._changes, []
        return changes

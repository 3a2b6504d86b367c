"""Every way a store can refuse. A message here may be shown to a model as it is.

So each says in one sentence what is wrong and in one what to do, and none carries a path, a credential or a
traceback: the cause is chained for the operator's log, and what an operator must mend is kept beside the text.
"""

from ..hints import ClassVar, Literal

__all__ = [
    "ConflictError",
    "InvalidError",
    "KeyExistsError",
    "KeyNotFoundError",
    "OutcomeUnknownError",
    "StaleError",
    "StoreError",
    "StoreFullError",
    "UnavailableError",
    "UnreadableError",
]


class StoreError(Exception):
    """A store refused or failed. `code` is a stable word for telemetry; the text is for the model."""

    code: ClassVar[str] = "error"
    remedy: str = ""
    """What is wrong and what mends it, for the operator and never for a model; empty where the text says all."""


class InvalidError(StoreError):
    """A key, description or content breaks a rule. The store was not touched."""

    code = "invalid"


class ConflictError(StoreError):
    """A backend's word: what is there is not what a change expected. Nothing was changed.

    `absent` tells whether nothing is there. The `Store` decides what that means for a run, so no model reads this text.
    """

    code = "conflict"

    def __init__(self, *, absent: bool) -> None:
        self.absent = absent
        super().__init__("This memory changed meanwhile. Read it, then try again.")


class KeyExistsError(StoreError):
    """`create` met a key that already holds a note (the sources' ErrExists)."""

    code = "exists"


class StaleError(StoreError):
    """An update without the authority it needs (the sources' ErrStale). Nothing was written.

    `reason` is `not_read` when the scope holds no revision of the key, `changed` when it holds one that is
    no longer what is stored.
    """

    code = "stale"

    def __init__(self, reason: Literal["not_read", "changed"]) -> None:
        self.reason: Literal["not_read", "changed"] = reason
        super().__init__(
            "This run has not read this memory. Read it, then write again."
            if reason == "not_read"
            else "This memory changed after this run read it. Read it, then write again."
        )


class KeyNotFoundError(StoreError):
    """`read` met a key that holds nothing."""

    code = "not_found"

    def __init__(self) -> None:
        super().__init__("Nothing is stored under this key. Call memory_list to see the keys that exist.")


class StoreFullError(StoreError):
    """The store holds as many entries as it may. Nothing was written."""

    code = "full"


class UnreadableError(StoreError):
    """Something is stored under the key, but it is not a note that can be read. It was left as it is."""

    code = "unreadable"


class UnavailableError(StoreError):
    """The store cannot be used now: a full disk, missing permission, a broker out of reach. Nothing changed."""

    code = "unavailable"


class OutcomeUnknownError(StoreError):
    """A change may or may not have been stored: its confirmation was lost. Only a read can tell.

    `revision` is the one that may have been stored, or removed, where the backend knows it.
    """

    code = "outcome_unknown"

    def __init__(self, revision: str | None = None, *, why: str = "") -> None:
        self.revision = revision
        super().__init__(
            f"{why}The outcome of this change is unknown: it may or may not have been stored. "
            "Read the key to see what it holds now."
        )

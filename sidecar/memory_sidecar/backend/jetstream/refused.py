"""What the refusals of a broker mean: in words for the model, and for the operator with what mends it."""

from typing import Final

from ...store.errors import StoreError, StoreFullError, UnavailableError
from .api import NO_ROOM, NO_STREAM, RefusedError, is_temporary
from .settings import NATS, WHO

__all__ = ["AWAY", "no_room", "no_room_to_delete", "not_permitted", "refusal"]

AWAY: Final = (
    "The memory store cannot be reached now. Nothing was changed. Try again in a little while, or go on without memory."
)

_BUCKET_FULL: Final = 10077
"""The bucket is at a limit of its own; the other codes of `NO_ROOM` are about the account or the server."""


def refusal(error: RefusedError, bucket: str, root: str) -> StoreError:
    """A refusal that repeating cannot cure, for the model. `root` is what the subjects of its notes begin with."""
    if error.error == NO_STREAM:
        return UnavailableError(
            "The memory store is gone: its bucket was deleted. Nothing was changed. "
            "Go on without memory; its operator must make the bucket again."
        )
    if error.error in NO_ROOM:
        # Deleting a memory is no way out: the mark that is stored in its place may take as much room.
        full = StoreFullError(
            "The memory store has no room left. Nothing was changed. "
            "Go on without storing; its operator must make room."
        )
        full.remedy = no_room(error, bucket)
        return full
    if error.code == 403:
        refused = UnavailableError(
            "The broker does not permit this. Nothing was changed. Go on without it; the operator must allow it."
        )
        refused.remedy = not_permitted(error, root)
        return refused
    if is_temporary(error):
        return UnavailableError(AWAY)
    return UnavailableError(
        "The memory store refused this. Nothing was changed. Go on without it; its operator must look into it."
    )


def not_permitted(error: RefusedError, root: str = "") -> str:
    """What an operator must allow: the subject, and where all that is needed stands.

    One key under `root` was meant, and all of them must be allowed; nor may a line of the log hold a key.
    """
    missing = error.forbidden or "do this"
    if root and root in missing:
        missing = missing[: missing.index(root)] + root + ">"
    own_inbox = ", or set inbox_prefix in the NATS context to where it may" if missing.startswith("subscribe") else ""
    return (
        f"the broker does not permit this user to {missing}; allow that{own_inbox} "
        "(memory-sidecar permissions --config FILE prints all that is needed)"
    )


def no_room(error: RefusedError, bucket: str) -> str:
    """For the operator: which limit is met, and the commands that move it."""
    if error.error == _BUCKET_FULL:
        return (
            f'KV bucket "{bucket}" is full ({error}); raise its limit with: {NATS} stream edit KV_{bucket} '
            f"--max-bytes=BYTES --max-msgs=-1, or remove the marks of deletions with: {NATS} kv compact {bucket}{WHO}"
        )
    return (
        f'the account or the server of KV bucket "{bucket}" has no room left ({error}); '
        f"see {NATS} account info{WHO}, and raise the limit of the account or free space at the server"
    )


def no_room_to_delete(full: StoreError, cause: RefusedError) -> StoreError:
    """As `full`, of a deletion: it could neither be marked nor, for the reason `cause`, be done by a purge."""
    refused = StoreFullError(
        "The memory store has no room left, not even to note that a memory was deleted. Nothing was changed. "
        "Go on without storing; its operator must make room."
    )
    purge = not_permitted(cause) if cause.code == 403 else f"the broker refused to purge the key ({cause})"
    refused.remedy = f"{full.remedy}; or delete as a user who may purge: {purge}"
    return refused

"""The options of the JetStream backend, and the prefix that they mean. Pure, and loads no client.

A stored name is prefix, dot, key.
"""

import re
from collections.abc import Iterable
from typing import Annotated, Final

from ...named_tuple import NamedTuple
from ...options import whole
from ...store.rules import KEY, MAX_KEY, is_key
from ..opened import BackendError

__all__ = ["JetStreamOptions", "nesting", "resolve_prefix"]

_BUCKET: Final = r"[A-Za-z0-9_-]{1,200}"


class JetStreamOptions(NamedTuple):
    """`harness.memory.options` of the JetStream backend."""

    bucket: Annotated[str, {"pattern": whole(_BUCKET)}]
    """The KV bucket, which must exist."""
    prefix: Annotated[str | None, {"pattern": whole(f"{KEY}|"), "maxLength": MAX_KEY}] = None
    """Before every key, with a dot between: the identity if omitted; "" for none."""
    no_require_read_before_update: bool = False
    """Allow overwriting what this run has not read."""


def resolve_prefix(options: JetStreamOptions, identity: str) -> str:
    """The prefix in force, "" for a flat bucket.

    Raises:
        BackendError: the bucket, the prefix or the identity that stands in for it is not legal.
    """
    if re.fullmatch(_BUCKET, options.bucket) is None:
        raise BackendError(
            f"harness.memory.options.bucket {options.bucket!r:.80} is not the name of a KV bucket; "
            "use letters, digits, _ and -"
        )
    if options.prefix is None:
        if not is_key(identity):
            raise BackendError(
                f"the identity {identity!r:.80} cannot be a key prefix; set identity to letters, digits and "
                "_ = - or set harness.memory.options.prefix"
            )
        return identity
    if options.prefix and not is_key(options.prefix):
        raise BackendError(
            f"harness.memory.options.prefix {options.prefix!r:.80} is not legal; use letters, digits and . _ = - "
            'with no dot at either end, or "" for none'
        )
    return options.prefix


def nesting(prefix: str, others: Iterable[str] = ()) -> list[str]:
    """What an operator must know about who shares keys with `prefix`, one sentence each; [] if nobody can.

    A stored name is prefix, dot, key, and keys may hold dots: `a` with key `b.c` and `a.b` with key `c` are one
    and the same. `others` are further prefixes in use, as far as they are known.
    """
    notes = []
    if not prefix:
        notes.append("the flat prefix sees, and may change, the keys of every other prefix of the bucket")
    parts = prefix.split(".")
    for length in range(1, len(parts)):
        outer = ".".join(parts[:length])
        notes.append(f"agents with the prefix {outer} see, and may change, these keys too")
    for other in sorted(set(others)):
        if prefix and other.startswith(prefix + "."):
            notes.append(f"this prefix sees, and may change, the keys of the prefix {other}")
        elif not other and prefix:
            notes.append("agents with the flat prefix see, and may change, these keys too")
    return notes

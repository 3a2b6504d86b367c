"""What `doctor` sees of a NATS context's secrets: who else may read them, and until when they hold. None is told."""

import base64
import json
import os
import shlex
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from ..description import Finding
from . import context as nats_context
from .context import ContextError, NatsContext
from .credentials import jwt_of

__all__ = ["looked_at"]

_SOON: Final = 14 * 86400
"""Seconds before its end from which on a JWT is told: time enough for somebody to issue another."""
_NEVER: Final = 253402300800
"""The year 10000, as a Unix time. A user whose `exp` is 0 does not expire."""


def looked_at(name: str | None) -> Iterator[Finding]:
    """What an operator should know of the secrets of the context `name`, or of the one that is chosen."""
    with suppress(ContextError, OSError):
        context = nats_context.load(name)
        yield from _open_to_others(context)
        yield from _ends(context)


def _open_to_others(context: NatsContext) -> Iterator[Finding]:
    files = [path for path in (context.creds, context.nkey, context.key) if path]
    if context.password or context.token or context.user_seed:
        files.append(nats_context.path_of(context.name))
    for path in files:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        if mode & 0o077:
            found = f"{path} holds credentials and is open to other users (mode {mode:04o})"
            yield Finding("credentials-open-to-others", "note", found, f"chmod 600 {shlex.quote(path)}")


def _ends(context: NatsContext) -> Iterator[Finding]:
    expires = _expires(context.user_jwt or jwt_of(context))
    left = None if expires is None else expires - time.time()
    if left is None or left > _SOON:
        return
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(expires))
    mend = (
        f'issue another for the NATS context "{context.name}", and put it in its place: it is read at each connection'
    )
    if left <= 0:
        yield Finding("jwt-expired", "wrong", f"the user's JWT expired at {when}", mend)
    else:
        yield Finding("jwt-expires", "note", f"the user's JWT expires at {when}", mend)


def _expires(jwt: str) -> int | None:
    """The `exp` claim; None if there is none or no clock tells that time. Nothing is verified: the broker does that."""
    try:
        part = jwt.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
        expires = int(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError, OverflowError, RecursionError):
        return None
    return expires if 0 < expires < _NEVER else None

"""Notes in a JetStream KV bucket that the operator owns: bound, never created, and shared by a fleet.

This file opens it: the connection, the failures of a start and their words. The options are in `options`; what a bucket
must be set to is in `settings`; what can be done with an open one, in `notes`; listings in `view`; how a note is a
message, in `message`; the requests themselves, in `api`.
"""

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ...named_tuple import NamedTuple
from ...system.digest import digest
from ..opened import BackendError
from . import connect as nats_connect
from . import context as nats_context
from .api import NO_STREAM, Api, NoAnswerError, RefusedError, StreamInfo, is_temporary
from .notes import Notes
from .options import JetStreamOptions, resolve_prefix
from .refused import not_permitted
from .settings import WHO, Problem, add_command, is_readable, refusals
from .watched import Settings

if TYPE_CHECKING:
    from nats.aio.client import Client

__all__ = ["UNREACHABLE", "bind", "bind_info", "open_jetstream"]

BIND_SECONDS: Final = 10.0
"""The whole of `bind`: a wrong name surfaces at the start of a run instead of hanging it."""


class Bound(NamedTuple):
    """The notes under a prefix of a bucket, for the connection's loop, and what makes a store of them."""

    notes: Notes
    guard: bool
    options: JetStreamOptions
    prefix: str
    created: str
    """When the bucket was made."""
    rebind: Callable[[str], Coroutine[Any, Any, "Bound"]]
    """Binds anew over the same connection, under the prefix of another identity."""
    refused: Sequence[Problem] = ()
    """Why a run would be refused this bucket, if it was bound for reading all the same."""

    @property
    def fingerprint(self) -> str:
        return self.fingerprint_of(self.prefix)

    def fingerprint_of(self, prefix: str) -> str:
        """What tells the store under a prefix of this bucket from every other one."""
        identifying = json.dumps([self.options.bucket, prefix, self.created]).encode()
        return "jetstream:" + digest(identifying)

    def names(self, key: str) -> dict[str, str]:
        """What the note under `key` is called, by the fingerprint of each store in the bucket that sees it."""
        parts = [*filter(None, self.prefix.split(".")), *key.split(".")]
        return {self.fingerprint_of(".".join(parts[:length])): ".".join(parts[length:]) for length in range(len(parts))}

    def beside(self, identity: str) -> str | None:
        """The fingerprint of another identity's store, whose notes are surely none of this one's."""
        if self.options.prefix is not None or "." in identity or "." in self.prefix:
            return None
        return self.fingerprint_of(identity)


async def bind(
    nc: "Client",
    options: JetStreamOptions,
    *,
    identity: str,
    domain: str | None = None,
    api_prefix: str | None = None,
    anyway: bool = False,
) -> Bound:
    """Bind to the bucket over a connection that stays the caller's. Never creates or changes a bucket.

    Takes at most ten seconds. `domain` or `api_prefix` lead to the JetStream that holds the bucket. `anyway`: also
    a bucket that is refused, if reading it harms nothing.

    Raises:
        BackendError: the bucket cannot be used; the text holds the remedy.
    """
    prefix = resolve_prefix(options, identity)
    bucket = options.bucket
    api = Api(nc, domain=domain, api_prefix=api_prefix)
    info = await bind_info(api, bucket)

    def judge(config: Mapping[str, Any]) -> list[Problem]:
        return refusals(bucket, config)

    refused = judge(info.config)
    if refused and not (anyway and is_readable(bucket, info.config)):
        raise BackendError(*refused[0])
    notes = Notes(api, bucket, prefix, created=info.created, settings=Settings(bucket, judge, refused))

    def rebind(other: str) -> Coroutine[Any, Any, Bound]:
        own = options._replace(prefix=None)
        return bind(nc, own, identity=other, domain=domain, api_prefix=api_prefix)

    return Bound(notes, not options.no_require_read_before_update, options, prefix, info.created, rebind, refused)


class Connected(NamedTuple):
    """A bound bucket and its connection, which the caller owns."""

    bound: Bound
    close: Callable[[], Coroutine[Any, Any, None]]
    """Closes the connection within two seconds, whatever the broker does."""
    ports: tuple[int, ...]
    """The TCP ports that staying connected needs: those of the cluster's members known now, and of name servers."""


async def open_jetstream(
    options: JetStreamOptions, *, identity: str, context: str | None, locked: bool = False, anyway: bool = False
) -> Connected:
    """Connect as the NATS context says and bind: each of the two steps takes at most ten seconds.

    `context` None stands for NATS_CONTEXT or the selected context. `locked`: names are looked up as a process that
    has given up its rights still can. `anyway` is as in `bind`.

    Raises:
        BackendError: there is no connection or no usable bucket; the text holds the remedy.
    """
    resolve_prefix(options, identity)  # What is wrong without looking at a broker is told without one.
    try:
        loaded = nats_context.load(context)
        nc = await nats_connect.connect(loaded, locked=locked)
    except nats_context.ContextError as error:
        raise BackendError(error.problem, error.remedy) from error

    async def close() -> None:
        await nats_connect.close(nc)

    try:
        bound = await bind(
            nc,
            options,
            identity=identity,
            domain=loaded.jetstream_domain or None,
            api_prefix=loaded.jetstream_api_prefix or None,
            anyway=anyway,
        )
    except BaseException:
        await close()
        raise
    return Connected(bound, close, nats_connect.ports(loaded, nc))


async def bind_info(api: Api, bucket: str) -> StreamInfo:
    """The bucket's settings and state, asked for until the time of a start is over.

    Raises:
        BackendError: there is no such bucket, or no answer; the text holds the remedy.
    """
    deadline = asyncio.get_running_loop().time() + BIND_SECONDS
    absent = 0
    while True:
        left = max(0.1, deadline - asyncio.get_running_loop().time())
        try:
            # The client library can wait on its own, out of reach of one request's limit.
            async with asyncio.timeout(left):
                return await api.info(f"KV_{bucket}", min(3.0, left))
        except RefusedError as error:
            absent += error.error in _JETSTREAM_OFF
            if not is_temporary(error) or left < 1.0 or absent > ABSENT:
                raise BackendError(_bind_refusal(error, bucket)) from error
        except NoAnswerError as error:
            absent += not error.served
            if absent > ABSENT:
                raise BackendError(
                    "JetStream does not answer on this connection; enable it on the server and for this account, "
                    "or check jetstream_domain and jetstream_api_prefix in the NATS context"
                ) from error
            if left < 1.0:
                raise BackendError(UNREACHABLE) from error
        except TimeoutError as error:
            raise BackendError(UNREACHABLE) from error
        await asyncio.sleep(0.25)


ABSENT: Final = 8
"""How many answers, a quarter of a second apart, say that JetStream is off and not merely starting."""

_JETSTREAM_OFF: Final = frozenset({10039, 10076})

UNREACHABLE: Final = (
    f"the NATS broker did not answer within {BIND_SECONDS:.0f} seconds; check that it runs, that the NATS context "
    "points to it and that its permissions allow the JetStream API"
)


def _bind_refusal(error: RefusedError, bucket: str) -> str:
    if error.error == NO_STREAM:
        return f'KV bucket "{bucket}" does not exist; create it with: {add_command(bucket)}{WHO}'
    if error.code == 403:
        return not_permitted(error)
    if error.error in _JETSTREAM_OFF:
        return (
            "JetStream is not enabled for this account; enable it on the server, or use a NATS context of an "
            "account that has it"
        )
    return f'the KV bucket "{bucket}" cannot be used: {error}; check the state of JetStream on the server'

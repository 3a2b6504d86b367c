"""The row of the backend that keeps notes in a bucket. Nothing that needs the client is loaded before it is used."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..opened import BackendError, Opened, Running
from ..row import Place, Row
from .options import JetStreamOptions, nesting, resolve_prefix

if TYPE_CHECKING:
    from ..description import Description, Finding, Looked
    from .thread import BrokerThread

__all__ = ["ROW"]


def _open(options: JetStreamOptions, place: Place) -> Running:
    broker = _broker(options, place)
    return Running(broker.opened, broker.begin, broker.close, ports=broker.ports, problems=broker.problems)


def _check_many(options: JetStreamOptions) -> None:
    """Raise `BackendError` if the options name one prefix for all identities."""
    if options.prefix is not None:
        raise BackendError(
            "harness.memory.options.prefix is one prefix, which many identities would share",
            "leave it out: each identity is its own prefix",
        )


def _open_many(options: JetStreamOptions, place: Place) -> Running:
    """The bucket in which every identity has its prefix, over one connection.

    Raises:
        BackendError: it cannot be used.
    """
    from ...store.authority import Store
    from ...store.nowhere import Nowhere

    broker = _broker(options._replace(prefix=""), place)

    def open_for(identity: str) -> Opened:
        if "." in identity:
            outer = identity.partition(".")[0]
            raise BackendError(
                f"the prefix {identity!r} lies within that of an identity {outer!r}, whose keys may hold dots",
                "name identities without dots on JetStream",
            )
        return broker.open_for(identity)

    # What the connection was opened with sees all prefixes, so it is nobody's.
    flat = broker.opened.store
    nobodys = Opened(Store(Nowhere("No identity is named.", flat.info()), guard=flat.guard), "none")
    return Running(nobodys, broker.begin, broker.close, ports=broker.ports, open_for=open_for)


def _broker(options: JetStreamOptions, place: Place) -> "BrokerThread":
    from .client import MISSING, load

    try:
        load()  # before asyncio, which the next modules import
    except ImportError as error:
        raise BackendError(*MISSING) from error
    from .bucket import open_jetstream
    from .thread import BrokerThread

    return BrokerThread(
        lambda: open_jetstream(
            options, identity=place.identity or "", context=place.context, locked=place.locked, anyway=place.anyway
        )
    )


def _warnings(options: JetStreamOptions, place: Place, identities: Callable[[], Sequence[str]]) -> list[str]:
    from . import context as nats_context

    told = []
    if nats_context.is_by_chance(place.context):
        told.append(
            "nobody configured a NATS context, so the one selected in this user's shell is used "
            f"({nats_context.chosen(None)}); set nats_context, so that selecting another moves no memory"
        )
    if options.prefix is not None:
        told += nesting(options.prefix)
    elif place.identity is not None:
        told += nesting(resolve_prefix(options, place.identity), identities())
    return told


def _describe(options: JetStreamOptions, place: Place) -> "Description":
    from ..description import Description, fact, guarded
    from . import context as nats_context

    named = options.prefix is not None or place.identity is not None
    prefix = resolve_prefix(options, place.identity or "unknown")
    context = nats_context.chosen(place.context)
    shared = nesting(prefix) if named else []
    nobody_seen = "agents of the same, a flat or a nesting prefix; --check looks"
    facts = [
        fact("bucket", options.bucket),
        fact("context", context, context or "none; set nats_context, or choose one with: nats context select"),
        fact("prefix", prefix if named else None, (prefix or "none; the bucket is flat") if named else "the identity"),
        fact("shared", shared, "; ".join(shared) or nobody_seen, "shared with"),
        guarded(not options.no_require_read_before_update),
    ]
    return Description(facts, named, prefix=prefix if named else "")


def _check(options: JetStreamOptions, place: Place) -> "Looked":
    import asyncio

    from ..description import Looked, fact
    from .inspection import inspect_jetstream
    from .settings import NATS, WHO

    looking = inspect_jetstream(
        options, identity=place.identity or "", context=place.context, read_only=place.read_only
    )
    state, refused, found = asyncio.run(looking)
    facts = [fact(name, value, "none seen" if value == [] else None) for name, value in state.items()]
    return Looked(
        facts,
        [str(problem) for problem in refused],
        found,
        state["keys_here"],
        f"{NATS} kv compact {options.bucket}{WHO}",
    )


def _aside(_options: JetStreamOptions, place: Place) -> "Sequence[Finding]":
    from .kept_secrets import looked_at

    return list(looked_at(place.context))


ROW = Row(
    "jetstream",
    JetStreamOptions,
    _open,
    _describe,
    _check,
    # The prefix is the identity, if it is left out.
    must_be_named=lambda options: "harness.memory.options.prefix" if options.prefix is None else "",
    connects=True,
    label="broker",
    open_many=_open_many,
    check_many=_check_many,
    aside=_aside,
    warnings=_warnings,
)

"""The row of the backend that keeps notes in a bucket. Nothing that needs the client is loaded before it is used."""

from typing import TYPE_CHECKING

from ..opened import Running
from ..row import Place, Row
from .options import JetStreamOptions, nesting, resolve_prefix

if TYPE_CHECKING:
    from ..description import Description, Looked

__all__ = ["ROW"]


def _open(options: JetStreamOptions, place: Place) -> Running:
    from contextlib import suppress

    from .client import load

    with suppress(ImportError):  # told when it connects
        load()  # before asyncio, which the next modules import
    from .bucket import open_jetstream
    from .thread import BrokerThread

    broker = BrokerThread(
        lambda: open_jetstream(options, identity=place.identity or "", context=place.context, locked=place.locked)
    )
    return Running(broker.opened, broker.begin, broker.close, ports=broker.ports)


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
    return Description(facts, named)


def _check(options: JetStreamOptions, place: Place) -> "Looked":
    import asyncio

    from ..description import Finding, Looked, fact
    from .inspection import inspect_jetstream

    looking = inspect_jetstream(options, identity=place.identity or "", context=place.context)
    state, refused = asyncio.run(looking)
    facts = [fact(name, value, "none seen" if value == [] else None) for name, value in state.items()]
    kinds = {"full": "wrong", "soon_full": "note", "replicas_absent": "note", "may_be_lost": "note"}
    findings = [
        # Each sentence of `settings` ends with what mends it.
        Finding(severity, what.partition("; ")[0], what.partition("; ")[2])
        for kind, severity in kinds.items()
        for what in state[kind]
    ]
    return Looked(facts, refused, findings, state["keys_here"], f"nats kv compact {options.bucket}")


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
)

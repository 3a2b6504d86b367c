"""What OpenTelemetry is told: a span for each request, one below it for each store operation, and metrics.

Names are those of OpenTelemetry's conventions for MCP, for GenAI tools and memories, and for databases; our own
begin with `memory_sidecar.`. Nothing of a note is told: no content, no description, no key, no arguments, no error
text. Of names that a model or client can choose freely, none is told that this process doesn't know.

A span's parent is passed along, never taken from the thread: a store may work on another one. How all this reaches a
collector is the affair of `otlp`, the only importer of this module that has not already decided to use it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from . import gauges

__all__ = ["Operation", "Served", "Telemetry"]

_MAX_TEXT: Final = 128
"""Characters of an id that a harness chose."""

_ANSWERS: Final = ("ok", "not_found", "cancelled")
"""Outcomes that are no refusal."""

_BUCKETS: Final = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)
"""Seconds. Those of the MCP conventions, and below them some for a server that is no network away."""

_MEMORY_OPERATIONS: Final = {
    "list": "search_memory",
    "read": "search_memory",
    "create": "create_memory",
    "update": "update_memory",
    "delete": "delete_memory",
}
"""A store's methods in the words of the GenAI conventions."""


_CHANGES: Final = {"create": 1, "delete": -1}
"""What one operation does to the number of notes."""


class Telemetry:
    """The spans and metrics of one process. `close` sends what waits, within a few seconds."""

    def __init__(self, tracer: Tracer, meter: Meter, close: Callable[[], None], backend: str, location: str) -> None:
        self.close = close
        self._tracer = tracer
        self._where = {"memory_sidecar.backend": backend}
        if location:
            self._where["memory_sidecar.location"] = location
        self._duration = meter.create_histogram(
            "mcp.server.operation.duration",
            unit="s",
            description="From the arrival of a request to its answer",
            explicit_bucket_boundaries_advisory=_BUCKETS,
        )
        self._calls = meter.create_counter("memory_sidecar.calls", unit="{call}", description="Tool calls by outcome")
        self._refusals = meter.create_counter(
            "memory_sidecar.refusals", unit="{refusal}", description="Requests that were not served as asked, by code"
        )

        for name, gauge in gauges.GAUGES.items():
            meter.create_observable_gauge(
                f"memory_sidecar.{name}", [partial(self._observe, name)], unit=gauge.unit, description=gauge.about
            )

    def _observe(self, name: str, _options: CallbackOptions) -> Iterator[Observation]:
        value = gauges.seen().get(name)
        if value is not None:
            yield Observation(value, self._where)

    def receive(
        self, method: str, request_id: str | int, params: Mapping[str, Any], *, tool: str | None, waited: float
    ) -> "Served":
        """Begin the span of a request that arrived `waited` seconds ago.

        `tool` is the called tool if this process has it, and `method` one of the closed list.
        """
        common: dict[str, str] = {"mcp.method.name": method, "network.transport": "pipe"}
        if method == "tools/call":
            common["gen_ai.operation.name"] = "execute_tool"
        if tool is not None:
            common["gen_ai.tool.name"] = tool
        span = self._tracer.start_span(
            f"{method} {tool}" if tool else method,
            context=_parent(params.get("_meta")),
            kind=SpanKind.SERVER,
            attributes={**common, **self._where, "jsonrpc.request.id": _id(request_id)},
            start_time=time.time_ns() - int(waited * 1e9),
        )
        return Served(self, span, common)

    def record(self, common: dict[str, str], outcome: str, failure: Mapping[str, str], seconds: float) -> None:
        self._duration.record(seconds, {**common, **failure})
        counted = {**common, "memory_sidecar.outcome": outcome}
        if common["mcp.method.name"] == "tools/call":
            self._calls.add(1, counted)
        if outcome not in _ANSWERS:
            self._refusals.add(1, counted)

    def begin_operation(self, name: str, parent: Span) -> Span:
        location = self._where.get("memory_sidecar.location")
        attributes = {
            "gen_ai.operation.name": _MEMORY_OPERATIONS[name],
            "db.operation.name": name,
            "db.system.name": self._where["memory_sidecar.backend"],
            **self._where,
        }
        if location is not None:
            attributes |= {"db.namespace": location, "gen_ai.memory.store.id": location}
        return self._tracer.start_span(
            _MEMORY_OPERATIONS[name],
            context=set_span_in_context(parent, Context()),
            # A store with a location is a server elsewhere; files are served in this process.
            kind=SpanKind.INTERNAL if location is None else SpanKind.CLIENT,
            attributes=attributes,
        )


class Served:
    """A request while it is served."""

    def __init__(self, telemetry: Telemetry, span: Span, common: dict[str, str]) -> None:
        self._telemetry = telemetry
        self._span = span
        self._common = common

    @contextmanager
    def operation(self, name: str) -> Iterator["Operation"]:
        """The span of a store's method `name`, for as long as the block runs."""
        operation = Operation(self._telemetry.begin_operation(name, self._span), name)
        try:
            yield operation
        finally:
            operation.end()

    def end(
        self,
        outcome: str,
        seconds: float,
        *,
        identity: str | None = None,
        run: str | None,
        protocol: str | None,
        error_code: int | None,
        tool_error: bool,
    ) -> None:
        """The answer is out. `outcome` is a word of ours, `error_code` JSON-RPC's if the answer was an error.

        `identity` is told where one process serves many: on spans, as metrics must not grow with the users.
        """
        common = self._common
        if protocol is not None:
            common["mcp.protocol.version"] = protocol
        failure: dict[str, str] = {}
        if error_code is not None:
            failure = {"error.type": str(error_code), "rpc.response.status_code": str(error_code)}
        elif tool_error:
            failure = {"error.type": "tool_error"}
        self._span.set_attributes({**common, **failure, "memory_sidecar.outcome": outcome})
        if run is not None:
            self._span.set_attribute("memory_sidecar.run", run)
        if identity is not None:
            self._span.set_attribute("memory_sidecar.identity", identity)
        if failure:
            self._span.set_status(Status(StatusCode.ERROR))
        self._span.end()
        self._telemetry.record(common, outcome, failure, seconds)


class Operation:
    """A store's operation while it runs."""

    def __init__(self, span: Span, name: str) -> None:
        self._span = span
        self._name = name

    def count(self, records: int) -> None:
        """How many memories it found or changed."""
        if self._name == "list":
            gauges.see("notes", records)
        elif self._name in _CHANGES and "notes" in gauges.seen():
            gauges.add("notes", _CHANGES[self._name] * records)
        self._span.set_attribute("gen_ai.memory.record.count", records)

    def refused(self, code: str) -> None:
        """The store answered no: an answer like another."""
        self._span.set_attribute("db.response.status_code", code)

    def failed(self, kind: str) -> None:
        """The store could not answer. `kind` is a code or the name of an exception, never its text."""
        self._span.set_attribute("error.type", kind)
        self._span.set_status(Status(StatusCode.ERROR))

    def end(self) -> None:
        self._span.end()


def _id(request_id: str | int) -> str:
    """A harness may choose half a surrogate pair, for which a whole batch of spans would be lost at encoding."""
    return str(request_id)[:_MAX_TEXT].encode("ascii", "backslashreplace").decode()


def _parent(meta: object) -> Context:
    """The harness's span, as `_meta` names it in W3C's terms; an empty context if it names none."""
    carrier = {}
    if isinstance(meta, dict):
        for name in ("traceparent", "tracestate"):
            value = meta.get(name)
            if isinstance(value, str) and len(value) <= 1024:
                carrier[name] = value
    return TraceContextTextMapPropagator().extract(carrier, Context())

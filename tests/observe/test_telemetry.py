"""What OpenTelemetry is told, with the SDK's own in-memory exporters; and what the OTEL_ variables mean."""

import json
import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tests.support.sidecar import ROOT

from memory_sidecar.backend.file import FileBackend
from memory_sidecar.backend.jetstream.api import StreamInfo
from memory_sidecar.backend.jetstream.watched import Settings, see_room
from memory_sidecar.observe import gauges, log, otlp
from memory_sidecar.observe.telemetry import Telemetry
from memory_sidecar.store.authority import Store
from memory_sidecar.store.contract import Info
from memory_sidecar.store.errors import OutcomeUnknownError, StoreError, UnavailableError
from memory_sidecar.store.scope import Scope
from memory_sidecar.store.traced import watch
from memory_sidecar.tools.catalog import Catalog
from memory_sidecar.tools.tool import Outcome

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
NOTE = {"key": "SENTINEL-key", "description": "SENTINEL description", "content": "SENTINEL content"}


class Told:
    """A telemetry that keeps what it is told."""

    def __init__(self, location: str = "") -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        meters = MeterProvider([self.reader], shutdown_on_exit=False)
        self.telemetry = Telemetry(
            tracers.get_tracer("test"),
            meters.get_meter("test"),
            lambda: None,
            "file" if not location else "x",
            location,
        )

    def call(self, store: Store, tool: str, scope: Scope, meta: object = None, **arguments: Any) -> Outcome:
        served = self.telemetry.receive("tools/call", 7, {"_meta": meta}, tool=tool, waited=0.0)
        catalog = Catalog(enabled=True, read_only=False)
        outcome: Outcome = catalog.call(tool, arguments, store.watched(watch(served)), scope)
        served.end(
            outcome.code,
            0.001,
            run="monday",
            protocol="2025-11-25",
            error_code=None,
            tool_error=outcome.structured is None,
        )
        return outcome

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        data = self.reader.get_metrics_data()
        if data is None:
            return []
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics if m.name == name]
        return [(dict(point.attributes or {}), point) for metric in metrics for point in metric.data.data_points]


class BrokenBackend:
    """A backend that answers every question with one error."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def info(self) -> Info:
        return Info("broken", "")

    def _fail(self, *_: object, **__: object) -> Any:
        raise self.error

    list = get = put = remove = _fail


def broken(error: BaseException) -> Store:
    return Store(BrokenBackend(error))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    tmp_path.chmod(0o700)
    return Store(FileBackend(str(tmp_path)), guard=True)


# --- spans and metrics ------------------------------------------------------------------------------------------------


def test_a_call_and_its_store_operation_are_on_the_harness_trace(store: Store) -> None:
    told = Told()
    told.call(store, "memory_write", Scope(), {"traceparent": PARENT, "tracestate": "vendor=1"}, **NOTE)

    operation, call = told.spans
    assert call.name == "tools/call memory_write"
    assert call.kind is SpanKind.SERVER
    assert call.parent is not None
    assert f"{call.parent.trace_id:032x}-{call.parent.span_id:016x}" == PARENT[3:-3]
    assert call.parent.is_remote
    assert call.context.trace_state.to_header() == "vendor=1"
    assert dict(call.attributes or {}) == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-11-25",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "memory_write",
        "jsonrpc.request.id": "7",
        "network.transport": "pipe",
        "memory_sidecar.backend": "file",
        "memory_sidecar.outcome": "ok",
        "memory_sidecar.run": "monday",
    }
    assert operation.name == "create_memory"
    assert operation.kind is SpanKind.INTERNAL
    assert operation.parent is not None
    assert operation.parent.span_id == call.context.span_id
    assert operation.context.trace_id == call.context.trace_id
    assert dict(operation.attributes or {}) == {
        "gen_ai.operation.name": "create_memory",
        "gen_ai.memory.record.count": 1,
        "db.operation.name": "create",
        "db.system.name": "file",
        "memory_sidecar.backend": "file",
    }


def test_a_store_elsewhere_is_named_by_its_location(store: Store) -> None:
    told = Told("bucket")
    told.call(store, "memory_list", Scope())

    operation, call = told.spans
    assert operation.kind is SpanKind.CLIENT
    attributes = operation.attributes or {}
    assert attributes["db.namespace"] == attributes["gen_ai.memory.store.id"] == "bucket"
    assert attributes["memory_sidecar.location"] == (call.attributes or {})["memory_sidecar.location"] == "bucket"


@pytest.mark.parametrize(
    "meta",
    [
        None,
        {},
        [],
        {"traceparent": "nonsense"},
        {"traceparent": 7, "tracestate": {}},
        {"traceparent": PARENT.replace("4bf92f3577b34da6a3ce929d0e0e4736", "0" * 32)},
        {"traceparent": PARENT + "x" * 5000},
        {"tracestate": "vendor=1"},
    ],
)
def test_without_a_usable_parent_a_trace_begins_here(store: Store, meta: object) -> None:
    told = Told()
    told.call(store, "memory_list", Scope(), meta)
    assert told.spans[-1].parent is None


def test_any_request_id_can_be_encoded(store: Store) -> None:
    told = Told()
    for chosen in ("\ud800", "é" * 500, -(10**300)):
        served = told.telemetry.receive("ping", chosen, {}, tool=None, waited=0.0)
        served.end("ok", 0.001, run=None, protocol=None, error_code=None, tool_error=False)
    assert len(encode_spans(told.spans).SerializeToString()) < 5000


def test_a_trace_that_is_not_sampled_is_not_told_but_counted(store: Store) -> None:
    told = Told()
    told.call(store, "memory_list", Scope(), {"traceparent": PARENT[:-1] + "0"})
    assert told.spans == []
    assert len(told.points("memory_sidecar.calls")) == 1


def test_outcomes(store: Store) -> None:
    """Each answer a model can get, with what the two spans say of it."""
    told, scope, other = Told(), Scope(), Scope()
    calls: list[tuple[Scope, str, dict[str, Any]]] = [
        (scope, "memory_write", NOTE),
        (scope, "memory_write", NOTE),
        (other, "memory_write", {**NOTE, "overwrite": True}),
        (scope, "memory_read", {"key": "absent"}),
        (scope, "memory_delete", {"key": "absent"}),
        (scope, "memory_read", {"key": "not/legal"}),
        (scope, "memory_read", {}),
    ]
    seen = []
    for used, tool, arguments in calls:
        told.exporter.clear()
        told.call(store, tool, used, **arguments)
        *operations, call = told.spans
        first = dict(operations[0].attributes or {}) if operations else {}
        seen.append(
            (
                (call.attributes or {})["memory_sidecar.outcome"],
                call.status.status_code is StatusCode.ERROR,
                (call.attributes or {}).get("error.type"),
                first.get("db.response.status_code"),
            )
        )
        assert all(span.status.status_code is not StatusCode.ERROR for span in operations)
        assert all(span.status.description is None and not span.events for span in told.spans)

    assert seen == [
        ("ok", False, None, None),
        ("exists", False, None, "exists"),
        ("not_read", False, None, "not_read"),
        ("not_found", False, None, "not_found"),
        ("not_found", False, None, None),
        ("invalid", True, "tool_error", "invalid"),
        ("invalid", True, "tool_error", None),
    ]
    refusals = {
        (attributes["gen_ai.tool.name"], attributes["memory_sidecar.outcome"]): point.value
        for attributes, point in told.points("memory_sidecar.refusals")
    }
    assert refusals == {
        ("memory_write", "exists"): 1,
        ("memory_write", "not_read"): 1,
        ("memory_read", "invalid"): 2,
    }
    assert sum(point.value for _, point in told.points("memory_sidecar.calls")) == len(calls)
    durations = told.points("mcp.server.operation.duration")
    assert sum(point.count for _, point in durations) == len(calls)
    assert all("memory_sidecar.run" not in attributes for attributes, _ in durations)


@pytest.mark.parametrize("error", [UnavailableError("SENTINEL"), OutcomeUnknownError()])
def test_a_store_that_fails_is_an_error_on_both_spans(error: StoreError) -> None:
    told = Told()
    told.call(broken(error), "memory_read", Scope(), key="SENTINEL-key")

    operation, call = told.spans
    assert operation.status.status_code is call.status.status_code is StatusCode.ERROR
    assert (operation.attributes or {})["error.type"] == error.code
    assert (call.attributes or {})["error.type"] == "tool_error"
    assert (call.attributes or {})["memory_sidecar.outcome"] == error.code
    assert "SENTINEL" not in "".join(span.to_json() for span in told.spans)


def test_an_unexpected_failure_is_the_stores() -> None:
    told = Told()
    outcome = told.call(broken(ValueError("SENTINEL")), "memory_list", Scope())

    assert outcome.error is not None
    assert outcome.error.startswith("The memory store failed. ")
    operation, _ = told.spans
    assert (operation.attributes or {})["error.type"] == "unavailable"
    assert "SENTINEL" not in outcome.error + operation.to_json()


def test_every_operation_of_the_store_is_told(store: Store) -> None:
    told, scope = Told(), Scope()
    served = told.telemetry.receive("tools/call", "id", {}, tool=None, waited=0.0)
    traced = store.watched(watch(served))

    assert traced.info() == store.info()
    assert traced.create(**NOTE, scope=scope) is None
    assert traced.update(NOTE["key"], "d", "c", scope=scope) is None
    assert traced.read(NOTE["key"], scope=scope) == ("d", "c", "")
    assert traced.list() == [(NOTE["key"], "d")]
    assert traced.delete(NOTE["key"], scope=scope) is True
    assert traced.delete(NOTE["key"], scope=scope) is False
    found = [
        (span.name, (span.attributes or {})["db.operation.name"], (span.attributes or {})["gen_ai.memory.record.count"])
        for span in told.spans
    ]
    assert found == [
        ("create_memory", "create", 1),
        ("update_memory", "update", 1),
        ("search_memory", "read", 1),
        ("search_memory", "list", 1),
        ("delete_memory", "delete", 1),
        ("delete_memory", "delete", 0),
    ]
    assert "SENTINEL" not in "".join(span.to_json() for span in told.spans)


# --- the variables ----------------------------------------------------------------------------------------------------


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the log was told meanwhile."""
    sink = log._Sink()
    sink.level, sink.json = "debug", True
    lines: list[dict[str, Any]] = []
    monkeypatch.setattr(log, "_sink", sink)
    monkeypatch.setattr(log, "_write", lambda line: lines.append(json.loads(line)) is None)
    monkeypatch.delenv("RES_OPTIONS", raising=False)
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    return lines


def test_spans_that_the_sdk_drops_are_told_once(said: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in otlp._OTHER_LOGGERS:
        logger = logging.getLogger(name)
        monkeypatch.setattr(logger, "handlers", [])
        monkeypatch.setattr(logger, "propagate", True)
    otlp._adopt_loggers()
    held, begun = threading.Event(), threading.Event()

    class Stuck(InMemorySpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            begun.set()
            held.wait(30)
            return super().export(spans)

    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(Stuck(), max_queue_size=1, max_export_batch_size=1))
    tracer = tracers.get_tracer("test")
    tracer.start_span("taken").end()
    assert begun.wait(30)
    for _ in range(4):
        tracer.start_span("waits, or is dropped").end()
    told = [line for line in said if line["level"] == "warning"]
    assert [line["event"] for line in told] == ["telemetry is lost: more spans come than are sent"]
    held.set()
    tracers.shutdown()


def wanted(**variables: str) -> dict[str, str]:
    prepared = otlp.prepare({f"OTEL_{name}": value for name, value in variables.items()})
    return {} if prepared is None else {signal.name: signal.endpoint for signal in prepared.signals}


URL = "http://127.0.0.1:4318"
BOTH = {"traces": f"{URL}/v1/traces", "metrics": f"{URL}/v1/metrics"}
DEFAULT = "http://localhost:4318/v1/traces"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, {}),
        ({"SERVICE_NAME": "x", "TRACES_SAMPLER": "always_on"}, {}),
        ({"EXPORTER_OTLP_ENDPOINT": ""}, {}),
        ({"EXPORTER_OTLP_ENDPOINT": URL}, BOTH),
        ({"EXPORTER_OTLP_ENDPOINT": f"{URL}/"}, BOTH),
        ({"EXPORTER_OTLP_ENDPOINT": f"{URL}/base"}, {k: v.replace("/v1", "/base/v1") for k, v in BOTH.items()}),
        ({"EXPORTER_OTLP_TRACES_ENDPOINT": f"{URL}/exact"}, {"traces": f"{URL}/exact"}),
        ({"EXPORTER_OTLP_METRICS_ENDPOINT": f"{URL}/exact"}, {"metrics": f"{URL}/exact"}),
        ({"TRACES_EXPORTER": "otlp"}, {"traces": DEFAULT}),
        ({"TRACES_EXPORTER": "none", "EXPORTER_OTLP_ENDPOINT": URL}, {"metrics": BOTH["metrics"]}),
        ({"METRICS_EXPORTER": "none", "TRACES_EXPORTER": "none", "EXPORTER_OTLP_ENDPOINT": URL}, {}),
        ({"SDK_DISABLED": "true", "EXPORTER_OTLP_ENDPOINT": URL}, {}),
        ({"SDK_DISABLED": "TRUE", "TRACES_EXPORTER": "otlp"}, {}),
        ({"SDK_DISABLED": "false", "EXPORTER_OTLP_ENDPOINT": URL}, BOTH),
        ({"EXPORTER_OTLP_PROTOCOL": "http/protobuf", "EXPORTER_OTLP_ENDPOINT": URL}, BOTH),
        (
            {
                "EXPORTER_OTLP_PROTOCOL": "grpc",
                "EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
                "EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf",
                "EXPORTER_OTLP_ENDPOINT": URL,
            },
            BOTH,
        ),
    ],
)
def test_what_the_variables_ask_for(
    said: list[dict[str, Any]], variables: dict[str, str], expected: dict[str, str]
) -> None:
    assert wanted(**variables) == expected
    assert said == []


@pytest.mark.parametrize(
    ("variables", "variable"),
    [
        ({"EXPORTER_OTLP_PROTOCOL": "grpc", "EXPORTER_OTLP_ENDPOINT": URL}, "OTEL_EXPORTER_OTLP_PROTOCOL"),
        (
            {"EXPORTER_OTLP_TRACES_PROTOCOL": "http/json", "TRACES_EXPORTER": "otlp"},
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL",
        ),
        ({"TRACES_EXPORTER": "console"}, "OTEL_TRACES_EXPORTER"),
        ({"METRICS_EXPORTER": "prometheus"}, "OTEL_METRICS_EXPORTER"),
        ({"EXPORTER_OTLP_ENDPOINT": "localhost:4317"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
        ({"EXPORTER_OTLP_TRACES_ENDPOINT": "http://[::1"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
        ({"EXPORTER_OTLP_TRACES_ENDPOINT": "http://host:99999"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
        ({"EXPORTER_OTLP_ENDPOINT": "unix:///run/otel.sock"}, "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ],
)
def test_what_is_not_supported_is_named_and_ignored(
    said: list[dict[str, Any]], variables: dict[str, str], variable: str
) -> None:
    assert wanted(**variables) == {}
    assert said
    assert {(line["level"], line["variable"]) for line in said} == {("warning", variable)}


@pytest.mark.parametrize(
    ("endpoint", "ports"),
    [
        ("http://127.0.0.1:4318", (4318,)),
        ("http://[::1]:4318", (4318,)),
        ("http://localhost:4318", (4318,)),
        ("http://127.0.0.1", (80,)),
        ("https://10.0.0.1", (443,)),
        ("https://collector.example", (53, 443)),
        ("http://user:SENTINEL@collector.example:4000", (53, 4000)),
    ],
)
def test_ports_that_stay_open(said: list[dict[str, Any]], endpoint: str, ports: tuple[int, ...]) -> None:
    prepared = otlp.prepare({"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint})
    assert prepared is not None
    assert prepared.ports == ports
    assert ("use-vc" in os.environ.get("RES_OPTIONS", "")) == (53 in ports)


def test_the_port_of_a_proxy_stays_open_instead(said: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://10.0.0.1:3128")
    monkeypatch.setenv("NO_PROXY", "near.example")
    for host, ports in (("far.example", (3128,)), ("near.example", (53, 443))):
        prepared = otlp.prepare({"OTEL_EXPORTER_OTLP_ENDPOINT": f"https://{host}"})
        assert prepared is not None
        assert prepared.ports == ports


def test_missing_packages_are_told_with_the_remedy(said: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    assert otlp.prepare({"OTEL_EXPORTER_OTLP_ENDPOINT": URL}) is None
    (line,) = said
    assert line["level"] == "warning"
    assert line["remedy"] == "pip install 'memory-sidecar[otel]'"


def test_a_setting_that_the_sdk_refuses_turns_telemetry_off(
    said: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "0")
    prepared = otlp.prepare({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": URL})
    assert prepared is not None
    monkeypatch.setattr(otlp, "_adopt_loggers", lambda: None)
    assert prepared.begin("file", "") is None
    assert said[-1]["event"] == "telemetry is off: it cannot be started"
    assert said[-1]["cause"].startswith("ValueError at ")


# --- gauges -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """No number was seen yet."""
    monkeypatch.setattr(gauges, "_seen", {})
    monkeypatch.setattr(gauges, "_left_out", set())


@pytest.mark.usefixtures("unseen")
def test_notes_are_counted_from_the_first_listing_on(tmp_path: Path) -> None:
    told, store, scope = Told(), Store(FileBackend(str(tmp_path))), Scope()

    def notes() -> list[int]:
        return [point.value for _, point in told.points("memory_sidecar.notes")]

    told.call(store, "memory_write", scope, **NOTE)
    assert notes() == []
    told.call(store, "memory_list", scope)
    assert notes() == [1]
    told.call(store, "memory_write", scope, **NOTE | {"key": "second"})
    assert notes() == [2]
    told.call(store, "memory_delete", scope, key="second")
    told.call(store, "memory_delete", scope, key="second")
    assert notes() == [1]
    gauges.leave_out_notes()
    assert notes() == []


@pytest.mark.usefixtures("unseen")
@pytest.mark.parametrize("name", gauges.GAUGES)
def test_each_gauge_is_told_once_it_was_seen_and_documented(name: str) -> None:
    told = Told()
    assert told.points(f"memory_sidecar.{name}") == []
    gauges.see(name, 7)
    assert [point.value for _, point in told.points(f"memory_sidecar.{name}")] == [7]
    assert f"`{name}`" in (ROOT / "docs" / "telemetry.md").read_text()


@pytest.mark.usefixtures("unseen")
def test_a_bucket_is_watched_where_it_is_seen_anyway() -> None:
    info = StreamInfo({"max_bytes": 1000}, "now", 1, 1, 1, frozenset(), stored_bytes=900)
    see_room(info)
    settings = Settings("b", lambda config: ["bad"] if "bad" in config else [])
    settings.see({"bad": True})
    assert gauges.seen() == {"bucket.size": 900, "bucket.limit": 1000, "bucket.refused": 1}
    settings.see({})
    assert gauges.seen()["bucket.refused"] == 0

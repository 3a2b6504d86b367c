"""A collector on this machine: takes OTLP over HTTP, decodes it with OpenTelemetry's own schema, and keeps it."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tests.support.sidecar import patched


class Collector:
    """What was received: `spans` and `points` as plain values, `raw` as the bytes and headers were."""

    def __init__(self) -> None:
        self.url = ""
        self.port = 0
        self.paths: list[str] = []
        self.raw: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.resource: dict[str, Any] = {}
        self.spans: list[dict[str, Any]] = []
        self.points: dict[str, list[tuple[dict[str, Any], float]]] = {}
        """Of each metric: the attributes and the count or sum of each series, as last reported."""
        self.answer = threading.Event()
        """Cleared: requests are taken and never answered."""
        self.answer.set()

    def take(self, path: str, body: bytes) -> None:
        self.paths.append(path)
        self.raw.append(body)
        if path.endswith("/v1/traces"):
            traces = ExportTraceServiceRequest.FromString(body)
            for resource in traces.resource_spans:
                self.resource = _attributes(resource.resource)
                self.spans += [_span(span) for scope in resource.scope_spans for span in scope.spans]
        else:
            metrics = ExportMetricsServiceRequest.FromString(body)
            found = [
                metric for resource in metrics.resource_metrics for s in resource.scope_metrics for metric in s.metrics
            ]
            for metric in found:
                points = metric.histogram.data_points or metric.sum.data_points
                self.points[metric.name] = [
                    (_attributes(point), point.count if metric.HasField("histogram") else point.as_int)
                    for point in points
                ]

    def named(self, name: str) -> dict[str, Any]:
        """The one span of that name."""
        (span,) = [span for span in self.spans if span["name"] == name]
        return span


def _attributes(holder: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in holder.attributes}


def _span(span: Any) -> dict[str, Any]:
    return {
        "name": span.name,
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "state": span.trace_state,
        "kind": span.kind,
        "status": span.status.code,
        "said": span.status.message,
        "events": len(span.events),
        "attributes": _attributes(span),
    }


def patient(place: Path) -> dict[str, str]:
    """For the environment of a sidecar: it waits longer for a collector at its end, so that all arrives from a busy
    machine too."""
    place.mkdir(exist_ok=True)
    env = patched(place, "import memory_sidecar.observe.otlp as otlp\notlp._PATIENCE = 60.0\n")
    return {"PYTHONPATH": env["PYTHONPATH"]}


@contextmanager
def collector() -> Iterator[Collector]:
    """A collector for the block, on a free port of 127.0.0.1."""
    kept = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if not kept.answer.wait(120):
                return
            kept.headers.append({name.lower(): value for name, value in self.headers.items()})
            kept.take(self.path, gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body)
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False

        def handle_error(self, *_: object) -> None:
            """A sender that ends without waiting for its answer is no trouble here."""

    with Server(("127.0.0.1", 0), Handler) as server:
        kept.port = server.server_address[1]
        kept.url = f"http://127.0.0.1:{kept.port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield kept
        finally:
            kept.answer.set()
            server.shutdown()
            thread.join()

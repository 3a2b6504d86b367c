"""Sends telemetry to a collector over OTLP/HTTP, if the standard OTEL_ variables ask for it; else it imports nothing.

In two steps, around the moment when the process gives up its rights. `prepare`, before: read the variables, load the
SDK (parts of it try a socket while they are loaded) and name the ports that must stay open. `Prepared.begin`, after:
build exporters and start their threads, which are then as locked as every other.

Memory comes first. A collector that is slow, dead or refuses costs no call anything, and the end of the process two
seconds at the most; trouble is told in the log and nowhere else.
"""

import threading
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import urlsplit

from ..system.lockdown import DNS_PORT, look_up_names_over_tcp
from ..version import __version__
from . import log

if TYPE_CHECKING:
    import requests
    from opentelemetry.sdk.resources import Resource

    from .telemetry import Telemetry

__all__ = ["Prepared", "prepare"]

_PATIENCE: Final = 2.0
"""Seconds for what waits to be sent when the session ends."""

_INSTALL: Final = "pip install 'memory-sidecar[otel]'"

_DEFAULT_ENDPOINT: Final = "http://localhost:4318"
"""The specification's, for a signal that is asked for without one."""

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}

_OTHER_LOGGERS: Final = ("opentelemetry", "requests", "urllib3")

_MODULES: Final = (
    "opentelemetry.sdk.resources",
    "opentelemetry.sdk.trace.export",
    "opentelemetry.sdk.metrics.export",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.exporter.otlp.proto.http.metric_exporter",
    "requests",
    ".telemetry",
)

_Name = Literal["traces", "metrics"]


class _Signal(NamedTuple):
    """One of the two kinds of telemetry, and where it goes."""

    name: _Name
    endpoint: str

    @property
    def shown(self) -> str:
        """The collector for the log: never a user, password or path of its address."""
        address = urlsplit(self.endpoint)
        return f"{address.hostname}:{address.port or _DEFAULT_PORTS[address.scheme]}"


class Prepared(NamedTuple):
    """Telemetry that is wanted and can be had. Nothing is sent and no thread runs yet."""

    signals: tuple[_Signal, ...]
    ports: tuple[int, ...]
    """TCP ports that must stay open."""

    def begin(self, backend: str, location: str) -> "Telemetry | None":
        """Start exporting. None if that fails: it is in the log, and memory works without."""
        try:
            return _begin(self.signals, backend, location)
        except Exception as error:  # noqa: BLE001 - whatever a setting does to the SDK, memory works
            log.warning("telemetry is off: it cannot be started", cause=log.problem(error))
            return None


def prepare(environ: Mapping[str, str]) -> Prepared | None:
    """What the OTEL_ variables ask for, loaded. None if that is nothing, or nothing that can be had."""
    names: tuple[_Name, ...] = ("traces", "metrics")
    signals = tuple(signal for name in names if (signal := _wanted(name, environ)) is not None)
    if not signals:
        return None
    try:
        _load()
    except ImportError:
        log.warning("telemetry is off: it is configured, but its packages are not installed", remedy=_INSTALL)
        return None
    except Exception as error:  # noqa: BLE001 - packages that do not go together
        log.warning("telemetry is off: its packages cannot be loaded", remedy=_INSTALL, cause=log.problem(error))
        return None
    ports = set()
    for signal in signals:
        host, port = _peer(signal.endpoint)
        ports.add(port)
        if not _is_address(host):
            look_up_names_over_tcp()
            ports.add(DNS_PORT)
    return Prepared(signals, tuple(sorted(ports)))


# --- what is asked for ------------------------------------------------------------------------------------------------


def _wanted(name: _Name, environ: Mapping[str, str]) -> _Signal | None:
    """Where the signal is to go, or None. An empty variable counts as not set, as the specification has it."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    specific = f"OTEL_EXPORTER_OTLP_{name.upper()}"
    endpoint = environ.get(f"{specific}_ENDPOINT", "")
    base = environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    exporters = [word.strip() for word in environ.get(f"OTEL_{name.upper()}_EXPORTER", "").split(",") if word.strip()]
    for other in exporters:
        if other not in ("otlp", "none"):
            log.warning(
                "telemetry: this exporter is not supported", variable=f"OTEL_{name.upper()}_EXPORTER", value=other
            )
    # Telemetry is sent if an endpoint is set, or if the exporter is named "otlp", whose default endpoint the
    # specification gives.
    if "otlp" not in exporters and (exporters or not (endpoint or base)):
        return None
    for variable in (f"{specific}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        protocol = environ.get(variable, "")
        if protocol and protocol != "http/protobuf":
            log.warning(
                "telemetry: this protocol is not supported",
                signal=name,
                variable=variable,
                value=protocol,
                remedy="set it to http/protobuf, and the endpoint to the collector's port for it, usually 4318",
            )
            return None
        if protocol:
            break
    signal = _Signal(name, endpoint or f"{(base or _DEFAULT_ENDPOINT).rstrip('/')}/v1/{name}")
    if not _is_url(signal.endpoint):
        log.warning(
            "telemetry: the endpoint is not a URL",
            signal=name,
            variable=f"{specific}_ENDPOINT" if endpoint else "OTEL_EXPORTER_OTLP_ENDPOINT",
            remedy="write it as http://host:4318",
        )
        return None
    return signal


def _is_url(endpoint: str) -> bool:
    try:
        address = urlsplit(endpoint)
        return address.scheme in _DEFAULT_PORTS and bool(address.hostname) and address.port != 0
    except ValueError:
        return False


def _peer(endpoint: str) -> tuple[str, int]:
    """The host and port that a connection for `endpoint` goes to: the collector's, or those of the proxy before it."""
    from requests.utils import get_environ_proxies, select_proxy

    proxy = select_proxy(endpoint, get_environ_proxies(endpoint))
    address = urlsplit(endpoint if proxy is None else proxy if "//" in proxy else f"http://{proxy}")
    return address.hostname or "", address.port or _DEFAULT_PORTS.get(address.scheme, 1080)


def _is_address(host: str) -> bool:
    """Whether no name server is needed. `localhost` is in every hosts file, and never anywhere else (RFC 6761)."""
    if host == "localhost":
        return True
    import ipaddress

    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


# --- the SDK ----------------------------------------------------------------------------------------------------------


def _load() -> None:
    """Import all that is needed later, while the process has its rights.

    urllib3, for one, binds a socket to find out whether IPv6 works.
    """
    for module in _MODULES:
        import_module(module, __package__)


def _begin(signals: tuple[_Signal, ...], backend: str, location: str) -> "Telemetry":
    from opentelemetry.metrics import MeterProvider, NoOpMeterProvider
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource
    from opentelemetry.trace import NoOpTracerProvider, TracerProvider

    from .telemetry import Telemetry

    _adopt_loggers()
    resource = Resource.create({"service.name": "memory-sidecar", "service.version": __version__})
    # What the operator says about the service is worth more than our name for it.
    resource = resource.merge(OTELResourceDetector().detect())
    tracers: TracerProvider = NoOpTracerProvider()
    meters: MeterProvider = NoOpMeterProvider()
    senders = []
    for signal in signals:
        sender = _Sender(signal)
        senders.append(sender)
        if signal.name == "traces":
            tracers = _tracers(sender, resource)
        else:
            meters = _meters(sender, resource)
    return Telemetry(
        tracers.get_tracer("memory_sidecar", __version__),
        meters.get_meter("memory_sidecar", __version__),
        lambda: _close(senders),
        backend,
        location,
    )


def _tracers(sender: "_Sender", resource: "Resource") -> Any:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    exporter = OTLPSpanExporter(endpoint=sender.signal.endpoint, session=_session(sender))
    processor = BatchSpanProcessor(exporter)
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(processor)
    sender.finish, sender.give_up = processor.shutdown, exporter.shutdown
    return provider


def _meters(sender: "_Sender", resource: "Resource") -> Any:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader

    exporter = OTLPMetricExporter(endpoint=sender.signal.endpoint, session=_session(sender))
    reader = PeriodicExportingMetricReader(exporter)
    provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
    sender.finish, sender.give_up = reader.shutdown, exporter.shutdown
    return provider


class _Sender:
    """One signal's way out: whether the collector takes what it is sent, and how to stop."""

    def __init__(self, signal: _Signal) -> None:
        self.signal = signal
        self.failing = False
        self.closing = False
        self.finish: Callable[[], object] = _nothing
        """Send what waits; it may take long."""
        self.give_up: Callable[[], object] = _nothing
        """Abandon an attempt that waits to be repeated, and refuse any other."""

    def tried(self, trouble: str | None) -> None:
        """An attempt ended. The log hears of changes, not of every one."""
        if trouble is not None and not self.failing:
            log.warning("telemetry is not sent", signal=self.signal.name, to=self.signal.shown, reason=trouble)
        elif trouble is None and self.failing:
            log.info("telemetry is sent again", signal=self.signal.name, to=self.signal.shown)
        self.failing = trouble is not None
        if self.failing and self.closing:
            self.give_up()


def _nothing() -> None:
    """There is nothing to stop yet."""


def _session(sender: _Sender) -> "requests.Session":
    import requests

    class Session(requests.Session):
        """Tells the sender how each attempt ended; otherwise the exporter alone knows, and it keeps trying."""

        def request(self, *args: Any, **kwargs: Any) -> requests.Response:
            try:
                response = super().request(*args, **kwargs)
            except Exception as error:
                sender.tried(type(error).__name__)  # its text may hold what the variables hold
                raise
            sender.tried(None if response.ok else f"HTTP status {response.status_code}")
            return response

    return Session()


def _close(senders: list[_Sender]) -> None:
    """Send what waits, both signals at once; whoever was out of reach before is not waited for."""
    threads = []
    for sender in senders:
        sender.closing = True
        if sender.failing:
            sender.give_up()
            continue
        threads.append((sender, threading.Thread(target=sender.finish, daemon=True)))
        threads[-1][1].start()
    deadline = time.monotonic() + _PATIENCE
    for sender, thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive() and not sender.failing:  # else the log has it already
            log.warning("telemetry is lost: what waited at the end", signal=sender.signal.name, to=sender.signal.shown)


def _adopt_loggers() -> None:
    """Hear what the SDK has to say through this process's log.

    Left alone, `logging` would write to stderr and wait for its reader, in the middle of a call.
    """
    import logging

    lost: list[None] = []

    def lose() -> None:
        """The SDK's queue overflows. One word at the first time: it says so at every span."""
        if not lost:
            lost.append(None)
            log.warning("telemetry is lost: more spans come than are sent")

    class Handler(logging.Handler):
        """Passes on where something was said and, if it is a pattern that is not yet filled in, what.

        Filled in, it may quote headers and settings.
        """

        def emit(self, record: logging.LogRecord) -> None:
            pattern = record.msg if record.args and isinstance(record.msg, str) else None
            if record.levelno >= logging.WARNING and str(record.msg).startswith("Queue full"):
                lose()
                return
            log.debug("telemetry sdk", logger=record.name, at=f"{record.module}:{record.lineno}", says=pattern)

    for name in _OTHER_LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [Handler()]
        logger.propagate = False

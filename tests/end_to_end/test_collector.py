"""The real process, locked down, and a collector on this machine: what arrives there, and what a dead one costs."""

import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState, use_span
from tests.observe.test_log import fill, quarrel
from tests.support.collector import Collector, collector, patient
from tests.support.ports import free_port
from tests.support.speaker import Speaker

from memory_sidecar.harness import MemorySidecar, bounds
from memory_sidecar.system import lockdown

PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
NOTE = {"key": "k", "description": "d", "content": "c"}
REQUIRE = ("--lockdown", "require") if not lockdown.available(connect=True).reason else ()


@pytest.fixture
def receiver() -> Iterator[Collector]:
    with collector() as kept:
        yield kept


@pytest.mark.usefixtures("both_eras")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_call_arrives_on_the_harness_trace(tmp_path: Path, receiver: Collector, host: str) -> None:
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url.replace("127.0.0.1", host),
        "OTEL_EXPORTER_OTLP_COMPRESSION": "gzip",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20SENTINEL",
        "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment.name=test",
        **patient(tmp_path / "patient"),
    }
    with Speaker(tmp_path, "--run", "monday", *REQUIRE, "--log-level", "debug", env=env) as speaker:
        first_asked = speaker.greet()
        speaker.call("memory_write", meta={"traceparent": PARENT, "tracestate": "vendor=1"}, **NOTE)
        speaker.call("memory_write", meta={"traceparent": PARENT}, **NOTE)
        speaker.call("memory_sing", SENTINEL="SENTINEL")
        assert speaker.end() == 0

    assert sorted(set(receiver.paths)) == ["/v1/metrics", "/v1/traces"]
    assert {headers["authorization"] for headers in receiver.headers} == {"Bearer SENTINEL"}
    assert "SENTINEL" not in speaker.log
    assert receiver.resource["service.name"] == "memory-sidecar"
    assert receiver.resource["deployment.environment.name"] == "test"
    first, second = [span for span in receiver.spans if span["name"] == "tools/call memory_write"]
    assert (first["trace"], first["parent"], first["state"]) == (PARENT[3:35], PARENT[36:52], "vendor=1")
    assert (second["trace"], second["state"]) == (PARENT[3:35], "")
    assert second["attributes"]["memory_sidecar.outcome"] == "exists"
    assert second["attributes"]["memory_sidecar.run"] == "monday"
    assert receiver.named(first_asked)["parent"] == ""
    operations = [
        (span["name"], span["attributes"]["db.operation.name"]) for span in receiver.spans if span["kind"] == 1
    ]
    # The index at the handshake; a write; a write that is refused, and the look at what stands in its way.
    assert operations == [
        ("search_memory", "list"),
        ("create_memory", "create"),
        ("create_memory", "create"),
        ("search_memory", "read"),
    ]
    unknown = receiver.named("tools/call")
    assert unknown["attributes"]["error.type"] == "-32602"
    assert unknown["status"] == 2
    calls = {
        (attributes.get("gen_ai.tool.name"), attributes["memory_sidecar.outcome"]): count
        for attributes, count in receiver.points["memory_sidecar.calls"]
    }
    assert calls == {("memory_write", "ok"): 1, ("memory_write", "exists"): 1, (None, "bad_request"): 1}
    assert len(receiver.points["memory_sidecar.refusals"]) == 2
    assert sum(count for _, count in receiver.points["mcp.server.operation.duration"]) == 4


def test_a_service_is_named_by_its_operator(tmp_path: Path, receiver: Collector) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, "OTEL_SERVICE_NAME": "fleet-memory"}
    env |= patient(tmp_path / "patient")
    with Speaker(tmp_path, env=env) as speaker:
        speaker.greet()
    assert receiver.resource["service.name"] == "fleet-memory"


@pytest.mark.usefixtures("both_eras")
def test_nothing_of_a_note_or_an_argument_arrives(tmp_path: Path, receiver: Collector) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **patient(tmp_path / "patient")}
    with Speaker(tmp_path, "--log-level", "debug", env=env) as speaker:
        speaker.greet()
        quarrel(speaker, tmp_path)
        assert speaker.end() == 0

    sent = b"".join(receiver.raw)
    assert b"unavailable" in sent
    assert b"SENTINEL" not in sent
    assert b"ttttt" not in sent
    assert str(tmp_path).encode() not in sent
    assert "SENTINEL" not in speaker.log
    assert all(span["said"] == "" and span["events"] == 0 for span in receiver.spans)


@pytest.mark.usefixtures("both_eras")
def test_a_refused_client_is_counted(tmp_path: Path, receiver: Collector) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **patient(tmp_path / "patient")}
    with Speaker(tmp_path, env=env) as speaker:
        asked = speaker.greet(token="w" * 43)
        assert speaker.wait() == 77
    assert receiver.named(asked)["attributes"]["error.type"] == "-32021"
    (refusal,) = receiver.points["memory_sidecar.refusals"]
    assert refusal[0]["memory_sidecar.outcome"] == "no_ticket"


def test_a_proxy_is_used_where_the_system_names_one(tmp_path: Path, receiver: Collector) -> None:
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector.invalid:4318", "HTTP_PROXY": receiver.url}
    env |= patient(tmp_path / "patient")
    with Speaker(tmp_path, *REQUIRE, env={**env, "http_proxy": receiver.url}) as speaker:
        speaker.greet()
    assert "http://collector.invalid:4318/v1/traces" in receiver.paths


@pytest.mark.skipif(not REQUIRE, reason="this kernel can't hold all of it")
def test_no_other_port_is_open(tmp_path: Path, receiver: Collector) -> None:
    code = (
        "import socket, sys\n"
        "from memory_sidecar.assemble import Arguments, prepare\n"
        "service = prepare(Arguments(identity='i', store_dir=sys.argv[1], lockdown='require')).start()\n"
        "for port in map(int, sys.argv[2:]):\n"
        "    try:\n"
        "        socket.create_connection(('127.0.0.1', port), 5).close()\n"
        "        print('open')\n"
        "    except PermissionError:\n"
        "        print('denied')\n"
        "service.telemetry.close()\n"
    )
    with socket.create_server(("127.0.0.1", 0)) as other:
        ports = [str(receiver.port), str(other.getsockname()[1])]
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path), *ports],
            env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.stderr == ""
    assert done.stdout.split() == ["open", "denied"]


# --- a collector that doesn't serve -----------------------------------------------------------------------------------

# Whoever waited for such a collector would wait for as long, which is more than a test waits for an answer or an end.
FOR_LONG = {"OTEL_EXPORTER_OTLP_TIMEOUT": "600"}


def test_a_dead_collector_delays_nothing(tmp_path: Path) -> None:
    port = free_port()
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{port}", **FOR_LONG}
    with Speaker(tmp_path, *REQUIRE, env=env) as speaker:
        speaker.greet()
        for _ in range(20):
            assert not speaker.call("memory_list")["isError"]
        assert speaker.end() == 0

    lines = speaker.log.splitlines()
    assert len(lines) == 2
    for signal in ("traces", "metrics"):
        told = f" signal={signal} to=127.0.0.1:{port} reason=ConnectionError"
        assert any("warning: telemetry is not sent" in line and told in line for line in lines)


def test_a_collector_that_was_dead_for_long_is_not_waited_for(tmp_path: Path) -> None:
    env = {
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"http://127.0.0.1:{free_port()}",
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        **FOR_LONG,
    }
    with Speaker(tmp_path, env=env) as speaker:
        speaker.greet()
        time.sleep(0.5)  # by now an attempt has failed and waits to be repeated, or is made at the end
        assert speaker.end() == 0
    assert speaker.log.count("telemetry is not sent") == 1


def test_a_collector_that_never_answers_is_not_waited_for(tmp_path: Path, receiver: Collector) -> None:
    receiver.answer.clear()
    with Speaker(tmp_path, env={"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **FOR_LONG}) as speaker:
        speaker.greet()
        assert not speaker.call("memory_list")["isError"]
        assert speaker.end() == 0
    for signal in ("traces", "metrics"):
        assert re.search(f"telemetry is lost: what waited at the end .*signal={signal} ", speaker.log)


def test_a_dead_collector_and_a_full_stderr_stall_no_call(tmp_path: Path) -> None:
    reading, writing = fill("pipe")
    env = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}",
        "OTEL_BSP_SCHEDULE_DELAY": "10",
        "OTEL_BSP_MAX_QUEUE_SIZE": "2",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "1",
        **FOR_LONG,
    }
    try:
        with Speaker(tmp_path, "--log-level", "debug", env=env, stderr=writing) as speaker:
            speaker.greet()
            for _ in range(50):
                speaker.call("memory_list")
            assert speaker.end() == 0
    finally:
        os.close(reading)
        os.close(writing)


# --- not wanted, not had ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"OTEL_SERVICE_NAME": "x"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
        {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317"},
    ],
    ids=["nothing set", "another variable", "disabled", "none", "grpc"],
)
def test_nothing_is_imported_unless_it_is_wanted(tmp_path: Path, env: dict[str, str]) -> None:
    with Speaker(tmp_path, *REQUIRE, env=env, python=("-X", "importtime")) as speaker:
        speaker.greet()
        assert not speaker.call("memory_list")["isError"]
        assert speaker.end() == 0

    imported = [line.rsplit("|", 1)[1].strip() for line in speaker.log.splitlines() if line.startswith("import time:")]
    assert "memory_sidecar.wire.serve" in imported
    unwanted = ("opentelemetry", "requests", "urllib3", "google", "logging", "memory_sidecar.observe.telemetry")
    assert [name for name in imported if name.startswith(unwanted)] == []
    if not env:
        assert "memory_sidecar.observe.otlp" not in imported
    rest = [line for line in speaker.log.splitlines() if not line.startswith("import time:")]
    assert len(rest) == (2 if "OTEL_EXPORTER_OTLP_PROTOCOL" in env else 0)
    assert all("variable=OTEL_EXPORTER_OTLP_PROTOCOL value=grpc" in line for line in rest)


def test_without_the_packages_memory_works(tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "opentelemetry"
    missing.mkdir(parents=True)
    (missing / "__init__.py").write_text("raise ModuleNotFoundError('not installed', name='opentelemetry')\n")
    path = os.pathsep.join([str(missing.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318", "PYTHONPATH": path}
    with Speaker(tmp_path / "base", env=env) as speaker:
        speaker.greet()
        assert speaker.call("memory_write", **NOTE)["structuredContent"]["written"]
        assert speaker.end() == 0
    (line,) = speaker.log.splitlines()
    assert "memory-sidecar warning: telemetry is off: " in line
    assert line.endswith("remedy=\"pip install 'memory-sidecar[otel]'\"")


# --- the Python harness -----------------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_harness_passes_its_span_on(
    tmp_path: Path, receiver: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "IDLE_STOP_SECONDS", 60.0)
    env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url, **patient(tmp_path / "patient")}
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("harness")
    async with MemorySidecar.launch(store_dir=tmp_path, identity="tester", env=env) as memory:
        with tracer.start_as_current_span("agent") as agent:
            async with memory.run("monday") as run:
                with tracer.start_as_current_span("step") as step:
                    await run.call("memory_write", NOTE)
        state = TraceState([("vendor", "1")])
        with use_span(
            NonRecordingSpan(SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(1), trace_state=state))
        ):
            await memory.runs()
        await memory.runs()

    def ids(span: object) -> tuple[str, str]:
        context = span.get_span_context()  # type: ignore[attr-defined]
        return f"{context.trace_id:032x}", f"{context.span_id:016x}"

    call = receiver.named("tools/call memory_write")
    assert (call["trace"], call["parent"]) == ids(step)
    opened = receiver.named("memory-sidecar/run/open")
    assert (opened["trace"], opened["parent"]) == ids(agent)
    with_state, without = [span for span in receiver.spans if span["name"] == "memory-sidecar/run/list"]
    assert (with_state["trace"], with_state["parent"], with_state["state"]) == (
        "0" * 31 + "1",
        "0" * 15 + "2",
        "vendor=1",
    )
    assert without["parent"] == ""


def test_the_harness_imports_no_opentelemetry(tmp_path: Path) -> None:
    code = (
        "import sys, anyio\n"
        "from memory_sidecar.harness import MemorySidecar\n"
        "async def main():\n"
        "    async with MemorySidecar.launch(store_dir=sys.argv[1], identity='i') as memory, memory.run() as run:\n"
        "        await run.call('memory_list')\n"
        "anyio.run(main)\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "[]\n", done.stderr

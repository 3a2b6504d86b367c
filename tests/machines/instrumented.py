"""Plays a session under real instrumentation, which PYTHONPATH loads into every Python process: `make instrumented`.

A row each: that the session is whole, and what the lockdown holds although such packages start threads first.
"""

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.sidecar import SERVE, Sidecar, environment


class Launch(NamedTuple):
    program: str
    env: Mapping[str, str]


_OTEL: Final = {
    "OTEL_TRACES_EXPORTER": "otlp",
    "OTEL_METRICS_EXPORTER": "otlp",
    "OTEL_LOGS_EXPORTER": "otlp",
    "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9",
}

LAUNCHES: Final = {
    "ddtrace-run": Launch("ddtrace-run", {}),
    "ddtrace-run, profiling and metrics": Launch(
        "ddtrace-run", {"DD_PROFILING_ENABLED": "true", "DD_RUNTIME_METRICS_ENABLED": "true"}
    ),
    "opentelemetry-instrument": Launch("opentelemetry-instrument", _OTEL),
    "opentelemetry-instrument, no exporter": Launch(
        "opentelemetry-instrument", dict.fromkeys(("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER"), "none")
    ),
}


def played(launch: Launch, base: Path) -> str:
    """What the lockdown holds in a session under it."""
    program = str(Path(sys.executable).with_name(launch.program))
    options = ("--log-level", "info", "--lockdown", "auto")
    with Sidecar(base, *options, command=(program, *SERVE), env=environment(**launch.env)) as sidecar:
        sidecar.greet()
        assert sidecar.write("plan", "x" * 60_000)["written"]
        sidecar.open("tuesday")
        assert sidecar.read("plan", "tuesday")["found"]
        assert sidecar.leave() == 0
        held = next(line for line in sidecar.stderr.splitlines() if "lockdown=" in line)
    return held.partition("lockdown=")[2].strip('"')


def main() -> int:
    failed = 0
    for name, launch in LAUNCHES.items():
        with tempfile.TemporaryDirectory(prefix="instrumented-") as place:
            try:
                told = f"works; {played(launch, Path(place))}"
            except Exception as error:  # noqa: BLE001 - a row each, whatever comes
                told, failed = f"FAILED: {type(error).__name__}: {error}", failed + 1
        print(f"{name:42} {told}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""What a launch loads before its first answers: time that every run of a harness pays."""

import re
from pathlib import Path

from tests.support.sidecar import Sidecar, environment

NOT_YET = (
    *("argparse", "asyncio", "binascii", "ctypes", "dataclasses", "enum", "heapq", "inspect", "json"),
    *("jsonschema", "logging", "math", "nats", "queue", "re", "signal", "socket", "ssl", "subprocess", "tempfile"),
    *("typing", "typing_extensions", "unicodedata", "yaml"),
    *(
        f"memory_sidecar.{name}"
        for name in (
            "launched_by",  # the identity is named
            "backend.jetstream",
            "backend.own",
            "cli.shared.failure",
            "harness",
            "observe.otlp",
            "observe.telemetry",
            "run.compact",
            "run.glance",
            "run.journal",  # no run is used yet
            "run.kinds",
            "run.ledger",
            "run.records",
            "run.runs",
            "run.schema",
            "store.front_matter",  # the notes have headers of ours alone
            "store.nowhere",
            "store.portable",
            "testing",
            "wire.outline",  # no frame is too long, or no JSON
        )
    ),
)
"""What is needed later, by some, or never. Each was loaded at a launch once, or would be easily."""

MODULES = 101
"""Modules of ours, at most: each takes a tenth of a millisecond to find and read, however little is in it."""


def test_what_the_first_answers_do_not_need_is_not_loaded(tmp_path: Path) -> None:
    notes = tmp_path / "memory" / "tester"
    notes.mkdir(parents=True)
    (notes / "plain.md").write_text("---\ndescription: A plain note\n---\n\nbody")
    with Sidecar(tmp_path, env=environment(PYTHONPROFILEIMPORTTIME="1")) as sidecar:
        sidecar.greet()
        sidecar.request("tools/list")
        told = sidecar.stderr
    loaded = re.findall(r"^import time:.*\|\s+(\S+)$", told, re.MULTILINE)
    assert "memory_sidecar.wire.serve" in loaded
    assert [name for name in loaded if any(f"{name}.".startswith(f"{other}.") for other in NOT_YET)] == []
    assert len([name for name in loaded if name.startswith(("memory_sidecar", "exposure_policy"))]) <= MODULES

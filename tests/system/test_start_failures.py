"""Whatever step of the start fails, the harness is answered with what is wrong, and only then does the process end."""

from pathlib import Path
from typing import Final

import pytest
from tests.support.sidecar import SERVE, Sidecar

from memory_sidecar.exits import EX_CONFIG

STEPS: Final = [
    "cli.serve.places",
    "cli.serve.prepare",
    "cli.serve._tell_start",
    "assemble.settle",
    "assemble.backend_of",
    "assemble.default_journal_dir",
    "assemble.make_journal_dir",
    "assemble._mode",
    "assemble.Catalog",
    "assemble.prepare_telemetry",
    "assemble.open_backend",
    "assemble.lock_down",
    "assemble._generated_run",
    "assemble.Setting",
    "assemble.Service",
    "system.disk.inspect",
    "system.files.make_private_directory",
    "system.lockdown.lock",
    "backend.file.row.open_file",
    "wire.session.Lanes",
    "wire.lanes.Lane",
]
ERRORS: Final = ["OSError(5, 'Input/output error')", "MemoryError()", 'RuntimeError("can\'t start new thread")']


@pytest.mark.parametrize("error", ERRORS, ids=lambda text: text.partition("(")[0])
@pytest.mark.parametrize("step", STEPS)
def test_the_harness_is_answered(step: str, error: str, tmp_path: Path) -> None:
    module, _, name = step.rpartition(".")
    program = (
        f"import sys; from importlib import import_module; module = import_module('memory_sidecar.{module}')\n"
        "def fail(*_, **__):\n"
        f"    raise {error}\n"
        f"module.{name} = fail\n"
        "from memory_sidecar.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    with Sidecar(tmp_path, command=(SERVE[0], "-c", program, "serve")) as sidecar:
        hello = sidecar.hello()
        sidecar.send(hello)
        answer = sidecar.answer(hello)
        assert answer["id"] == hello["id"]
        assert answer["error"]["message"]
        assert "Traceback" not in answer["error"]["message"]
        assert sidecar.wait() == EX_CONFIG
        assert "Traceback" not in sidecar.stderr

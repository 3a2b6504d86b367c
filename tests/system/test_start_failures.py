"""Whatever step of the start fails, the harness is answered with what is wrong, and only then does the process end."""

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.support.sidecar import SERVE, Frame, Sidecar

from memory_sidecar.exits import EX_CONFIG
from memory_sidecar.wire.last_word import explained

STEPS: Final = [
    "cli.serve.put_right",
    "cli.serve.restart_alone",
    "cli.serve.claim",
    "cli.serve.watch_parent",
    "cli.serve._configure_log",
    "cli.serve.open_ticket",
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
    "wire.serve.Gate",
    "wire.serve.Session",
    "wire.serve.Loop",
    "wire.serve.Output",
    "wire.session.Lanes",
    "wire.lanes.Lane",
]
ERRORS: Final = [
    "OSError(5, 'Input/output error')",
    "OSError(24, 'Too many open files')",
    "MemoryError()",
    'RuntimeError("can\'t start new thread")',
    "ValueError('unforeseen')",
]


def some_failures() -> Iterator[Any]:
    """Each error at each step. In the ordinary run each step meets one, and each error is met at several steps."""
    for at, step in enumerate(STEPS):
        for number, error in enumerate(ERRORS):
            marks = () if at % len(ERRORS) == number else pytest.mark.long
            yield pytest.param(
                step, error, marks=marks, id=f"{step}-{error.partition(',')[0].partition('(')[0]}{number}"
            )


def answered(program: str, place: Path, *arguments: str, method: str = "initialize") -> Frame:
    """The error that `program`, which goes on as `serve`, answers its first request with; it ends then."""
    words = (
        SERVE[0],
        "-c",
        f"{program}\nimport sys\nfrom memory_sidecar.cli import main\nsys.exit(main(sys.argv[1:]))",
    )
    with Sidecar(place, *arguments, command=(*words, "serve")) as sidecar:
        request = sidecar.hello() if method == "initialize" else sidecar.modern(sidecar.message(method), {})
        sidecar.send(request)
        answer = sidecar.answer(request)
        assert answer["id"] == request["id"]
        assert answer["error"]["message"]
        assert "Traceback" not in answer["error"]["message"]
        assert sidecar.wait() == EX_CONFIG
        assert "Traceback" not in sidecar.stderr
        error: Frame = answer["error"]
        return error


@pytest.mark.parametrize(("step", "error"), list(some_failures()))
def test_the_harness_is_answered(step: str, error: str, tmp_path: Path) -> None:
    module, _, name = step.rpartition(".")
    program = (
        f"from importlib import import_module; module = import_module('memory_sidecar.{module}')\n"
        "def fail(*_, **__):\n"
        f"    raise {error}\n"
        f"module.{name} = fail"
    )
    answered(program, tmp_path, method="initialize" if len(step) % 2 else "tools/list")


@pytest.mark.parametrize("module", ["memory_sidecar.assemble", "memory_sidecar.wire.serve", "resource"])
def test_a_module_that_cannot_be_loaded_is_named(module: str, tmp_path: Path) -> None:
    error = answered(f"import sys; sys.modules[{module!r}] = None", tmp_path)
    assert f"the module {module} cannot be loaded; install memory-sidecar again" in error["message"]


@pytest.mark.parametrize(
    "words", [("--no-such-option", "x"), ("--identity",), ("stray",), ("--log-level", "loud"), ("--run", "a", "b")]
)
def test_wrong_usage_is_answered_too(words: tuple[str, ...], tmp_path: Path) -> None:
    with Sidecar(tmp_path, *words) as sidecar:
        hello = sidecar.hello()
        sidecar.send(hello)
        message = sidecar.answer(hello)["error"]["message"]
        assert any(word.strip("-") in message for word in words)
        assert "--help" in message or "use error, warning" in message
        assert sidecar.wait() == EX_CONFIG


def test_a_stranger_learns_nothing_from_wrong_usage(tmp_path: Path) -> None:
    with Sidecar(tmp_path, "--no-such-option", "x") as sidecar:
        hello = sidecar.hello(capabilities={})
        sidecar.send(hello)
        error = sidecar.answer(hello)["error"]
        assert "refused by the exposure policy" in error["message"]
        assert "no-such-option" not in str(error)


def test_the_last_word_answers_probes_and_then_the_request(tmp_path: Path) -> None:
    program = "import memory_sidecar.wire.serve as module\nmodule.Loop = None"
    words = (SERVE[0], "-c", f"{program}\nfrom memory_sidecar.cli import main\nraise SystemExit(main(['serve']))")
    with Sidecar(None, command=words, identity="") as sidecar:
        probe, hello = sidecar.modern(sidecar.message("server/discover"), {}), sidecar.hello()
        sidecar.send_bytes(b"\xef\xbb\xbf\nno json\n[]\n" + b"x" * (2 << 20) + b"\n")
        sidecar.send_bytes(b"\xef\xbb\xbf")  # and the probe follows in the same line
        sidecar.send(probe)
        assert "cannot start" in sidecar.answer(probe)["error"]["message"]
        sidecar.send(hello)
        assert "cannot start" in sidecar.answer(hello)["error"]["message"]
        assert sidecar.wait() == EX_CONFIG


@pytest.mark.parametrize(
    "loader",
    [
        "math.so: failed to map segment from shared object",
        "math.so: cannot create shared object descriptor: Cannot allocate memory",
        "Error relocating math.so: cannot allocate memory",
    ],
)
def test_a_library_that_there_is_no_memory_for_is_not_taken_for_a_broken_installation(loader: str) -> None:
    assert "ulimit -v" in str(explained(ImportError(loader, name="math")))
    assert "install memory-sidecar again" in str(explained(ImportError("No module named 'math'", name="math")))


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "ulimit -n"),
        (OSError(errno.ENFILE, "Too many open files in system"), "ulimit -n"),
        (OSError(errno.EIO, "Input/output error"), "cannot start: Input/output error"),
        (RuntimeError("can't start new thread"), "ulimit -u"),
        (RuntimeError("unforeseen"), "cannot start: RuntimeError"),
        (MemoryError(), "ulimit -v"),
        (ValueError("unforeseen"), "cannot start: ValueError"),
    ],
    ids=repr,
)
def test_each_kind_of_failure_is_told_with_what_mends_it(error: Exception, says: str) -> None:
    assert says in str(explained(error))
    assert "unforeseen" not in str(explained(error))

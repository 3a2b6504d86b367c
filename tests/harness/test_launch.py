"""Launching, by the library and by the MCP adapter alike: every option arrives, and whatever keeps the sidecar from
starting is a `StartError` that says what to do."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.sidecar import ROOT, SERVE, environment

from memory_sidecar.cli import serve
from memory_sidecar.harness import LaunchOptions, MemorySidecar, StartError, bounds
from memory_sidecar.harness import errors as harness_errors
from memory_sidecar.harness.mcp import memory_session, memory_transport

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["library", "mcp"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """One event loop each: what differs between the two is how the process is held, not what is said of it."""
    return {"library": "asyncio", "mcp": "trio"}[request.param]


@pytest.fixture
def launch(anyio_backend: str, tmp_path: Path) -> Any:
    def launched(**options: Any) -> AbstractAsyncContextManager[Any]:
        settings = {"identity": "tester", "store_dir": tmp_path / "state", "env": environment(), **options}
        if anyio_backend == "asyncio":
            return MemorySidecar.launch(**settings)
        return memory_session(errlog=settings.pop("stderr", sys.__stderr__), **settings)

    return launched


def test_a_launch_takes_what_serve_takes() -> None:
    """All but the two that it gives itself: the default run, and the application's name."""
    offered = {name.replace("-", "_") for name in (*serve._OPTIONS, "many_identities")} - {"run", "default_identity"}
    assert set(LaunchOptions.__annotations__) == offered


async def test_every_option_arrives(tmp_path: Path, launch: Any) -> None:
    config = tmp_path / "memory.yaml"
    config.write_text("harness: {memory: {enabled: true, read_only: true}}\n")
    with (tmp_path / "log").open("w") as log:
        async with launch(
            config=config,
            identity="me",
            journal_dir=tmp_path / "journals",
            lockdown="off",
            log_level="info",
            log_format="json",
            stderr=log,
        ):
            pass
    started = json.loads((tmp_path / "log").read_text().splitlines()[0])
    assert (started["event"], started["read_only"]) == ("started", True)
    assert "switched off" in started["lockdown"]
    assert (tmp_path / "journals").is_dir()
    assert (tmp_path / "state" / "memory" / "me").is_dir()


async def test_an_option_of_another_type_is_told_with_what_to_give(launch: Any) -> None:
    with pytest.raises(TypeError, match=r"^identity is of type int; give it as text or as a path$"):
        async with launch(identity=7):
            pytest.fail("it started")
    with pytest.raises(TypeError, match=r"^many_identities is of type str; give True or False$"):
        async with launch(many_identities="yes"):
            pytest.fail("it started")


async def test_a_misspelt_option_is_named(launch: Any, anyio_backend: str) -> None:
    """With all that could have been meant, also what is no option of `serve`."""
    beside = "command, env, stderr, restarts" if anyio_backend == "asyncio" else "run, command, env, errlog"
    with pytest.raises(TypeError, match=rf"identty is no option .* identity.* log_format, {beside}$"):
        async with launch(identty="me"):
            pytest.fail("it started")


async def test_the_transport_names_what_it_calls_stderr() -> None:
    with pytest.raises(TypeError, match="stderr is called errlog here"):
        async with memory_transport(identity="tester", stderr=sys.__stderr__):  # type: ignore[call-arg]
            pytest.fail("it started")


@pytest.mark.parametrize("mask", [0o777, 0o277, 0o400, 0])
async def test_a_launch_works_whatever_the_umask(mask: int, launch: Any, request: pytest.FixtureRequest) -> None:
    before = os.umask(mask)
    request.addfinalizer(lambda: os.umask(before))
    async with launch():
        pass


@pytest.mark.parametrize(
    "options",
    [
        {"config": 5},
        {"identity": b"me"},
        {"store_dir": ["state"]},
        {"command": "memory-sidecar serve"},
        {"command": []},
        {"command": ["memory-sidecar", 5]},
    ],
    ids=repr,
)
async def test_a_value_of_the_wrong_type_is_a_type_error(options: dict[str, Any], launch: Any) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        async with launch(**options):
            pytest.fail("it started")


@pytest.mark.parametrize("option", ["identity", "store_dir", "journal_dir", "config", "lockdown", "log_level"])
async def test_an_empty_option_does_not_start(option: str, launch: Any) -> None:
    with anyio.fail_after(60), pytest.raises(StartError):
        async with launch(**{option: ""}):
            pytest.fail("it started")


SH = ("sh", "-c")
CAUSES: dict[str, tuple[dict[str, Any], str]] = {
    "a wrong level": ({"log_level": "loud"}, "use error, warning"),
    "no configuration": ({"config": "none.yaml"}, "check --config"),
    "a directory that cannot be": ({"store_dir": "/dev/null/state"}, "use --store-dir|--journal-dir|directory"),
    "no such program": ({"command": ["/nowhere/memory-sidecar", "serve"]}, "nowhere.*check the command"),
    "no program": ({"command": [ROOT, "serve"]}, "Permission denied; check the command"),
    "an option that no process can take": ({"identity": "a\0b"}, "check the options"),
    "a program that only ends": ({"command": [*SH, "exit 3"]}, "ended.*check the command"),
    "killed": ({"command": [*SH, "kill -9 $$"]}, "SIGKILL|ended before it answered"),
    "a Python that is too old": (
        {
            "command": [
                sys.executable,
                "-c",
                "import sys, runpy; sys.version_info = (3, 9, 1); runpy.run_module('memory_sidecar', {}, '__main__')",
            ]
        },
        "read its log",
    ),
    "a ticket that others may read": (
        {"command": [*SH, 'chmod 644 "$MEMORY_SIDECAR_TICKET"; exec "$@"', "sh", *SERVE]},
        "ticket.*log on stderr says why",
    ),
    "a launch in which the ticket is lost": (
        {"command": [*SH, 'rm "$MEMORY_SIDECAR_TICKET"; exec "$@"', "sh", *SERVE]},
        "ticket.*log on stderr says why",
    ),
}


@pytest.mark.parametrize("cause", CAUSES)
async def test_what_keeps_it_from_starting_is_one_kind_of_error(cause: str, launch: Any) -> None:
    options, remedy = CAUSES[cause]
    with anyio.fail_after(60), pytest.raises(StartError, match=remedy) as caught:
        async with launch(**options):
            pytest.fail("it started")
    assert len(str(caught.value).splitlines()) == 1


async def test_a_program_that_says_nothing_is_not_waited_for_without_end(
    launch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "START_SECONDS", 0.1)
    with anyio.fail_after(60), pytest.raises(StartError, match=r"did not answer .*; check the command"):
        async with launch(command=[*SH, "exec sleep 1000"]):
            pytest.fail("it started")


@pytest.mark.parametrize("place", ["nowhere", "file/below"])
async def test_a_ticket_that_cannot_be_written_is_one_too(
    place: str, launch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / place))
    with pytest.raises(StartError, match=r"ticket.*TMPDIR"):
        async with launch():
            pytest.fail("it started")


async def test_an_old_python_is_told_on_the_log(launch: Any, tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log, pytest.raises(StartError):
        async with launch(**CAUSES["a Python that is too old"][0], stderr=log):
            pytest.fail("it started")
    assert "this is Python 3.9" in (tmp_path / "log").read_text()


HARNESS = """
import signal, sys
import anyio
from memory_sidecar.harness import MemorySidecar

async def main():
    async with MemorySidecar.launch(store_dir=sys.argv[1], identity="tester") as memory, memory.run() as run:
        with anyio.open_signal_receiver(signal.SIGINT) as signals:
            print("ready", flush=True)
            async for _ in signals:  # "stop this answer, go on with the talk"
                print((await run.call("memory_list")).text)
                break

anyio.run(main)
"""


def test_a_harness_that_handles_an_interrupt_keeps_its_memory(tmp_path: Path) -> None:
    """A Ctrl-C reaches every process of the terminal's foreground group."""
    with subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(tmp_path)],
        env=environment(),
        process_group=0,
        stdout=subprocess.PIPE,
        text=True,
    ) as harness:
        assert harness.stdout is not None
        assert harness.stdout.readline() == "ready\n"
        os.killpg(harness.pid, signal.SIGINT)
        assert harness.stdout.read() == '{"memories":[]}\n'
    assert harness.returncode == 0


def test_all_that_a_harness_catches_is_one_family() -> None:
    kinds = {value for value in vars(harness_errors).values() if isinstance(value, type)}
    assert all(issubclass(kind, harness_errors.SidecarError) for kind in kinds if issubclass(kind, Exception))


@pytest.mark.parametrize("searched", ["{given}:", ":{given}", "{given}::", ".:{given}", "{given}:lib"])
async def test_nothing_is_imported_from_where_the_harness_stands(
    searched: str, launch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What lies in the working directory or below it would run before the sidecar gives up any right."""
    for place in (tmp_path / "here", tmp_path / "here" / "lib"):
        place.mkdir()
        (place / "sitecustomize.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path / "here")
    env = environment()
    env["PYTHONPATH"] = searched.format(given=env["PYTHONPATH"])
    async with launch(env=env):
        pass
    assert not (tmp_path / "ran").exists()

"""The fake memory answers as the real one does: one conversation, held with both, in both faces."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.sidecar import environment

from exposure_policy import ExposureRefused, Surface
from exposure_policy.serving import Serving
from memory_sidecar.harness import MemorySidecar, RequestRefusedError, SidecarDiedError, StartError, sync
from memory_sidecar.harness.functions import functions
from memory_sidecar.testing import FakeMemory

NOTE = {"key": "plan", "description": "the plan", "content": "text"}
KEPT = ("written", "code", "found", "content", "deleted", "memories")


class _Real:
    """The sidecar, with the interface of the fake."""

    def __init__(self, place: Path, **whose: Any) -> None:
        self._notes = place / "state" / "memory" / "test"
        config = place / "memory.yaml"
        config.write_text("harness: {memory: {enabled: true, options: {require_read_before_update: true}}}")
        self._options: Any = {
            **(whose or {"identity": "test"}),
            "store_dir": place / "state",
            "config": config,
            "env": environment(),
        }

    def launch(self, **more: Any) -> Any:
        return MemorySidecar.launch(**self._options, **more)

    def launch_sync(self, **more: Any) -> Any:
        return sync.MemorySidecar.launch(**self._options, **more)

    def plant(self, key: str, document: bytes) -> None:
        (self._notes / f"{key}.md").write_bytes(document)

    def end(self, memory: Any) -> None:
        ended = memory._connection._pump.ended
        os.kill(memory.pid, signal.SIGKILL)
        ended.result(30)

    @contextmanager
    def unreachable(self) -> Iterator[None]:
        self._notes.rename(aside := self._notes.with_name("aside"))
        yield
        aside.rename(self._notes)


class _Fake(FakeMemory):
    def __init__(self, **told: Any) -> None:
        super().__init__(guard=True, **told)

    def plant(self, key: str, document: bytes) -> None:
        self.documents[key] = document

    def end(self, _: Any) -> None:
        self.kill()


@pytest.fixture(params=[_Real, _Fake])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return _Fake() if request.param is _Fake else _Real(tmp_path)


CALLS: list[tuple[str, dict[str, Any], dict[str, Any] | str]] = [
    ("memory_list", {}, {"memories": []}),
    ("memory_write", NOTE, {"written": True}),
    ("memory_write", {**NOTE, "content": "two"}, {"written": False, "code": "exists"}),
    ("memory_write", {**NOTE, "content": "two", "overwrite": True}, {"written": True}),
    ("memory_read", {"key": "plan"}, {"found": True, "content": "two"}),
    ("memory_read", {"key": "none"}, {"found": False}),
    ("memory_read", {"key": "../etc"}, "key is not legal"),
    ("memory_read", {}, "argument key is missing"),
    ("memory_write", {**NOTE, "content": float("nan")}, "what JSON cannot carry"),
    ("memory_write", {**NOTE, "content": "x" * 70_000}, "at most 65536"),
    ("memory_write", {**NOTE, "content": "x" * 1_100_000}, "larger than a call may be"),
]


def check(result: Any, expected: dict[str, Any] | str) -> None:
    if isinstance(expected, str):
        assert result.is_error
        assert expected in result.text
    else:
        assert {name: value for name, value in result.structured.items() if name in KEPT} == expected


def test_one_conversation_without_a_loop(kept: Any) -> None:
    with kept.launch_sync() as memory:
        with memory.run("monday") as run:
            assert "(no notes yet)" in run.instructions
            for name, arguments, expected in CALLS:
                check(run.call(name, arguments), expected)
            with pytest.raises(RequestRefusedError, match=r"unknown tool; the tools are: memory_list"):
                run.call("memory_forget_everything")
            with pytest.raises(RequestRefusedError, match="is open already"), memory.run("monday"):
                pytest.fail("it was opened twice")
            with Serving(Surface.MCP), pytest.raises(ExposureRefused):
                run.call("memory_list")
        with pytest.raises(RequestRefusedError, match="not open"):
            run.call("memory_list")
    with pytest.raises(SidecarDiedError, match="this launch has ended"):
        memory.runs()
    kept.plant("plan", b"---\ndescription: the plan\n---\n\nsomebody else's\n")
    with kept.launch_sync() as memory:
        with memory.run("monday", resume="require") as run:
            assert run.resumed
            assert "- plan: the plan" in run.instructions
            assert set(run.scope["keys"]) == {"plan"}
            check(run.call("memory_write", {**NOTE, "overwrite": True}), {"written": False, "code": "changed"})
            (read,) = [function for function in functions(run) if function.__name__ == "memory_read"]
            assert json.loads(read("plan"))["content"] == "somebody else's\n"
            run.finish("completed")
        with pytest.raises(RequestRefusedError, match="has completed and cannot go on"), memory.run("monday"):
            pytest.fail("it was opened again")
        assert [(run["run"], run["state"]) for run in memory.runs()] == [("monday", "completed")]


@pytest.mark.anyio
async def test_one_conversation_on_a_loop(kept: Any, anyio_backend: str) -> None:
    async with kept.launch() as memory:
        assert memory.alive
        async with memory.run("monday") as run, memory.run() as other:
            for name, arguments, expected in CALLS:
                check(await run.call(name, arguments), expected)
            check(await other.call("memory_write", {**NOTE, "overwrite": True}), {"written": False, "code": "not_read"})
            assert set((await run.suspend())["keys"]) == {"plan"}
    assert not memory.alive
    async with kept.launch() as memory, memory.run("monday") as run:
        assert run.resumed
        check(await run.call("memory_delete", {"key": "plan"}), {"deleted": True})


def test_a_death_is_told_and_loses_nothing_that_was_acknowledged(kept: Any) -> None:
    with kept.launch_sync() as memory:
        with pytest.raises(SidecarDiedError) as died, memory.run("monday") as run:  # noqa: PT012 - it must leave too
            check(run.call("memory_write", NOTE), {"written": True})
            kept.end(memory)
            run.call("memory_list")
        assert "was killed by SIGKILL" in str(died.value)
        assert "launch it again and resume the run" in str(died.value)
        assert (memory.alive, memory.exit_status) == (False, -signal.SIGKILL)
    with kept.launch_sync() as memory:
        assert [(run["run"], run["state"]) for run in memory.runs()] == [("monday", "interrupted")]
        with memory.run("monday", resume="require") as run:
            check(run.call("memory_write", {**NOTE, "content": "two", "overwrite": True}), {"written": True})


@pytest.mark.anyio
async def test_a_launch_that_may_be_repeated_goes_on(kept: Any, anyio_backend: str, caplog: Any) -> None:
    caplog.set_level(logging.WARNING, "memory_sidecar.harness")
    async with kept.launch(restarts=1) as memory, memory.run("monday") as run:
        check(await run.call("memory_write", NOTE), {"written": True})
        first = memory.pid
        kept.end(memory)
        check(await run.call("memory_write", {**NOTE, "content": "two", "overwrite": True}), {"written": True})
        assert memory.pid != first
        assert [record.getMessage() for record in caplog.records] == [
            "the memory sidecar died and was launched again (1 of 1)"
        ]
        kept.end(memory)
        with pytest.raises(SidecarDiedError):
            await run.call("memory_list")
        run._ended = True


def test_notes_that_are_out_of_reach_are_the_models_to_know(kept: Any) -> None:
    with kept.launch_sync() as memory, memory.run() as run:
        check(run.call("memory_write", NOTE), {"written": True})
        with kept.unreachable():
            for name, arguments in (("memory_list", {}), ("memory_read", {"key": "plan"}), ("memory_write", NOTE)):
                assert run.call(name, arguments).is_error
        check(run.call("memory_read", {"key": "plan"}), {"found": True, "content": "text"})


def test_a_fake_starts_not_and_takes_no_option_that_the_real_one_refuses() -> None:
    fake = FakeMemory()
    fake.start_error = "KV bucket agent-memory does not exist"
    with pytest.raises(StartError, match="agent-memory does not exist"), fake.launch_sync():
        pytest.fail("it started")
    fake.start_error = None
    options: Any = {"identitty": "me"}
    with pytest.raises(TypeError, match="identitty is no option"), fake.launch_sync(**options):
        pytest.fail("it started")
    with fake.launch_sync(identity="me", restarts=1) as memory, memory.run() as run:
        fake.kill()
        fake.start_error = "there is no room"
        with pytest.raises(SidecarDiedError) as died:
            run.call("memory_list")
        assert str(died.value.__cause__) == "there is no room"
        run._ended = True
        with pytest.raises(ProcessLookupError):
            os.kill(memory.pid, signal.SIGTERM)


@pytest.fixture(params=[_Real, _Fake])
def many(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return _Fake(many_identities=True) if request.param is _Fake else _Real(tmp_path, many_identities=True)


def test_many_identities_have_a_memory_each(many: Any) -> None:
    with many.launch_sync() as memory:
        with memory.run("main", identity="a") as one, memory.run("main", identity="b") as two:
            assert (one.identity, two.identity) == ("a", "b")
            check(one.call("memory_write", NOTE), {"written": True})
            check(two.call("memory_read", {"key": "plan"}), {"found": False})
            check(two.call("memory_write", NOTE), {"written": True})
            with pytest.raises(RequestRefusedError, match="is open already"), memory.run("main", identity="a"):
                pytest.fail("it was opened twice")
            scope = one.suspend()
        assert set(scope["keys"]) == {"plan"}
        with memory.run("second", identity="b", scope=scope) as two:
            check(two.call("memory_write", {**NOTE, "overwrite": True}), {"written": False, "code": "not_read"})
        with memory.run("main", identity="a", resume="require") as one:
            check(one.call("memory_write", {**NOTE, "overwrite": True}), {"written": True})
        runs = {name: [run["run"] for run in memory.runs(identity=name)] for name in "abc"}
        assert runs == {"a": ["main"], "b": ["main", "second"], "c": []}
        for wrong in (None, "", "../a", "a/b"):
            with pytest.raises(RequestRefusedError, match="whose memory is meant"), memory.run("x", identity=wrong):
                pytest.fail("it opened")
        with (
            pytest.raises(RequestRefusedError, match="there is no run new to resume"),
            memory.run("new", identity="never-seen", resume="require"),
        ):
            pytest.fail("it opened")


def test_without_the_option_no_identity_is_taken(kept: Any) -> None:
    with (
        kept.launch_sync() as memory,
        pytest.raises(RequestRefusedError, match="leave out identity, or launch with many_identities=True"),
        memory.run("main", identity="a"),
    ):
        pytest.fail("it opened")


def test_a_fake_may_be_read_only_and_without_an_index() -> None:
    fake = FakeMemory(read_only=True, index=False)
    fake.documents["plan"] = b"text"
    with fake.launch_sync() as memory, memory.run() as run:
        assert [tool["name"] for tool in run.tools] == ["memory_list", "memory_read"]
        assert "plan" not in run.instructions
        check(run.call("memory_list"), {"memories": [{"key": "plan", "description": ""}]})


def test_a_fakes_constructor_is_named_where_a_launch_contradicts_it(tmp_path: Path) -> None:
    config = tmp_path / "memory.yaml"
    config.write_text("harness: {memory: {enabled: true, backend: mine}}")
    foreign: Any = {"command": [sys.executable, "mine.py"], "config": config}
    for fake, options, says in (
        (FakeMemory(many_identities=True), {"identity": "a"}, "FakeMemory was made with many_identities=True"),
        (FakeMemory(), foreign, "'mine' is not a backend; .* guard=True or guard=False to FakeMemory"),
    ):
        with pytest.raises(StartError, match=says), fake.launch_sync(**options):
            pytest.fail("it started")
    with FakeMemory(guard=False).launch_sync(**foreign) as memory, memory.run() as run:
        check(run.call("memory_list"), {"memories": []})


CONFIGS = {
    "enabled": "harness: {memory: {enabled: true}}",
    "read_only": "harness: {memory: {enabled: true, read_only: true}}",
    "no_index": "harness: {memory: {enabled: true, no_index: true}}",
    "guarded": "harness: {memory: {enabled: true, options: {require_read_before_update: true}}}",
    "disabled": "harness: {memory: {enabled: false}}",
    "named": "identity: named\nharness: {memory: {enabled: true}}",
    "misspelt": "harness: {memory: {enabled: true, read_onyl: true}}",
    "option": "harness: {memory: {enabled: true, options: {requir: true}}}",
    "backend": "harness: {memory: {enabled: true, backend: mine}}",
    "bucket": "harness: {memory: {enabled: true, backend: jetstream}}",
    "broken": "harness: [",
    "nul": 'harness: {memory: {enabled: true, options: {directory: "a\\0b"}}}',
    "home": "harness: {memory: {enabled: true, options: {directory: ~nobody-there/x}}}",
    "illegal bucket": "nats_context: x\nharness: {memory: {enabled: true, backend: jetstream, options: {bucket: a b}}}",
    "illegal prefix": "nats_context: x\nharness: {memory: {enabled: true, backend: jetstream, options: "
    "{bucket: b, prefix: a..b}}}",
    "one directory": "harness: {memory: {enabled: true, options: {directory: /tmp/shared}}}",
    "one prefix": "nats_context: x\nharness: {memory: {enabled: true, backend: jetstream, options: "
    "{bucket: b, prefix: p}}}",
}
"""Configurations by name; one that is not here is a file that is not there."""

LAUNCHES: list[dict[str, Any]] = [
    {"identity": "p"},
    {"identity": "../x"},
    {"identity": ""},
    {"identity": "a", "many_identities": True},
    {"many_identities": True},
    {"identity": "p", "many_identities": False},
    {"config": "nofile", "identity": "p"},
    {"config": "", "identity": "p"},
    {"config": "named"},
    {"config": "named", "identity": "p"},
    {"config": "named", "many_identities": True},
    {"config": "read_only", "many_identities": True},
    {"config": "one directory", "many_identities": True},
    {"config": "one prefix", "many_identities": True},
    # Of these a bucket would be asked, or the directory made.
    *({"config": name, "identity": "p"} for name in CONFIGS if name != "named" and not name.startswith("one ")),
    {"identity": "p", "lockdown": "no"},
    {"identity": "p", "log_level": "loud"},
    {"identity": "p", "log_format": "xml"},
    {"identity": "p", "keep_runs": "long"},
]


def observed(launch: Any, options: dict[str, Any]) -> list[Any]:
    """What a user notices of two launches: whose notes are found, the tools, the index, the guard, or the refusal."""
    seen: list[Any] = []
    for _ in range(2):
        try:
            with launch(**options) as memory:
                for whose in ("u", None):
                    try:
                        with memory.run(identity=whose) as run:
                            calls = [run.call("memory_write", {**NOTE, "overwrite": True}), run.call("memory_list")]
                            seen.append((run.identity, run.tools, run.instructions, [call.text for call in calls]))
                    except RequestRefusedError as refused:
                        seen.append(str(refused))
        except StartError as refused:
            return [str(refused)]
    return seen


@pytest.mark.parametrize("options", LAUNCHES, ids=lambda options: "-".join(map(str, options.values())))
def test_a_launch_of_the_fake_takes_and_refuses_what_the_real_one_does(options: dict[str, Any], tmp_path: Path) -> None:
    if name := options.get("config"):
        options = {**options, "config": tmp_path / f"{name}.yaml"}
        if name in CONFIGS:
            options["config"].write_text(CONFIGS[name])
    real = {"lockdown": "off", "store_dir": tmp_path / "state", "env": environment(), "stderr": subprocess.DEVNULL}
    assert observed(FakeMemory().launch_sync, options) == observed(sync.MemorySidecar.launch, {**real, **options})


def test_each_identity_of_a_launch_keeps_its_own_notes() -> None:
    fake = FakeMemory()
    for identity in ("p", "q"):
        with fake.launch_sync(identity=identity) as memory, memory.run() as run:
            check(run.call("memory_list"), {"memories": []})
            check(run.call("memory_write", {**NOTE, "content": identity}), {"written": True})
    with fake.launch_sync(identity="p") as memory, memory.run() as run:
        check(run.call("memory_read", {"key": "plan"}), {"found": True, "content": "p"})
    assert (list(fake.documents), list(fake.documents_of("q"))) == ([], ["plan"])

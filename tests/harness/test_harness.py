"""The Python harness library, on asyncio and on trio, over real sidecars."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from tests.support.processes import children
from tests.support.sidecar import environment, guarded

from exposure_policy import TOOLS
from memory_sidecar.harness import (
    MemorySidecar,
    RequestRefusedError,
    SidecarDiedError,
    SidecarError,
    StartError,
    bounds,
)

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def tickets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where tickets are written; empty again after each test, as is the list of children."""
    place = tmp_path / "tickets"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    before = children()
    yield place
    assert list(place.iterdir()) == []
    assert children() == before


def launch(tmp_path: Path, **options: Any) -> AbstractAsyncContextManager[MemorySidecar]:
    settings: dict[str, Any] = {"identity": "tester", "store_dir": tmp_path / "state", "env": environment()}
    return MemorySidecar.launch(**{**settings, **options})


@pytest.fixture
async def memory(tmp_path: Path) -> AsyncIterator[MemorySidecar]:
    async with launch(tmp_path) as running:
        yield running


NOTE = {"key": "plan", "description": "the plan", "content": "text"}


async def test_the_main_job(tmp_path: Path) -> None:
    async with launch(tmp_path) as memory, memory.run("monday") as run:
        assert run.id == "monday"
        assert run.resumed is False
        assert run.read_only is False
        assert run.unsaved is None
        assert [tool["name"] for tool in run.tools] == list(TOOLS)
        assert "memory_write" in run.instructions
        written = await run.call("memory_write", NOTE)
        assert written.structured == {"written": True, "key": "plan"}
        assert written.text == '{"written":true,"key":"plan"}'
        assert written.is_error is False
        wrong = await run.call("memory_read", {"key": "../x"})
        assert wrong.is_error is True
        assert wrong.structured is None
        assert wrong.text
        with pytest.raises(RequestRefusedError, match="unknown tool") as caught:
            await run.call("memory_format")
        assert caught.value.code == -32602
    async with launch(tmp_path) as memory:
        assert [run["state"] for run in await memory.runs()] == ["suspended"]
        async with memory.run("monday", resume="require") as run:
            assert run.resumed is True
            assert "the plan" in run.instructions
            assert list(run.scope["keys"]) == ["plan"]


async def test_authority_is_resumed(tmp_path: Path) -> None:
    config = guarded(tmp_path)[1]
    async with launch(tmp_path, config=config) as memory, memory.run("monday") as run:
        await run.call("memory_write", NOTE)
    async with launch(tmp_path, config=config) as memory:
        async with memory.run("tuesday") as run:
            refused = await run.call("memory_write", {**NOTE, "overwrite": True})
            assert refused.structured is not None
            assert refused.structured["code"] == "not_read"
        async with memory.run("monday") as run:
            written = await run.call("memory_write", {**NOTE, "overwrite": True})
            assert written.structured == {"written": True, "key": "plan"}


async def test_a_run_can_be_ended_in_every_way(memory: MemorySidecar) -> None:
    async with memory.run("suspended") as run:
        await run.call("memory_write", NOTE)
        scope = await run.suspend()
        assert list(scope["keys"]) == ["plan"]
        assert run.scope == scope
        # No word of the protocol, of which whoever uses the library knows nothing.
        with pytest.raises(RequestRefusedError, match="is not open any more: it was ended, or its block was left"):
            await run.call("memory_list")
        async with memory.run("suspended", resume="require") as again:
            with pytest.raises(RequestRefusedError, match=r"^run suspended is open already; use it, or end it first"):
                async with memory.run("suspended"):
                    pytest.fail("it opened twice")
            assert again.scope == scope
            assert (await again.call("memory_list")).is_error is False
    async with memory.run("completed") as run:
        await run.finish()
    async with memory.run("budget") as run:
        await run.finish("budget", "no money left")
    async with memory.run("left"):
        pass
    async with memory.run() as run:
        generated = run.id
    states = {found["run"]: found["state"] for found in await memory.runs()}
    assert states == {
        "budget": "budget",
        "completed": "completed",
        "left": "suspended",
        "suspended": "suspended",
        generated: "suspended",
    }
    with pytest.raises(RequestRefusedError, match="has completed"):
        async with memory.run("completed"):
            pass
    async with memory.run("handed", scope=scope) as run:
        assert run.resumed is True
        assert run.scope == scope


async def test_an_exception_suspends_and_comes_out_as_it_was(tmp_path: Path) -> None:
    async def fail() -> None:
        async with launch(tmp_path) as memory, memory.run("monday") as run:
            await run.call("memory_write", NOTE)
            raise ZeroDivisionError("the harness failed")

    with pytest.raises(ZeroDivisionError, match="the harness failed") as caught:
        await fail()
    assert caught.value.__cause__ is None
    async with launch(tmp_path) as memory:
        assert [found["state"] for found in await memory.runs()] == ["suspended"]


async def test_groups_and_interrupts_come_out_as_they_were(tmp_path: Path) -> None:
    group = ExceptionGroup("mine", [ValueError("a")])
    for raised in (group, KeyboardInterrupt("stop"), SystemExit(3)):
        try:
            async with launch(tmp_path) as memory, memory.run():
                raise raised
        except BaseException as error:  # noqa: BLE001 - pytest.raises treats an exit as its own
            assert error is raised  # noqa: PT017


async def test_a_sidecar_that_cannot_start_raises_its_own_remedy(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("harness:\n  memory: {enabled: true, read_onyl: true}\n")
    with pytest.raises(StartError) as caught:
        async with launch(tmp_path, config=tmp_path / "config.yaml"):
            pytest.fail("it started")
    assert "read_onyl" in str(caught.value)
    assert "read_only" in str(caught.value)
    assert caught.value.__cause__ is None


def pid_of(memory: MemorySidecar) -> int:
    return memory.pid


async def test_a_sidecar_that_is_killed_fails_the_pending_calls_and_all_later_ones(tmp_path: Path) -> None:
    async with launch(tmp_path) as memory, memory.run("monday") as run:
        await run.call("memory_write", NOTE)
        os.kill(pid_of(memory), signal.SIGSTOP)
        failures: list[BaseException] = []

        async def pending() -> None:
            try:
                await run.call("memory_list")
            except SidecarError as error:
                failures.append(error)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(pending)
                await anyio.wait_all_tasks_blocked()
                os.kill(pid_of(memory), signal.SIGKILL)
        assert [type(failure) for failure in failures] == [SidecarDiedError] * 3
        assert "SIGKILL" in str(failures[0])
        assert "launch it again" in str(failures[0])
        with pytest.raises(SidecarDiedError):
            await run.call("memory_list")
        run._ended = True  # leaving the block would raise once more, as the next test shows
    async with launch(tmp_path) as memory, memory.run("monday", resume="require") as run:
        assert (await run.call("memory_read", {"key": "plan"})).structured == {"found": True, **NOTE}


async def test_a_killed_sidecar_is_told_when_its_block_is_left(tmp_path: Path) -> None:
    with pytest.raises(SidecarDiedError), anyio.fail_after(60):
        async with launch(tmp_path) as memory, memory.run("monday"):
            os.kill(pid_of(memory), signal.SIGKILL)


async def test_a_sidecar_that_does_not_read_holds_nobody_who_gives_up(tmp_path: Path) -> None:
    """Its pipe is full of half a frame then. Nobody's wait outlives his patience, and no frame is torn."""
    async with launch(tmp_path) as memory, memory.run("monday") as run:
        os.kill(pid_of(memory), signal.SIGSTOP)
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for number in range(20):  # far more than a pipe takes
                    note = {"key": f"k{number}", "description": "d", "content": "x" * 60_000}
                    tasks.start_soon(run.call, "memory_write", note)
                await anyio.wait_all_tasks_blocked()
                tasks.cancel_scope.cancel()
        os.kill(pid_of(memory), signal.SIGCONT)
        listed = (await run.call("memory_list")).structured
        assert listed is not None
        assert len(listed["memories"]) < 20  # most were never sent
    assert not list((tmp_path / "state").rglob("*.tmp"))


async def test_concurrent_calls_get_their_own_answers(memory: MemorySidecar) -> None:
    found: dict[str, str] = {}

    async def work(name: str) -> None:
        async with memory.run(name) as run:
            for number in range(5):
                key = f"{name}-{number}"
                await run.call("memory_write", {"key": key, "description": "d", "content": key * 100})
                answer = (await run.call("memory_read", {"key": key})).structured
                assert answer is not None
                found[key] = answer["content"]

    async with anyio.create_task_group() as tasks:
        for name in ("a", "b", "c", "d"):
            tasks.start_soon(work, name)
    assert len(found) == 20
    assert all(content == key * 100 for key, content in found.items())


async def test_large_answers_and_odd_letters_arrive_whole(memory: MemorySidecar) -> None:
    async with memory.run() as run:
        content = "é\U0001f600\x00\u2028\n" * 5000
        assert not (await run.call("memory_write", {**NOTE, "content": content})).is_error
        answer = (await run.call("memory_read", {"key": "plan"})).structured
        assert answer is not None
        assert answer["content"] == content


async def test_a_cancelled_call_leaves_the_session_in_order(memory: MemorySidecar) -> None:
    async with memory.run() as run:
        for _ in range(10):
            with anyio.move_on_after(0):
                await run.call("memory_list")
            with anyio.move_on_after(0.001):
                await run.call("memory_write", {**NOTE, "overwrite": True})
        assert (await run.call("memory_write", {**NOTE, "overwrite": True})).structured == {
            "written": True,
            "key": "plan",
        }


async def test_a_run_whose_opening_was_cancelled_does_not_stay_open(memory: MemorySidecar) -> None:
    for delay in (0, 0.0005, 0.001, 0.002, 0.005):
        with anyio.move_on_after(delay):
            async with memory.run("monday"):
                await anyio.sleep(0)
        async with memory.run("monday") as run:
            assert (await run.call("memory_list")).is_error is False


async def test_a_cancelled_launch_leaves_nothing_behind(tmp_path: Path) -> None:
    for delay in (0, 0.01, 0.03, 0.06, 0.1):
        with anyio.move_on_after(delay):
            async with launch(tmp_path), anyio.create_task_group():
                await anyio.sleep_forever()
    # The fixture sees that no process and no ticket is left.


async def test_a_cancelled_block_suspends_its_run(tmp_path: Path) -> None:
    with anyio.CancelScope() as scope:
        async with launch(tmp_path) as memory, memory.run("monday") as run:
            await run.call("memory_write", NOTE)
            scope.cancel()
            await anyio.sleep_forever()
    assert list(run.scope["keys"]) == ["plan"]  # the suspend was answered
    async with launch(tmp_path) as memory:
        assert [found["state"] for found in await memory.runs()] == ["suspended"]


async def test_the_environments_ticket_and_other_variables_do_not_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SIDECAR_TICKET", "/nowhere")
    async with launch(tmp_path, env=None if "PYTHONPATH" in os.environ else environment()) as memory, memory.run():
        pass


async def test_a_harness_that_names_no_identity_is_its_own(tmp_path: Path, anyio_backend_name: str) -> None:
    script = tmp_path / "my_agent.py"
    script.write_text(
        f"""
import anyio, sys
from memory_sidecar.harness import MemorySidecar

async def main():
    async with MemorySidecar.launch(store_dir={str(tmp_path / "state")!r}) as memory, memory.run("monday") as run:
        await run.call("memory_write", {NOTE!r})

anyio.run(main, backend={anyio_backend_name!r})
print("mcp" in sys.modules)
"""
    )
    done = subprocess.run(
        [sys.executable, str(script)], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stderr == ""
    assert done.stdout == "False\n"
    assert (tmp_path / "state" / "memory" / "my_agent" / "plan.md").exists()


@pytest.mark.parametrize("content", ["x" * 1_048_600, "\U0001f600" * 90_000], ids=["ascii", "escaped"])
async def test_arguments_larger_than_a_frame_are_answered_to_the_model(tmp_path: Path, content: str) -> None:
    async with launch(tmp_path) as memory, memory.run("r") as run:
        with anyio.fail_after(60):
            result = await run.call("memory_write", {"key": "k", "description": "d", "content": content})
        assert result.is_error
        assert "at most 65536 bytes" in result.text
        assert (await run.call("memory_list")).structured == {"memories": []}


@pytest.mark.parametrize("text", ["identity: a\n", "", "harness: {memory: {enabled: false}}\n"])
async def test_a_run_opens_where_memory_is_not_enabled(tmp_path: Path, text: str) -> None:
    config = tmp_path / "memory.yaml"
    config.write_text(text)
    async with launch(tmp_path, config=config) as memory:
        async with memory.run("r") as run:
            assert (run.tools, run.instructions, run.unsaved) == ([], "", None)
            with pytest.raises(RequestRefusedError):
                await run.call("memory_list")
        async with memory.run("r") as run:
            assert run.resumed


async def test_an_option_that_begins_with_a_dash_is_a_value(tmp_path: Path) -> None:
    async with launch(tmp_path, identity="-x") as memory, memory.run("r") as run:
        await run.call("memory_write", {"key": "k", "description": "d", "content": "c"})
    assert list(tmp_path.rglob("-x/k.md"))


def nested(depth: int) -> Any:
    lists: Any = []
    for _ in range(depth):
        lists = [lists]
    return lists


NO_JSON: dict[str, Any] = {
    "NaN": float("nan"),
    "infinity": json.loads("1e999"),
    "minus infinity": float("-inf"),
    "8000 digits": 10**8000,
    "deep lists": nested(5000),
    "lists as deep as Python encodes": nested(900),
}


async def test_arguments_that_json_cannot_carry_are_answered_to_the_model(memory: MemorySidecar) -> None:
    async with memory.run() as run:
        for kind, value in NO_JSON.items():
            places: list[dict[str, Any]] = [{"content": value}, {"overwrite": value}, {"x": value}, {"x": [value]}]
            if isinstance(value, float):
                places.append({"x": {value: 1}})
            for place in places:
                with anyio.fail_after(60):
                    result = await run.call("memory_write", {**NOTE, **place})
                assert result.is_error, kind
                assert result.text
            with suppress(SidecarError), anyio.fail_after(60):
                assert (await run.call(cast("str", value))).is_error
        assert (await run.call("memory_list")).structured == {"memories": []}


async def test_arguments_that_are_no_object_are_answered_to_the_model(memory: MemorySidecar) -> None:
    no_objects: list[Any] = [[], ["plan"], "plan", "", 7, True]
    async with memory.run() as run:
        for arguments in no_objects:
            result = await run.call("memory_list", arguments)
            assert result.is_error
            assert "JSON object" in result.text


async def test_half_of_a_surrogate_pair_hangs_nobody(memory: MemorySidecar) -> None:
    half = "\ud83d"
    with anyio.fail_after(60):
        async with memory.run() as run:
            for arguments in ({**NOTE, "content": half}, {**NOTE, "key": half}, {**NOTE, half: "x"}):
                assert (await run.call("memory_write", arguments)).is_error
            with pytest.raises(RequestRefusedError, match="unknown tool"):
                await run.call(half, NOTE)
            await run.finish("error", half)
        with pytest.raises(RequestRefusedError):
            async with memory.run(half):
                pytest.fail("it opened")


CIRCLE: list[Any] = []
CIRCLE.append(CIRCLE)


async def test_python_objects_are_the_harness_s_own_mistake(memory: MemorySidecar) -> None:
    values: list[Any] = [b"bytes", object(), {1, 2}, {(1, 2): 3}, CIRCLE]
    async with memory.run("r") as run:
        for value in values:
            for call in (
                run.call("memory_write", {**NOTE, "content": value}),
                run.call(value, NOTE),
                run.finish(value),
                run.finish("error", value),
            ):
                with anyio.fail_after(60), pytest.raises(RequestRefusedError, match=r"no JSON: .*pass dicts|is a text"):
                    await call
        assert (await run.call("memory_list")).structured == {"memories": []}


async def test_nothing_else_that_json_cannot_carry_hangs(memory: MemorySidecar) -> None:
    values: list[Any] = [*NO_JSON.values(), b"x"]
    for value in values:
        with anyio.fail_after(60):
            for opening in ({"scope": {"store": value, "keys": {}}}, {"resume": value}, {"scope": value}):
                with pytest.raises(SidecarError):
                    async with memory.run("monday", **opening):
                        pytest.fail("it opened")
            async with memory.run("monday") as run:
                with pytest.raises(SidecarError):
                    await run.finish(value)
                with pytest.raises(SidecarError):
                    await run.finish("error", value)


async def test_more_digits_than_the_sidecar_reads_are_answered_to_the_model(memory: MemorySidecar) -> None:
    """A harness that lets Python write them sends them, and the sidecar says so under the call's id."""
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        async with memory.run() as run:
            with anyio.fail_after(60):
                assert (await run.call("memory_write", {**NOTE, "n": 10**8000})).is_error
    finally:
        sys.set_int_max_str_digits(limit)


UNREADING = """
import json, sys
first = json.loads(sys.stdin.readline())
print(json.dumps({"jsonrpc": "2.0", "id": first["id"], "result": {}}), flush=True)
for line in sys.stdin:
    print(json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no JSON"}}), flush=True)
"""


async def test_an_answer_without_an_id_fails_who_waits(tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with launch(tmp_path, command=[sys.executable, "-c", UNREADING, "serve"]) as memory:
            for _ in range(2):
                with pytest.raises(SidecarError, match=r"could not read a request.*no JSON"):
                    await memory.runs()


async def test_an_answer_without_an_id_to_the_handshake_is_a_failed_start(tmp_path: Path) -> None:
    code = UNREADING[UNREADING.index("for line") :]
    with anyio.fail_after(60), pytest.raises(StartError, match="does not speak"):
        async with launch(tmp_path, command=[sys.executable, "-c", f"import json, sys\n{code}"]):
            pytest.fail("it started")


@pytest.mark.parametrize("answer", ['{"id": null, "result": {}}', '{"id": 1, "error": "no"}', '{"id": 1, "error": {}}'])
async def test_an_answer_of_another_form_is_a_failed_start(tmp_path: Path, answer: str) -> None:
    code = f"print({answer!r}, flush=True); input(); input()"
    with anyio.fail_after(60), pytest.raises(StartError, match="does not speak"):
        async with launch(tmp_path, command=[sys.executable, "-c", code]):
            pytest.fail("it started")


async def test_a_run_s_id_is_a_text_that_is_not_empty(memory: MemorySidecar) -> None:
    names: list[Any] = ["", 5, b"monday", ["monday"], False]
    for name in names:
        with pytest.raises(RequestRefusedError, match="id of a run"):
            async with memory.run(name):
                pytest.fail("it opened")
    assert await memory.runs() == []


STUBBORN = """
import json, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
{handshake}
while True:
    signal.pause()
"""
HANDSHAKE = "print(json.dumps({'jsonrpc': '2.0', 'id': 1, 'result': {}}), flush=True)"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Undone where another sidecar follows, which may take its time."""
    with monkeypatch.context() as bounded:
        for name in ("STOP_SECONDS", "IDLE_STOP_SECONDS", "KILL_SECONDS"):
            bounded.setattr(bounds, name, 0.1)
        yield bounded


@pytest.mark.parametrize("way", ["left", "cancelled", "failed"])
async def test_a_frozen_sidecar_is_left(
    tmp_path: Path, way: str, impatient: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """And the program's log tells of each run that was not suspended, and of the process that had to be killed."""
    with anyio.fail_after(60), anyio.CancelScope() as scope, suppress(ZeroDivisionError):
        async with launch(tmp_path) as memory, memory.run("monday") as run, memory.run("tuesday"):
            await run.call("memory_write", NOTE)
            os.kill(pid_of(memory), signal.SIGSTOP)
            os.waitid(os.P_PID, pid_of(memory), os.WSTOPPED | os.WNOWAIT)  # until then it may answer yet
            if way == "cancelled":
                scope.cancel()
                await anyio.sleep_forever()
            if way == "failed":
                raise ZeroDivisionError
    told = [record.getMessage() for record in caplog.records if record.name == "memory_sidecar.harness"]
    assert [text.split(" and ")[0] for text in told[:2]] == ["run tuesday was left", "run monday was left"]
    assert "was sent SIGKILL, as the memory sidecar does not answer; what it acknowledged is saved" in told[2]
    assert len(told) == 3
    impatient.undo()
    async with launch(tmp_path) as memory, memory.run("monday", resume="require") as run:
        assert list(run.scope["keys"]) == ["plan"]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("handshake", [HANDSHAKE, ""], ids=["after the handshake", "before"])
async def test_a_program_that_ignores_everything_is_left(tmp_path: Path, handshake: str) -> None:
    command = [sys.executable, "-c", STUBBORN.format(handshake=handshake)]
    with anyio.fail_after(60), anyio.move_on_after(1 if not handshake else 20):
        async with launch(tmp_path, command=command):
            assert handshake


async def test_only_who_has_a_run_open_and_answers_is_given_long(tmp_path: Path) -> None:
    """The bounds that the documentation tells. A sidecar gives calls that hang 15 seconds itself."""
    assert (bounds.STOP_SECONDS, bounds.IDLE_STOP_SECONDS, bounds.KILL_SECONDS) == (20, 5, 2)
    async with launch(tmp_path) as memory:
        assert memory._patience() == bounds.IDLE_STOP_SECONDS
        async with memory.run():
            assert memory._patience() == bounds.STOP_SECONDS
            memory._connection._pump.silent = True
            assert memory._patience() == bounds.KILL_SECONDS
            await memory.runs()
            assert memory._patience() == bounds.STOP_SECONDS  # it answers again
        assert memory._patience() == bounds.IDLE_STOP_SECONDS

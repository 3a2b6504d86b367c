"""The pipe is heard whoever reads it: the lane that answered last, or the main thread while that serves."""

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.sidecar import Sidecar, launched, patched, until

SYSTEMS = {
    "as it is": "",
    "without epoll": "import select; del select.epoll",
    "without eventfd": "import os; del os.eventfd",
    "whose pipes cannot be asked not to wait": """
import errno, os
def pwritev(*_):
    raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
os.pwritev = pwritev
""",
    "whose pipes do not wait": "import os; os.set_blocking(0, False); os.set_blocking(1, False)",
}
"""What runs in the sidecar first, to make it one of a system of this kind."""


@pytest.fixture(params=SYSTEMS)
def sidecar(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Sidecar]:
    with launched(tmp_path, env=patched(tmp_path, SYSTEMS[request.param])) as running:
        yield running


def waits_of_main_thread(sidecar: Sidecar) -> int:
    status = Path(f"/proc/{sidecar.pid}/task/{sidecar.pid}/status").read_text()
    return int(re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[0])


@pytest.mark.parametrize("sidecar", ["as it is", "whose pipes do not wait"], indirect=True)
@pytest.mark.parametrize("tool", ["memory_read", "memory_list", "memory_write"])
def test_calls_one_after_the_other_do_not_wake_the_main_thread(sidecar: Sidecar, tool: str) -> None:
    arguments = {
        "memory_read": {"key": "plan"},
        "memory_list": {},
        "memory_write": {"key": "plan", "description": "d", "content": "c", "overwrite": True},
    }[tool]
    sidecar.write("plan", "x" * 20_000)
    before = waits_of_main_thread(sidecar)
    for _ in range(60):
        sidecar.call(tool, arguments)
    assert (
        waits_of_main_thread(sidecar) - before < 30
    )  # a busy machine wakes it now and then; once a call it was before


def test_a_harness_may_write_all_it_has_before_it_reads_an_answer(sidecar: Sidecar) -> None:
    """More than both pipes hold: a thread that waits to write must not be the one that should read."""
    sidecar.write("plan", "x" * 60_000)
    assert sidecar.read("plan")["found"]
    messages = [sidecar.tool("memory_read", {"key": "plan"}) for _ in range(60)]
    for message in messages:
        sidecar.send_bytes(b" " * 5_000 + json.dumps(message).encode() + b"\n")
    assert [sidecar.receive()["id"] for _ in messages] == [message["id"] for message in messages]


def test_calls_of_two_runs_in_turn_are_all_answered(sidecar: Sidecar) -> None:
    sidecar.open("monday")
    sidecar.open("friday")
    for number in range(200):
        for run in ("monday", "friday"):
            message = sidecar.tool("memory_read", {"key": f"none-{number}"}, run)
            sidecar.send(message)
            answer = sidecar.receive()
            assert (answer["id"], answer["result"]["_meta"]["memory-sidecar/run"]) == (message["id"], run)


def test_a_frame_in_many_pieces_is_one_request(sidecar: Sidecar) -> None:
    sidecar.write("plan", "text")
    for number in range(3):
        frame = json.dumps(sidecar.tool("memory_read", {"key": "plan"})).encode() + b"\n"
        for start in range(0, len(frame), 7 + number):
            sidecar.send_bytes(frame[start : start + 7 + number])
        assert sidecar.receive()["result"]["structuredContent"]["content"] == "text"


@pytest.mark.parametrize("how", ["signal", "end of the pipe"])
def test_the_end_is_heard_while_a_lane_reads(tmp_path: Path, how: str) -> None:
    with launched(tmp_path) as sidecar:
        sidecar.open("monday")
        sidecar.write("plan", "text", run="monday")
        sidecar.open("friday")
        sidecar.read("plan", run="friday")  # whose lane reads now
        if how == "signal":
            sidecar.process.send_signal(signal.SIGTERM)
        else:
            sidecar.close_stdin()
        assert sidecar.rest() == []
        assert sidecar.process.wait(10) == 0
    for run in ("monday", "friday"):
        (journal,) = tmp_path.rglob(f"{run}.jsonl")
        assert '"reason":"suspended"' in journal.read_text()


def test_the_pipe_is_heard_after_the_run_that_read_it_has_ended(sidecar: Sidecar) -> None:
    for end in (sidecar.suspend, lambda run: sidecar.finish(run, "error")):
        sidecar.open("monday")
        assert sidecar.read("plan", run="monday")["found"] is False
        end("monday")
        assert sidecar.read("plan")["found"] is False


def test_a_lane_that_reads_ends_with_its_run(sidecar: Sidecar) -> None:
    def threads() -> int:
        return len(list(Path(f"/proc/{sidecar.pid}/task").iterdir()))

    sidecar.read("plan")
    before = threads()
    for number in range(5):
        sidecar.open(f"run-{number}")
        sidecar.read("plan", run=f"run-{number}")
        sidecar.suspend(f"run-{number}")
    until(lambda: threads() == before, "the threads of the runs have ended")

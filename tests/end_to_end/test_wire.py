"""The wire under honest and hostile use: framing, order, cancellation, and every way for a session to end."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.sidecar import (
    SERVE,
    TICKET,
    Frame,
    Sidecar,
    configured,
    environment,
    guarded,
    is_gone,
    launched,
    make_ticket,
    patched,
    until,
)

from exposure_policy import tool_set

MIB = 1024 * 1024

pytestmark = pytest.mark.usefixtures("both_eras")


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Sidecar]:
    with launched(tmp_path) as running:
        yield running


@contextlib.contextmanager
def writes_held(memory: Path) -> Iterator[Callable[[], None]]:
    """Hold the notes' lock, so that a change waits and a read does not. Yields what lets go of it early."""
    descriptor = os.open(memory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield lambda: fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def until_a_write_waits(memory: Path) -> None:
    until(lambda: list(memory.glob(".tmp-*")), "a write has been staged")


def write_of(sidecar: Sidecar, key: str, content: str = "new", run: str | None = None, **more: Any) -> Frame:
    return sidecar.tool("memory_write", {"key": key, "description": "d", "content": content, **more}, run)


def read_of(sidecar: Sidecar, key: str, run: str | None = None) -> Frame:
    return sidecar.tool("memory_read", {"key": key}, run)


# --- methods ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "method",
    [
        "resources/list",
        "resources/read",
        "resources/templates/list",
        "prompts/list",
        "prompts/get",
        "completion/complete",
        "logging/setLevel",
        "tasks/list",
        "memory-sidecar/run/delete",
        "notifications/initialized",
        "tools/list ",
        "Tools/List",
        "",
    ],
)
def test_the_list_of_methods_is_closed(sidecar: Sidecar, method: str) -> None:
    error = sidecar.ask(method, {})["error"]
    assert error["code"] == -32601
    # The same text for all of them: it tells nothing about what might exist.
    assert error == sidecar.ask("no/such/method")["error"]


def test_unknown_notifications_are_ignored(sidecar: Sidecar) -> None:
    sidecar.notify("notifications/no_such_thing", {"x": 1})
    sidecar.notify("tools/call", {"name": "memory_write", "arguments": {"key": "k", "description": "d", "content": ""}})
    sidecar.pulse()
    assert sidecar.call("memory_list")["structuredContent"] == {"memories": []}


def test_a_withheld_tool_is_as_unknown_as_one_that_never_existed(tmp_path: Path) -> None:
    with launched(tmp_path, *configured(tmp_path, "read_only: true")) as sidecar:
        assert [tool["name"] for tool in sidecar.request("tools/list")["tools"]] == list(
            tool_set(enabled=True, read_only=True)
        )
        errors = []
        for name in ("memory_write", "memory_delete", "memory_format"):
            arguments = {"key": "k", "description": "d", "content": "c"}
            errors.append(sidecar.ask("tools/call", {"name": name, "arguments": arguments})["error"])
        assert errors[0] == errors[1] == errors[2]
        assert errors[0]["code"] == -32602
        assert list((tmp_path / "memory" / "tester").iterdir()) == []


def test_a_call_of_a_run_that_is_not_open_is_refused(sidecar: Sidecar) -> None:
    for run in ("monday", "../monday", 7, {}, ""):
        params = {"name": "memory_list", "arguments": {}, "_meta": {"memory-sidecar/run": run}}
        assert sidecar.ask("tools/call", params)["error"]["code"] == -32602


def test_a_second_page_of_tools_is_refused(sidecar: Sidecar) -> None:
    assert sidecar.ask("tools/list", {"cursor": "2"})["error"]["code"] == -32602


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"name": 1},
        {"name": None, "arguments": {}},
        {"name": "memory_list", "_meta": {"progressToken": 1, "memory-sidecar/run": []}},
    ],
)
def test_a_malformed_call_is_an_error_of_its_params(sidecar: Sidecar, params: Frame) -> None:
    assert sidecar.ask("tools/call", params)["error"]["code"] == -32602


@pytest.mark.parametrize("arguments", [[], "text", 7, {"key": 7}, {"kee": "x"}, {"key": "a", "more": 1}])
def test_malformed_arguments_are_an_error_that_the_model_can_act_on(sidecar: Sidecar, arguments: Any) -> None:
    answer = sidecar.request("tools/call", {"name": "memory_read", "arguments": arguments})
    assert answer["isError"] is True
    assert "structuredContent" not in answer
    assert answer["content"][0]["text"]


# --- frames ----------------------------------------------------------------------------------------------------------


def padded(sidecar: Sidecar, size: int, *, id_first: bool = True) -> bytes:
    """A request of so many bytes, which lists the tools."""
    message = sidecar.message("tools/list", {"x": ""})
    del message["id"]
    whole: Frame = {"id": "big", **message} if id_first else {**message, "id": "big"}
    frame = json.dumps(whole).encode()
    return frame.replace(b'"x": ""', b'"x": "%s"' % (b"x" * (size - len(frame))))


def test_a_frame_of_one_mebibyte_is_served_and_one_byte_more_is_refused(sidecar: Sidecar) -> None:
    frame = padded(sidecar, MIB)
    assert len(frame) == MIB
    sidecar.send_bytes(frame + b"\n")
    served = sidecar.receive()
    assert served["id"] == "big"
    assert served["result"]["tools"]
    for id_first in (True, False):
        sidecar.send_bytes(padded(sidecar, MIB + 1, id_first=id_first) + b"\n")
        refused = sidecar.receive()
        assert refused["id"] == "big"
        assert refused["error"]["code"] == -32600
        assert str(MIB) in refused["error"]["message"]
    sidecar.pulse()


def test_a_frame_of_200_megabytes_is_refused_without_keeping_it(sidecar: Sidecar) -> None:
    def peak() -> int:
        return int(re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{sidecar.pid}/status").read_text())[0])

    before = peak()
    sidecar.send_bytes(b'{"x":"')
    for _ in range(200):
        sidecar.send_bytes(b"x" * MIB)
    sidecar.send_bytes(b'"}\n')
    assert sidecar.receive()["error"]["code"] == -32600
    assert peak() - before < 8 * 1024
    sidecar.pulse()


def test_one_write_of_the_largest_note_fits_however_its_text_is_escaped(sidecar: Sidecar) -> None:
    content = "\x01" * 65536
    message = write_of(sidecar, "big", content)
    assert len(json.dumps(message)) < MIB
    sidecar.send(message)
    assert sidecar.answer(message)["result"]["isError"] is False
    assert sidecar.read("big")["content"] == content


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        pytest.param(b"\xff\xfe{}", -32700, id="not UTF-8"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,"method":"\xc3"}', -32700, id="half a letter"),
        pytest.param(b'{"jsonrpc":"2.0","id":-Infinity,"method":"ping"}', -32700, id="infinity"),
        pytest.param(b"[" * 200_000, -32700, id="deep lists"),
        pytest.param(b'{"a":' * 150_000, -32700, id="deep objects"),
        pytest.param(b'{"jsonrpc":"2.0","id":1,', -32700, id="half an object"),
        pytest.param(b'{"jsonrpc":"2.0","id":%s,"method":"ping"}' % (b"9" * 5000), -32700, id="absurd number"),
        pytest.param(b"GET / HTTP/1.1", -32700, id="another protocol"),
        pytest.param(b"\x00", -32700, id="NUL"),
        pytest.param(b"[]", -32600, id="empty batch"),
        pytest.param(b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', -32600, id="batch"),
        pytest.param(b'"ping"', -32600, id="text"),
        pytest.param(b"7", -32600, id="number"),
        pytest.param(b"null", -32600, id="null"),
        pytest.param(b"{}", -32600, id="empty"),
        pytest.param(b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, id="null id"),
        pytest.param(b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, id="boolean id"),
        pytest.param(b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, id="fractional id"),
        pytest.param(b'{"jsonrpc":"2.0","id":[1],"method":"ping"}', -32600, id="list id"),
        pytest.param(b'{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600, id="object id"),
    ],
)
def test_what_is_no_message_is_an_error_without_an_id_and_the_session_lives(
    sidecar: Sidecar, frame: bytes, code: int
) -> None:
    sidecar.send_bytes(frame + b"\n")
    answer = sidecar.receive()
    assert answer["id"] is None
    assert answer["error"]["code"] == code
    sidecar.pulse()


@pytest.mark.parametrize("value", [b"NaN", b"-Infinity", b"1e999", b"9" * 5000, b"[" * 100_000 + b"]" * 100_000])
def test_a_request_with_a_value_that_cannot_be_read_is_told_so(sidecar: Sidecar, value: bytes) -> None:
    """Under its id, wherever that stands: whoever waits for it would wait for ever."""
    for frame in (
        b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"arguments":{"id":2,"key":%s}}}',
        b'{"method":"tools/call","params":{"arguments":{"id":2,"key":[%s]}},"jsonrpc":"2.0", "id" : "a" }',
    ):
        sidecar.send_bytes(frame % value + b"\n")
        answer = sidecar.receive()
        assert (answer["id"], answer["error"]["code"]) == ("a", -32700)
    sidecar.pulse()


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ({"id": "x", "method": "ping"}, -32600),
        ({"jsonrpc": "1.0", "id": "x", "method": "ping"}, -32600),
        ({"jsonrpc": 2.0, "id": "x", "method": "ping"}, -32600),
        ({"jsonrpc": "2.0", "id": "x"}, -32600),
        ({"jsonrpc": "2.0", "id": "x", "method": 7}, -32600),
        ({"jsonrpc": "2.0", "id": "x", "method": None}, -32600),
        ({"jsonrpc": "2.0", "id": "x", "method": "ping", "params": [1]}, -32602),
    ],
)
def test_a_malformed_message_is_answered_under_its_id(sidecar: Sidecar, message: Frame, code: int) -> None:
    sidecar.send(message)
    answer = sidecar.answer("x")
    assert answer["error"]["code"] == code


@pytest.mark.parametrize("request_id", [0, -1, 10**30, "", "7", "ключ", "\ud800", "x" * 1000, 'a"\n\\'])
def test_an_id_comes_back_as_it_was_sent(sidecar: Sidecar, request_id: str | int) -> None:
    sidecar.send({**sidecar.message("tools/list"), "id": request_id})
    answer = sidecar.receive()
    assert (answer["id"], type(answer["id"])) == (request_id, type(request_id))
    assert answer["result"]["tools"]


def test_responses_blank_lines_and_carriage_returns_do_no_harm(sidecar: Sidecar) -> None:
    sidecar.send({"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 2, "error": {"code": 1}})
    sidecar.send_bytes(b"\n\r\n   \n")
    sidecar.send_bytes(b'{"jsonrpc":"2.0","id":"crlf","method":"ping"}\r\n')
    assert sidecar.receive()["id"] == "crlf"


def test_frames_may_arrive_a_byte_at_a_time(sidecar: Sidecar) -> None:
    for byte in b'{"jsonrpc":"2.0","id":"slow","method":"ping"}\n{"jsonrpc":"2.0","id":"two","method":"ping"}\n':
        sidecar.send_bytes(bytes([byte]))
    assert [sidecar.receive()["id"], sidecar.receive()["id"]] == ["slow", "two"]


# --- order and independence ------------------------------------------------------------------------------------------


def test_pipelined_calls_of_a_run_are_served_in_order(sidecar: Sidecar) -> None:
    messages = []
    for number in range(60):
        messages.append(write_of(sidecar, "counter", str(number), overwrite=True))
        messages.append(read_of(sidecar, "counter"))
    sidecar.send(*messages)
    answers = [sidecar.receive() for _ in messages]
    assert [answer["id"] for answer in answers] == [message["id"] for message in messages]
    assert [answer["result"]["structuredContent"]["content"] for answer in answers[1::2]] == [
        str(number) for number in range(60)
    ]


def test_a_run_does_not_wait_for_another_ones_store(sidecar: Sidecar) -> None:
    assert sidecar.memory is not None
    sidecar.write("plan", "old")
    sidecar.open("slow")
    sidecar.open("quick")
    with writes_held(sidecar.memory) as let_go:
        stuck = write_of(sidecar, "other", run="slow")
        behind = read_of(sidecar, "plan", run="slow")
        sidecar.send(stuck, behind)
        until_a_write_waits(sidecar.memory)
        assert sidecar.read("plan", run="quick")["content"] == "old"
        assert sidecar.read("plan")["content"] == "old"
        sidecar.pulse()
        assert sidecar.states()["slow"] == "open"
        sidecar.suspend("quick")
        let_go()
        first, second = sidecar.receive(), sidecar.receive()
        assert [first["id"], second["id"]] == [stuck["id"], behind["id"]]
        assert first["result"]["structuredContent"] == {"written": True, "key": "other"}


# --- cancellation ----------------------------------------------------------------------------------------------------


def test_a_queued_call_that_is_cancelled_does_nothing_and_is_not_answered(tmp_path: Path) -> None:
    with launched(tmp_path, *guarded(tmp_path)) as sidecar:
        assert sidecar.memory is not None
        sidecar.open("writer")
        sidecar.write("plan", "old", run="writer")
        with writes_held(sidecar.memory) as let_go:
            first, write, read = write_of(sidecar, "first"), write_of(sidecar, "second"), read_of(sidecar, "plan")
            sidecar.send(first, write, read)
            until_a_write_waits(sidecar.memory)
            sidecar.cancel(write)
            sidecar.cancel(read)
            sidecar.pulse()  # the cancellations have been received
            let_go()
        assert sidecar.receive()["id"] == first["id"]
        # The cancelled write is absent, and the cancelled read granted nothing.
        assert sidecar.read("second")["found"] is False
        assert sidecar.write("plan", "new", overwrite=True)["code"] == "not_read"
        sidecar.close_stdin()
        assert sidecar.rest() == []


def test_a_running_write_that_is_cancelled_is_whole_and_not_answered(sidecar: Sidecar) -> None:
    assert sidecar.memory is not None
    with writes_held(sidecar.memory) as let_go:
        write = write_of(sidecar, "plan", "x" * 50_000)
        sidecar.send(write)
        until_a_write_waits(sidecar.memory)
        sidecar.cancel(write)
        sidecar.pulse()
        let_go()
    assert sidecar.read("plan")["content"] == "x" * 50_000
    sidecar.close_stdin()
    assert sidecar.rest() == []


@pytest.mark.parametrize("request_id", [12345, "no such", None, [], {}, 1.5, True])
def test_a_cancellation_of_nothing_does_nothing(sidecar: Sidecar, request_id: Any) -> None:
    sidecar.notify("notifications/cancelled", {"requestId": request_id})
    sidecar.pulse()


def test_a_run_whose_opening_was_cancelled_can_be_opened_again(sidecar: Sidecar) -> None:
    def opened() -> bool:
        answer = sidecar.ask("memory-sidecar/run/open", {"run": "monday"})
        # Refused only while the first opening is still under way.
        assert "result" in answer or "open already" in answer["error"]["message"]
        return "result" in answer

    for _ in range(30):
        opening = sidecar.message("memory-sidecar/run/open", {"run": "monday"})
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": opening["id"]}}
        sidecar.send(opening, cancelled)
        until(opened, "the run can be opened")
        assert sidecar.call("memory_list", run="monday")["isError"] is False
        sidecar.suspend("monday")


# --- the end of a session --------------------------------------------------------------------------------------------


def eof(sidecar: Sidecar) -> None:
    sidecar.close_stdin()


def signalled(number: int) -> Callable[[Sidecar], None]:
    def send(sidecar: Sidecar) -> None:
        sidecar.process.send_signal(number)

    send.__name__ = signal.Signals(number).name
    return send


ENDS = [eof, signalled(signal.SIGTERM), signalled(signal.SIGINT), signalled(signal.SIGHUP)]


@pytest.mark.parametrize("end", ENDS)
def test_at_the_end_calls_in_flight_are_answered_and_runs_suspended(
    tmp_path: Path, end: Callable[[Sidecar], None]
) -> None:
    with launched(tmp_path, "--run", "named") as sidecar:
        assert sidecar.memory is not None
        sidecar.open("monday")
        with writes_held(sidecar.memory) as let_go:
            calls = [write_of(sidecar, "one"), write_of(sidecar, "two"), write_of(sidecar, "three", run="monday")]
            sidecar.send(*calls)
            sidecar.pulse()  # all have been received
            until_a_write_waits(sidecar.memory)
            end(sidecar)
            let_go()
        answers = sidecar.rest()
        assert sorted(answer["id"] for answer in answers) == [call["id"] for call in calls]
        assert all(answer["result"]["structuredContent"]["written"] for answer in answers)
        assert sidecar.wait() == 0
    with launched(tmp_path) as sidecar:
        assert sidecar.states() == {"monday": "suspended", "named": "suspended"}


def test_what_was_sent_before_the_pipe_closed_is_all_served(sidecar: Sidecar) -> None:
    calls = [write_of(sidecar, f"key{number}") for number in range(40)]
    sidecar.send(*calls)
    sidecar.send_bytes(b'{"jsonrpc":"2.0","id":"half","method":"pi')
    sidecar.close_stdin()
    assert [answer["id"] for answer in sidecar.rest()] == [call["id"] for call in calls]
    assert sidecar.wait() == 0
    assert sidecar.memory is not None
    assert len(list(sidecar.memory.glob("*.md"))) == 40


@pytest.mark.parametrize("end", ENDS)
def test_before_the_handshake_the_end_is_just_as_orderly(tmp_path: Path, end: Callable[[Sidecar], None]) -> None:
    with Sidecar(tmp_path) as sidecar:
        sidecar.ask("tools/list")  # it is up
        end(sidecar)
        assert sidecar.wait() == 0
        assert sidecar.rest() == []


@pytest.mark.parametrize("end", ENDS)
def test_a_harness_that_stops_reading_cannot_keep_it_from_ending(
    tmp_path: Path, end: Callable[[Sidecar], None]
) -> None:
    # As long as it gives calls that are being served, and longer than this test waits.
    env = patched(tmp_path, "import memory_sidecar.wire.closing as closing\nclosing._GRACE = 600.0\n")
    with launched(tmp_path, env=env) as sidecar:
        sidecar.open("monday")
        sidecar.write("big", "x" * 60_000, run="monday")
        sidecar.send(*(read_of(sidecar, "big", run="monday") for _ in range(20)))
        assert sidecar.process.stdout is not None
        full = fcntl.fcntl(sidecar.process.stdout, fcntl.F_GETPIPE_SZ)
        until(lambda: pending(sidecar.process.stdout) == full, "the pipe is full")
        end(sidecar)
        assert sidecar.wait() == 0
    with launched(tmp_path) as sidecar:
        assert sidecar.states() == {"monday": "suspended"}


def pending(pipe: Any) -> int:
    import array
    import termios

    waiting = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, waiting)
    return waiting[0]


def test_a_harness_that_closes_its_end_ends_the_session(tmp_path: Path) -> None:
    with launched(tmp_path, "--run", "monday") as sidecar:
        assert sidecar.process.stdout is not None
        sidecar.process.stdout.close()
        sidecar.send(write_of(sidecar, "plan"))
        assert sidecar.wait() == 0
        sidecar.process.stdout = None
    with launched(tmp_path) as sidecar:
        assert sidecar.read("plan")["found"] is True
        assert sidecar.states()["monday"] == "suspended"


PARENT = """
import subprocess, sys
child = subprocess.Popen(sys.argv[3:], stdin=int(sys.argv[1]), stdout=int(sys.argv[2]))
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_it_ends_with_its_parent_even_while_another_process_holds_the_pipe_open(tmp_path: Path) -> None:
    token = make_ticket(tmp_path / "ticket")
    their_in, our_out = os.pipe()
    our_in, their_out = os.pipe()
    with (
        open(our_in, "rb") as answers,
        open(our_out, "wb", buffering=0) as requests,
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                PARENT,
                str(their_in),
                str(their_out),
                *SERVE,
                *f"--store-dir {tmp_path} --identity tester --run monday".split(),
            ],
            env=environment(**{TICKET: str(tmp_path / "ticket")}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            pass_fds=[their_in, their_out],
        ) as parent,
    ):
        os.close(their_in)
        os.close(their_out)
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        capabilities = {"extensions": {"memory-sidecar/harness": {"ticket": token}}}
        hello = {"protocolVersion": "2025-11-25", "capabilities": capabilities}
        requests.write(
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode() + b"\n"
        )
        assert "result" in json.loads(answers.readline())
        parent.kill()
        # This process still holds both pipes: there is no end of file to go by.
        assert answers.read() == b""
        until(lambda: is_gone(child), "the sidecar has ended")
    with launched(tmp_path) as sidecar:
        assert sidecar.states() == {"monday": "suspended"}


def test_the_end_of_the_thread_that_launched_it_is_not_the_end_of_its_parent(tmp_path: Path) -> None:
    running: list[Sidecar] = []
    thread = threading.Thread(target=lambda: running.append(launched(tmp_path)))
    thread.start()
    thread.join()
    with running[0] as sidecar:
        for number in range(20):
            assert sidecar.write(f"key{number}", "x")["written"]
        assert sidecar.leave() == 0


# --- what must not reach the wire, and what must not hold it up ------------------------------------------------------


def test_a_stray_print_cannot_corrupt_the_wire(tmp_path: Path) -> None:
    code = """
import os
fsync = os.fsync
def loud(descriptor):
    print("stray text", flush=True)
    os.write(1, b'{"jsonrpc":"2.0","id":1,"result":{}}\\n')
    return fsync(descriptor)
os.fsync = loud
"""
    with Sidecar(tmp_path / "state", env=patched(tmp_path, code)) as sidecar:
        hello = sidecar.hello()
        sidecar.send(hello)
        assert sidecar.receive()["id"] == hello["id"]
        write = write_of(sidecar, "plan")
        sidecar.send(write)
        assert sidecar.receive()["id"] == write["id"]
        sidecar.close_stdin()
        assert sidecar.rest() == []
        assert "stray text" in sidecar.stderr


def test_an_unforeseen_failure_is_an_error_without_details_and_the_session_lives(tmp_path: Path) -> None:
    code = f"""
import os
def spoiled(look):
    def fails(place):
        if os.path.exists({str(tmp_path / "explode")!r}):
            raise RuntimeError("secret in /some/path")
        return look(place)
    return fails
os.scandir, os.listdir = spoiled(os.scandir), spoiled(os.listdir)
"""
    with Sidecar(tmp_path / "state", env=patched(tmp_path, code)) as sidecar:
        sidecar.initialize()
        (tmp_path / "explode").touch()
        failed = sidecar.call("memory_list")  # a store's fault is told to the model, in words
        assert failed["isError"] is True
        assert "secret" not in str(failed)
        listing = sidecar.message("memory-sidecar/run/list")  # any other one is the harness's to hear
        sidecar.send(listing)
        error = sidecar.answer(listing)["error"]
        assert error["code"] == -32603
        assert "secret" not in str(error)
        assert "/" not in error["message"]
        assert "RuntimeError" in sidecar.stderr  # the operator learns it
        (tmp_path / "explode").unlink()
        assert sidecar.call("memory_list")["isError"] is False


def test_a_log_that_nobody_reads_never_holds_up_a_call(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    try:
        os.set_blocking(writer, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writer, b"x" * 4096)
        os.set_blocking(writer, True)
        with launched(tmp_path, stderr=writer) as sidecar:
            # Each of these calls has something to log: its run's journal cannot be written.
            (tmp_path / "runs" / "tester").rmdir()
            (tmp_path / "runs" / "tester").write_text("in the way")
            assert sidecar.write("plan", "x") == {"written": True, "key": "plan"}
            for _ in range(50):
                assert sidecar.call("memory_read", {"key": "plan"})["_meta"]["memory-sidecar/unsaved"]
            assert sidecar.leave() == 0
    finally:
        os.close(reader)
        os.close(writer)


def test_nothing_a_model_sees_names_a_path_or_shows_a_traceback(tmp_path: Path) -> None:
    with launched(tmp_path) as sidecar:
        assert sidecar.memory is not None
        (sidecar.memory / "planted.md").write_bytes(b"\xff\xfe not text")
        (sidecar.memory / "taken.md").mkdir()
        (sidecar.memory / "huge.md").write_bytes(b"x" * 200_000)
        (sidecar.memory / "link.md").symlink_to("/etc/passwd")
        sidecar.write("plan", "x")

        def everything() -> str:
            answers = [sidecar.call("memory_list")]
            for key in ("plan", "planted", "taken", "huge", "link", "../x", "", "a" * 300, "nothing"):
                for name, more in (
                    ("memory_read", {}),
                    ("memory_write", {"description": "d", "content": "c"}),
                    ("memory_write", {"description": "d", "content": "c", "overwrite": True}),
                    ("memory_write", {"description": "", "content": "c"}),
                    ("memory_delete", {}),
                ):
                    if key in ("plan", "nothing") and name == "memory_delete":
                        continue
                    answers.append(sidecar.call(name, {"key": key, **more}))
            return json.dumps([[answer["content"], answer.get("structuredContent")] for answer in answers])

        shown = everything()
        shutil.rmtree(sidecar.memory)
        shown += everything()
        sidecar.memory.write_text("a file where the notes were")
        shown += everything()
        for word in (str(tmp_path), "/memory", "/etc", "passwd", "Traceback", "Errno", "Error:", ".py", ".md"):
            assert word not in shown
        assert sidecar.stderr.count("Traceback") == 0
        assert "internal error" not in sidecar.stderr

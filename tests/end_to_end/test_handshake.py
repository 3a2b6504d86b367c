"""Who may start the sidecar, and what anybody else learns from it: nothing."""

import contextlib
import json
import os
import pty
import re
import secrets
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.sidecar import (
    DEADLINE,
    EXTENSION,
    FINISH,
    LIST,
    OPEN,
    SERVE,
    SUSPEND,
    TICKET,
    Sidecar,
    configured,
    environment,
    launched,
    make_ticket,
)

from memory_sidecar.backend.file.store_id import FILE_NAME
from memory_sidecar.wire.codes import REFUSED

ROOT = os.geteuid() == 0


def files_under(base: Path) -> list[str]:
    return sorted(
        str(path.relative_to(base)) for path in base.rglob("*") if not path.is_dir() and path.name != FILE_NAME
    )


def assert_refused_by_policy(sidecar: Sidecar, **changes: Any) -> None:
    message = sidecar.hello(**changes)
    sidecar.send(message)
    error = sidecar.answer(message)["error"]
    assert error["code"] == -32021
    assert error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
    assert "policy" in error["message"]
    assert sidecar.rest() == []
    assert sidecar.wait() == 77


# --- the ticket ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, ""])
def test_without_a_ticket_one_line_says_who_may_start_it(tmp_path: Path, value: str | None) -> None:
    env = environment() if value is None else environment(**{TICKET: value})
    with Sidecar(tmp_path / "state", ticket="", env=env) as sidecar:
        assert sidecar.wait() == 64
        assert sidecar.rest() == []
        assert len(sidecar.stderr.splitlines()) == 1
        assert "harness" in sidecar.stderr
        assert TICKET in sidecar.stderr
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("place", ["extensions", "experimental"])
def test_the_token_is_taken_from_either_place_where_an_sdk_lets_a_client_put_it(tmp_path: Path, place: str) -> None:
    with Sidecar(tmp_path) as sidecar:
        answer = sidecar.initialize(capabilities={place: {EXTENSION: {"ticket": sidecar.token}}})
        assert answer["serverInfo"]["name"] == "memory-sidecar"
        assert sidecar.leave() == 0


@pytest.mark.parametrize(
    "capabilities",
    [
        pytest.param({}, id="none"),
        pytest.param({"extensions": None}, id="null"),
        pytest.param({"extensions": {EXTENSION: {}}}, id="no token"),
        pytest.param({"extensions": {EXTENSION: {"ticket": ""}}}, id="empty"),
        pytest.param({"extensions": {EXTENSION: {"ticket": None}}}, id="null token"),
        pytest.param({"extensions": {EXTENSION: {"ticket": secrets.token_urlsafe(32)}}}, id="wrong"),
        pytest.param({"extensions": {EXTENSION: {"ticket": "\ud800é"}}}, id="not ASCII"),
        pytest.param({"extensions": {EXTENSION: "ticket"}}, id="text"),
        pytest.param({"roots": {}, "sampling": {}}, id="another client"),
    ],
)
def test_a_client_without_the_token_is_refused_and_the_process_ends(tmp_path: Path, capabilities: Any) -> None:
    with Sidecar(tmp_path) as sidecar:
        assert_refused_by_policy(sidecar, capabilities=capabilities)
    assert files_under(tmp_path) == []


def test_a_part_of_the_token_is_not_the_token(tmp_path: Path) -> None:
    with Sidecar(tmp_path) as sidecar:
        capabilities = {"extensions": {EXTENSION: {"ticket": sidecar.token[:-1]}}}
        assert_refused_by_policy(sidecar, capabilities=capabilities)


def test_what_follows_a_refused_handshake_is_not_served(tmp_path: Path) -> None:
    with Sidecar(tmp_path) as sidecar:
        good = sidecar.hello()
        wrong = sidecar.hello(capabilities={})
        sidecar.send(wrong, good, sidecar.message("tools/list"))
        assert [frame["id"] for frame in sidecar.rest()] == [wrong["id"]]
        assert sidecar.wait() == 77


def test_a_ticket_works_once(tmp_path: Path) -> None:
    ticket = tmp_path / "ticket"
    token = make_ticket(ticket)
    with Sidecar(tmp_path / "first", ticket=ticket, token=token) as first:
        first.initialize()
        assert ticket.read_bytes() == b""  # to remove it is left to its harness
        with Sidecar(tmp_path / "second", ticket=ticket, token=token) as second:
            assert_refused_by_policy(second)
    assert not (tmp_path / "second").exists()


def test_of_many_launches_with_one_ticket_one_wins(tmp_path: Path) -> None:
    for number in range(3):
        ticket = tmp_path / f"ticket{number}"
        token = make_ticket(ticket)
        with contextlib.ExitStack() as stack:
            racers = [stack.enter_context(Sidecar(tmp_path / "state", ticket=ticket, token=token)) for _ in range(6)]
            messages = [racer.hello() for racer in racers]
            for racer, message in zip(racers, messages, strict=True):
                racer.send(message)
            answers = [racer.answer(message) for racer, message in zip(racers, messages, strict=True)]
            assert sorted("result" in answer for answer in answers) == [False] * 5 + [True]


def plant_wrong_mode(path: Path) -> str:
    return make_ticket(path, mode=0o640)


def plant_other_owner(path: Path) -> str:
    if not ROOT:
        pytest.skip("only root can give a file away")
    token = make_ticket(path)
    os.chown(path, 65534, 65534)
    return token


def plant_symlink(path: Path) -> str:
    token = make_ticket(path.with_suffix(".real"))
    path.symlink_to(path.with_suffix(".real"))
    return token


def plant_hard_link(path: Path) -> str:
    token = make_ticket(path)
    os.link(path, path.with_suffix(".second"))
    return token


def plant_fifo(path: Path) -> str:
    os.mkfifo(path, 0o600)
    return secrets.token_urlsafe(32)


def plant_directory(path: Path) -> str:
    path.mkdir(mode=0o700)
    return secrets.token_urlsafe(32)


def plant_short_token(path: Path) -> str:
    path.write_text("abc")
    path.chmod(0o600)
    return "abc"


def plant_empty(path: Path) -> str:
    path.touch(0o600)
    return ""


def plant_nothing(path: Path) -> str:
    return secrets.token_urlsafe(32)


@pytest.mark.parametrize(
    "plant",
    [
        plant_wrong_mode,
        plant_other_owner,
        plant_symlink,
        plant_hard_link,
        plant_fifo,
        plant_directory,
        plant_short_token,
        plant_empty,
        plant_nothing,
    ],
)
def test_a_ticket_that_is_not_a_private_file_opens_nothing(tmp_path: Path, plant: Callable[[Path], str]) -> None:
    ticket = tmp_path / "ticket"
    token = plant(ticket)
    with Sidecar(tmp_path / "state", ticket=ticket, token=token) as sidecar:
        assert_refused_by_policy(sidecar)
        assert len(sidecar.stderr.splitlines()) == 2  # why the ticket is no good, and that a client was refused
        assert not token or token not in sidecar.stderr
    assert not (tmp_path / "state").exists()


def test_the_ticket_is_not_left_in_the_environment_or_the_log(tmp_path: Path) -> None:
    with launched(tmp_path) as sidecar:
        sidecar.call("memory_list")
        assert sidecar.leave() == 0
        assert sidecar.token not in sidecar.stderr


# --- before the handshake --------------------------------------------------------------------------------------------


def test_nothing_is_served_before_the_handshake_and_the_refusal_reveals_nothing(tmp_path: Path) -> None:
    write = {"name": "memory_write", "arguments": {"key": "k", "description": "d", "content": "c"}}
    asked: list[tuple[str, Any]] = [
        ("tools/list", {}),
        ("tools/call", write),
        ("tools/call", {"name": "no_such_tool"}),
        ("resources/list", {}),
        ("prompts/list", {}),
        ("ping", None),
        (OPEN, {"run": "r"}),
        (SUSPEND, {"run": "r"}),
        (FINISH, {"run": "r", "reason": "completed"}),
        (LIST, {}),
        ("no/such/method", {}),
    ]
    with Sidecar(tmp_path, "--run", "monday") as sidecar:
        errors = [sidecar.ask(method, params)["error"] for method, params in asked]
        assert all(error == errors[0] for error in errors)
        assert set(errors[0]) == {"code", "message"}
        assert not re.search(r"memory_|tool|note|run|key", errors[0]["message"])
        assert files_under(tmp_path) == []
        # The session is none the worse for it.
        sidecar.initialize()
        assert sidecar.call("memory_list")["structuredContent"] == {"memories": []}


def test_notifications_before_the_handshake_do_nothing(tmp_path: Path) -> None:
    with Sidecar(tmp_path) as sidecar:
        sidecar.notify("notifications/initialized")
        sidecar.notify("initialize", sidecar.hello()["params"])
        assert sidecar.ask("tools/list")["error"]["code"] == -32600


@pytest.mark.parametrize(
    "params",
    [
        pytest.param({}, id="empty"),
        pytest.param({"protocolVersion": "2025-11-25"}, id="no capabilities"),
        pytest.param({"capabilities": {}}, id="no version"),
        pytest.param({"protocolVersion": 20251125, "capabilities": {}}, id="version a number"),
        pytest.param({"protocolVersion": "2025-11-25", "capabilities": []}, id="capabilities a list"),
        pytest.param([], id="a list"),
    ],
)
def test_a_malformed_initialize_is_an_error_and_the_next_one_may_be_right(tmp_path: Path, params: Any) -> None:
    with Sidecar(tmp_path) as sidecar:
        assert sidecar.ask("initialize", params)["error"]["code"] == -32602
        sidecar.initialize()


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2099-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ],
)
def test_a_known_version_is_answered_as_asked_and_any_other_with_the_newest(
    tmp_path: Path, asked: str, answered: str
) -> None:
    with Sidecar(tmp_path) as sidecar:
        assert sidecar.initialize(protocolVersion=asked)["protocolVersion"] == answered


def test_a_second_initialize_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with launched(tmp_path) as sidecar:
        again = sidecar.hello(capabilities={})
        sidecar.send(again)
        assert sidecar.answer(again)["error"]["code"] == -32600
        assert sidecar.call("memory_list")["isError"] is False


def test_the_handshake_tells_the_default_run_and_its_system_text(tmp_path: Path) -> None:
    with Sidecar(tmp_path) as sidecar:
        answer = sidecar.initialize()
        run = answer["_meta"]["memory-sidecar/run"]
        assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}", run)
        assert "memory_read" in answer["instructions"]
        assert sidecar.call("memory_list")["_meta"] == {"memory-sidecar/run": run}
    with Sidecar(tmp_path, "--run", "monday") as sidecar:
        assert sidecar.initialize()["_meta"] == {"memory-sidecar/run": "monday"}


def test_a_harness_that_opens_its_runs_itself_gets_no_default_run(tmp_path: Path) -> None:
    def capabilities(sidecar: Sidecar) -> dict[str, Any]:
        return {"extensions": {"memory-sidecar/harness": {"ticket": sidecar.token, "default_run": False}}}

    with Sidecar(tmp_path) as sidecar:
        answer = sidecar.initialize(capabilities=capabilities(sidecar))
        assert not {"instructions", "_meta"} & set(answer)
        call = sidecar.tool("memory_list")
        sidecar.send(call)
        assert "not open" in sidecar.answer(call)["error"]["message"]
        opening = sidecar.message("memory-sidecar/run/open", {"run": "monday"})
        sidecar.send(opening)
        assert "memory_read" in sidecar.answer(opening)["result"]["instructions"]
    with Sidecar(tmp_path, "--run", "tuesday") as sidecar:
        answer = sidecar.initialize(capabilities=capabilities(sidecar))
        assert answer["_meta"] == {"memory-sidecar/run": "tuesday"}


def test_requests_sent_along_with_initialize_wait_for_it(tmp_path: Path) -> None:
    with Sidecar(tmp_path) as sidecar:
        hello, listing, call = sidecar.hello(), sidecar.message("tools/list"), sidecar.tool("memory_list")
        sidecar.send(hello, listing, call)
        assert "result" in sidecar.answer(hello)
        assert len(sidecar.answer(listing)["result"]["tools"]) == 4
        assert sidecar.answer(call)["result"]["isError"] is False


# --- stdin and stdout ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def terminal(tmp_path: Path) -> Iterator[int]:
    above, below = pty.openpty()
    try:
        yield below
    finally:
        os.close(above)
        os.close(below)


@contextlib.contextmanager
def null_device(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(os.devnull, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def plain_file(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def named_fifo(tmp_path: Path) -> Iterator[int]:
    os.mkfifo(tmp_path / "fifo")
    descriptor = os.open(tmp_path / "fifo", os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def tcp_socket(tmp_path: Path) -> Iterator[int]:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0],
    ):
        yield client.fileno()


def _unix(tmp_path: Path, *, accepted: bool) -> contextlib.AbstractContextManager[int]:
    @contextlib.contextmanager
    def pair() -> Iterator[int]:
        with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
            server.bind(str(tmp_path / "socket"))
            server.listen()
            client.connect(str(tmp_path / "socket"))
            with server.accept()[0] as connection:
                yield (connection if accepted else client).fileno()

    return pair()


def named_unix_client(tmp_path: Path) -> contextlib.AbstractContextManager[int]:
    return _unix(tmp_path, accepted=False)


def named_unix_server(tmp_path: Path) -> contextlib.AbstractContextManager[int]:
    return _unix(tmp_path, accepted=True)


@contextlib.contextmanager
def datagram_pair(tmp_path: Path) -> Iterator[int]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, theirs:
        yield theirs.fileno()


@pytest.mark.parametrize("stream", ["stdin", "stdout"])
@pytest.mark.parametrize(
    "channel",
    [
        terminal,
        null_device,
        plain_file,
        named_fifo,
        tcp_socket,
        named_unix_client,
        named_unix_server,
        datagram_pair,
    ],
)
def test_a_channel_that_others_could_reach_is_refused_at_launch(
    tmp_path: Path, channel: Callable[[Path], contextlib.AbstractContextManager[int]], stream: str
) -> None:
    with channel(tmp_path) as descriptor, Sidecar(tmp_path / "state", **{stream: descriptor}) as sidecar:
        assert sidecar.wait() == 64
        assert len(sidecar.stderr.splitlines()) == 1
        assert stream in sidecar.stderr
    assert not (tmp_path / "state").exists()


def test_a_closed_stdin_is_refused_at_launch(tmp_path: Path) -> None:
    ticket = tmp_path / "ticket"
    make_ticket(ticket)
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *SERVE],
        env=environment(**{TICKET: str(ticket)}),
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 64
    assert "stdin" in done.stderr


def test_an_unnamed_socket_pair_is_as_good_as_pipes(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, Sidecar(tmp_path, stdin=theirs, stdout=theirs) as sidecar:
        theirs.close()
        ours.settimeout(DEADLINE)
        with ours.makefile("rwb") as wire:
            for message in (sidecar.hello(), sidecar.tool("memory_list")):
                wire.write(json.dumps(message).encode() + b"\n")
                wire.flush()
                assert "result" in json.loads(wire.readline())
            ours.shutdown(socket.SHUT_WR)
            assert wire.readline() == b""
        assert sidecar.wait() == 0


# --- a sidecar that cannot start says so on the wire -----------------------------------------------------------------


def assert_cannot_start(sidecar: Sidecar, *words: str) -> None:
    message = sidecar.hello()
    sidecar.send(message)
    error = sidecar.answer(message)["error"]
    assert error["code"] == REFUSED
    for word in words:
        assert word in error["message"]
    assert "Traceback" not in error["message"]
    assert sidecar.rest() == []
    assert sidecar.wait() == 78


def test_a_configuration_that_is_not_yaml_is_answered_with_the_line(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("harness:\n  memory: {enabled: true\n")
    with Sidecar(tmp_path / "state", "--config", str(config)) as sidecar:
        assert_cannot_start(sidecar, "config.yaml", "line ", "YAML")


def test_a_missing_configuration_is_answered_with_its_name(tmp_path: Path) -> None:
    with Sidecar(tmp_path / "state", "--config", str(tmp_path / "nowhere.yaml")) as sidecar:
        assert_cannot_start(sidecar, "nowhere.yaml", "--config")


@pytest.mark.parametrize(
    ("memory", "words"),
    [
        ("backend: fille", ["fille", "file"]),
        ("read_onyl: true", ["read_onyl", "read_only"]),
        ("options: {directroy: x}", ["directroy", "directory"]),
    ],
)
def test_a_misspelling_in_the_configuration_is_answered_with_what_was_meant(
    tmp_path: Path, memory: str, words: list[str]
) -> None:
    with Sidecar(tmp_path / "state", *configured(tmp_path, memory)) as sidecar:
        assert_cannot_start(sidecar, *words)


@pytest.mark.parametrize("place", ["memory", "runs"])
def test_a_directory_that_cannot_be_made_is_answered_with_its_name(tmp_path: Path, place: str) -> None:
    (tmp_path / place).write_text("in the way")
    with Sidecar(tmp_path) as sidecar:
        assert_cannot_start(sidecar, str(tmp_path / place), "directory")


def test_an_identity_that_cannot_name_a_directory_is_answered_with_the_option(tmp_path: Path) -> None:
    with Sidecar(tmp_path, identity="../elsewhere") as sidecar:
        assert_cannot_start(sidecar, "identity", "--identity")
    assert files_under(tmp_path) == []


def test_an_illegal_run_id_is_answered(tmp_path: Path) -> None:
    with Sidecar(tmp_path, "--run", "../monday") as sidecar:
        assert_cannot_start(sidecar, "--run")


def test_a_run_that_is_open_elsewhere_is_answered_as_busy(tmp_path: Path) -> None:
    with launched(tmp_path, "--run", "monday"), Sidecar(tmp_path, "--run", "monday") as second:
        assert_cannot_start(second, "monday", "another process")


def test_a_damaged_journal_is_answered_with_the_line(tmp_path: Path) -> None:
    with launched(tmp_path, "--run", "monday") as sidecar:
        sidecar.leave()
    journal = tmp_path / "runs" / "tester" / "monday.jsonl"
    damaged = journal.read_bytes().replace(b'"meta"', b'"mota"')
    journal.write_bytes(damaged)
    with Sidecar(tmp_path, "--run", "monday") as sidecar:
        assert_cannot_start(sidecar, "monday.jsonl", "line 1")
    assert journal.read_bytes() == damaged


def test_a_completed_run_is_answered(tmp_path: Path) -> None:
    with launched(tmp_path) as sidecar:
        sidecar.open("monday")
        sidecar.finish("monday", "completed")
    with Sidecar(tmp_path, "--run", "monday") as sidecar:
        assert_cannot_start(sidecar, "monday", "completed")


def test_a_stranger_does_not_learn_why_it_cannot_start(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("in the way")
    with Sidecar(tmp_path) as sidecar:
        assert_refused_by_policy(sidecar, capabilities={})


def test_a_place_where_nothing_can_be_made_is_answered_with_its_name() -> None:
    with Sidecar(Path("/proc/memory")) as sidecar:  # not even root can
        assert_cannot_start(sidecar, "/proc/memory", "directory", "harness.memory.options.directory")


def test_wrong_usage_without_a_ticket_is_one_line_and_64(tmp_path: Path) -> None:
    with Sidecar(tmp_path, "--no-such-option", ticket="") as sidecar:
        assert sidecar.wait() == 64
        assert "--no-such-option" in sidecar.stderr

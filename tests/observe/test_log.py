"""The log: what it says, what it never says, and that no reader is needed."""

import contextlib
import fcntl
import json
import os
import re
import select
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.speaker import Speaker

from memory_sidecar.observe import log
from memory_sidecar.store.errors import UnavailableError

LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z memory-sidecar (error|warning|info|debug): [ -~]*")


class Reader:
    """The reading end of a pipe that the log writes to."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_blocking(descriptor, False)

    def text(self) -> str:
        parts = []
        while True:
            try:
                parts.append(os.read(self._descriptor, 65536))
            except BlockingIOError:
                return b"".join(parts).decode()


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    reading, writing = os.pipe()
    sink = log._Sink()
    sink.level, sink.descriptor = "debug", writing
    monkeypatch.setattr(log, "_sink", sink)
    yield Reader(reading)
    os.close(reading)
    os.close(writing)


# --- one process ----------------------------------------------------------------------------------------------------


def test_a_line_names_time_level_event_and_fields(reader: Reader) -> None:
    log.warning("authority is not saved", run="monday", reason="No space left on device", ms=1.5, nothing=None)

    line = reader.text()
    assert LINE.fullmatch(line.rstrip("\n"))
    assert line.endswith(
        f"memory-sidecar warning: authority is not saved pid={os.getpid()} run=monday "
        'reason="No space left on device" ms=1.5\n'
    )


def test_a_line_is_one_json_object(reader: Reader) -> None:
    log._sink.json = True
    log.info("run opened", run="monday", resumed=True)

    found = json.loads(reader.text())
    assert {**found, "time": None} == {
        "time": None,
        "level": "info",
        "event": "run opened",
        "pid": os.getpid(),
        "run": "monday",
        "resumed": True,
    }


@pytest.mark.parametrize("level", log.LEVELS)
def test_a_level_includes_those_before_it(reader: Reader, level: log.Level) -> None:
    log._sink.level = level
    for write in (log.error, log.warning, log.info, log.debug):
        write("something")

    said = [line.split()[2].rstrip(":") for line in reader.text().splitlines()]
    assert said == list(log.LEVELS[: log.LEVELS.index(level) + 1])
    assert [known for known in log.LEVELS if log.enabled(known)] == said


@given(value=st.text(), as_json=st.booleans())
def test_a_field_never_forges_a_line_or_another_field(value: str, as_json: bool) -> None:
    reading, writing = os.pipe()
    sink, log._sink = log._sink, log._Sink()
    log._sink.descriptor, log._sink.json = writing, as_json
    try:
        log.warning("refused", client=value, code="real")
        text = Reader(reading).text()
    finally:
        log._sink = sink
        os.close(reading)
        os.close(writing)

    assert len(text.splitlines()) == text.count("\n") == 1
    assert text.isascii()
    assert text[:-1].isprintable()
    if as_json:
        assert json.loads(text)["code"] == "real"
    else:
        assert LINE.fullmatch(text[:-1])
        # Whatever is quoted is one value; what remains holds each field once.
        outside = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
        assert outside.count(" code=") == 1
        assert outside.endswith(" code=real\n")


@pytest.mark.parametrize(
    "forged", ["a\n2026-01-01T00:00:00.000Z memory-sidecar error: x", "\x1b[2J", "\u2028", "\u202e"]
)
@pytest.mark.parametrize("as_json", [False, True])
def test_control_characters_are_escaped(reader: Reader, forged: str, as_json: bool) -> None:
    log._sink.json = as_json
    log.warning("refused", client=forged)

    text = reader.text()
    assert text.count("\n") == 1
    assert text[:-1].isascii()
    assert text[:-1].isprintable()


def test_a_long_field_is_cut(reader: Reader) -> None:
    log._sink.json = True
    log.warning("refused", client="\U0001f600" * 100_000)
    log.warning("refused", **{f"f{number}": "\U0001f600" * 1000 for number in range(9)})

    first, second = reader.text().splitlines()
    assert len(first) < 4096
    assert len(json.loads(first)["client"]) == 303
    assert json.loads(second)["cut"] is True


def test_a_full_pipe_drops_lines_and_counts_them(reader: Reader) -> None:
    fcntl.fcntl(log._sink.descriptor, fcntl.F_SETPIPE_SZ, 4096)
    for number in range(500):
        log.debug("call served", number=number)

    lines = reader.text().splitlines()
    assert all(LINE.fullmatch(line) for line in lines)
    log.debug("call served", number=500)
    assert reader.text().endswith(f"number=500 dropped={500 - len(lines)}\n")
    log.debug("call served", number=501)
    assert reader.text().endswith("number=501\n")


def test_half_a_line_is_ended_before_the_next(reader: Reader) -> None:
    write = os.write
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:30]))
        log.info("run opened", run="monday")
    log.info("run suspended", run="monday")
    log.info("stopped")

    half, second, third = reader.text().splitlines()
    assert len(half) == 30
    assert second.endswith("run=monday dropped=1")
    assert third.endswith(f"stopped pid={os.getpid()}")


def test_no_stderr_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = log._Sink()
    sink.descriptor = os.open(os.devnull, os.O_RDONLY)
    os.close(sink.descriptor)
    monkeypatch.setattr(log, "_sink", sink)
    log.error("nobody hears this")
    assert sink.dropped == 1


def test_a_problem_is_told_without_its_text() -> None:
    try:
        try:
            os.stat("/nowhere/SECRET-key.md")
        except OSError as error:
            raise UnavailableError("SECRET words") from error
    except UnavailableError as error:
        told = log.problem(error)

    place = r"test_log\.py:\d+"
    missing = r"FileNotFoundError \(No such file or directory\)"
    assert re.fullmatch(rf"UnavailableError at {place}, from {missing} at {place}", told)


# --- the real process ------------------------------------------------------------------------------------------------


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_what_a_session_tells(tmp_path: Path) -> None:
    with Speaker(tmp_path, "--run", "monday", "--log-level", "debug", "--log-format", "json") as speaker:
        speaker.initialize()
        speaker.call("memory_write", key="k", description="d", content="c")
        speaker.call("memory_write", key="k", description="d", content="c")
        speaker.call("memory_read", key="absent")
        speaker.call("memory_read", key="not/legal")
        speaker.call("memory_delete", key="absent")
        speaker.call("memory_delete")
        speaker.call("memory_sing", key="k")
        speaker.request("memory-sidecar/run/open", {"run": "other"})
        speaker.request("memory-sidecar/run/finish", {"run": "other", "reason": "completed"})
        speaker.request("memory-sidecar/run/open", {"run": "other"})
        assert speaker.end() == 0

    told = events(speaker.log)
    assert [event["event"] for event in told if event["level"] != "debug"] == [
        "started", "run opened", "run opened", "run finished", "request refused", "run suspended", "stopped",
    ]  # fmt: skip
    assert {event["identity"] for event in told} == {"tester"}
    assert len({event["pid"] for event in told}) == 1
    started = told[0]
    assert started["backend"] == "file"
    assert started["lockdown"]
    served = [event for event in told if event["event"] == "call served"]
    assert [(event.get("tool"), event["outcome"]) for event in served] == [
        ("memory_write", "ok"),
        ("memory_write", "exists"),
        ("memory_read", "not_found"),
        ("memory_read", "invalid"),
        ("memory_delete", "not_found"),
        ("memory_delete", "invalid"),
        (None, "bad_request"),
    ]
    assert [event["request"] for event in served] == list(range(2, 9))
    assert {event["run"] for event in served} == {"monday"}
    assert all(0 < event["ms"] < 10_000 for event in served)
    assert told[-1]["status"] == 0


def test_the_default_tells_nothing_of_a_healthy_session(tmp_path: Path) -> None:
    with Speaker(tmp_path) as speaker:
        speaker.initialize()
        speaker.call("memory_write", key="k", description="d", content="c")
        assert speaker.end() == 0
    assert speaker.log == ""


def test_a_resumed_run_is_told_apart(tmp_path: Path) -> None:
    for expected in ("run opened", "run resumed"):
        with Speaker(tmp_path, "--run", "monday", "--log-level", "info") as speaker:
            speaker.initialize()
            speaker.end()
        assert re.search(rf"info: {expected} identity=tester pid=\d+ run=monday\n", speaker.log)


def test_a_client_without_the_ticket_is_told_by_its_name(tmp_path: Path) -> None:
    with Speaker(tmp_path, "--log-format", "text") as speaker:
        assert "error" in speaker.initialize(token="w" * 43, name="desktop\nhost")
        assert speaker.end() == 77
    assert "warning: refused a client without the launch ticket " in speaker.log
    assert speaker.log.endswith(' client="desktop\\nhost"\n')
    assert "www" not in speaker.log


@pytest.mark.parametrize("option", [("--log-level", "loud"), ("--log-level", ""), ("--log-format", "xml")])
def test_a_wrong_setting_is_answered_with_its_remedy(tmp_path: Path, option: tuple[str, str]) -> None:
    with Speaker(tmp_path, *option) as speaker:
        message = speaker.initialize()["error"]["message"]
        assert message.startswith(f"{option[0]} {option[1]!r} is not a ")
        assert "; use " in message
        assert speaker.end() == 78


def secrets() -> dict[str, str]:
    return {"key": "SENTINEL-key", "description": "SENTINEL description", "content": "SENTINEL content"}


def quarrel(speaker: Speaker, base: Path) -> None:
    """Calls that succeed and that fail, each with text that must not be told."""
    speaker.call("memory_write", **secrets())
    speaker.call("memory_write", **secrets())
    speaker.call("memory_write", **{**secrets(), "overwrite": True})
    speaker.call("memory_read", key="SENTINEL-key")
    speaker.call("memory_read", key="SENTINEL/key")
    speaker.call("memory_list")
    speaker.call("SENTINEL tool", SENTINEL="SENTINEL")
    speaker.call("memory_write", SENTINEL="SENTINEL argument")
    speaker.request("tools/call", {"name": ["SENTINEL"]})
    speaker.request("SENTINEL/method", {"SENTINEL": "SENTINEL"})
    speaker.request("memory-sidecar/run/open", {"run": "SENTINEL run id with spaces"})
    note = base / "memory" / "tester" / "SENTINEL-key.md"
    note.write_bytes(b"---\nSENTINEL: [\xff\n---\n\nSENTINEL\n")
    speaker.call("memory_read", key="SENTINEL-key")
    speaker.call("memory_delete", key="SENTINEL-key")
    note.parent.rename(base / "gone")
    speaker.call("memory_list")
    speaker.call("memory_write", **secrets())
    speaker.call("memory_read", key="SENTINEL-key")


@pytest.mark.parametrize("log_format", log.FORMATS)
def test_no_content_key_argument_or_token_is_ever_told(tmp_path: Path, log_format: str) -> None:
    with Speaker(tmp_path, "--log-level", "debug", "--log-format", log_format) as speaker:
        speaker.initialize()
        quarrel(speaker, tmp_path)
        assert speaker.end() == 0

    assert "call served" in speaker.log
    assert "the store failed" in speaker.log
    assert "unavailable" in speaker.log
    assert "SENTINEL" not in speaker.log
    assert "ttttt" not in speaker.log


def test_a_store_that_fails_tells_its_cause(tmp_path: Path) -> None:
    with Speaker(tmp_path, "--log-format", "json") as speaker:
        speaker.initialize()
        (tmp_path / "memory" / "tester").rename(tmp_path / "gone")
        speaker.call("memory_list")
        speaker.end()
    (failed,) = events(speaker.log)
    assert failed["level"] == "warning"
    assert failed["event"] == "the store failed"
    assert failed["tool"] == "memory_list"
    assert failed["request"] == 2
    assert "FileNotFoundError (No such file or directory)" in failed["cause"]


@pytest.mark.parametrize("kind", ["pipe", "socket", "terminal"])
def test_a_full_stderr_stalls_no_call(tmp_path: Path, kind: str) -> None:
    reading, writing = fill(kind)
    try:
        with Speaker(tmp_path, "--log-level", "debug", stderr=writing) as speaker:
            speaker.initialize()
            for number in range(50):
                answer = speaker.call("memory_write", key=f"k{number}", description="d", content="c")
                assert answer["structuredContent"]["written"]
            text = drain(reading)  # a reader comes: the next line tells how many it has missed
            speaker.call("memory_list")
            assert speaker.end() == 0
        text += drain(reading, "stopped")
    finally:
        os.close(reading)
        os.close(writing)
    assert int(re.findall(r"dropped=(\d+)", text)[0]) >= 20  # a terminal takes some in between
    assert "stopped" in text


def drain(descriptor: int, awaited: str = "") -> str:
    """What comes until nothing does, with what is awaited: a terminal passes on what it held back a little later."""
    text = b""
    while select.select([descriptor], [], [], 0.3 if awaited.encode() in text else 60)[0]:
        text += os.read(descriptor, 65536)
    return text.decode()


def fill(kind: str) -> tuple[int, int]:
    """What a parent may give for stderr, as full as it gets."""
    if kind == "pipe":
        reading, writing = os.pipe()
    elif kind == "terminal":
        reading, writing = os.openpty()
    else:
        reading, writing = (end.detach() for end in socket.socketpair())
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 512)
    os.set_blocking(writing, True)  # as a parent's is
    return reading, writing

"""MCP without a handshake: each request is complete in itself, and is let in by itself."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from tests.support.sidecar import (
    DEADLINE,
    EXTENSION,
    FINISH,
    LIST,
    META,
    MODERN_VERSION,
    OPEN,
    RUN,
    SUSPEND,
    Frame,
    RefusedError,
    Sidecar,
    configured,
    environment,
    guarded,
    launched,
    make_ticket,
    patched,
    result,
    until,
)

from memory_sidecar.backend.file.store_id import FILE_NAME
from memory_sidecar.wire.codes import REFUSED
from memory_sidecar.wire.eras import VERSIONS

VERSION = f"{META}protocolVersion"
CAPABILITIES = f"{META}clientCapabilities"
WRITE = {"name": "memory_write", "arguments": {"key": "k", "description": "d", "content": "c"}}


@pytest.fixture(autouse=True)
def modern(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sidecar, "era", "modern")


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Sidecar]:
    with Sidecar(tmp_path) as running:
        yield running


# How long a process lives on after it has refused a probe, where a test goes on with it: for as long as that takes.
LONG_GRACE = "import memory_sidecar.wire.dispatch as dispatch\ndispatch.PROBE_GRACE = 600.0\n"


def files_under(base: Path) -> list[str]:
    return sorted(
        str(path.relative_to(base)) for path in base.rglob("*") if not path.is_dir() and path.name != FILE_NAME
    )


def strange(sidecar: Sidecar, method: str, capabilities: Frame | None = None, **params: Any) -> Frame:
    """A request of somebody who doesn't hold the ticket."""
    message = sidecar.modern({"jsonrpc": "2.0", "id": method, "method": method}, params, capabilities or {})
    sidecar.send(message)
    return sidecar.answer(message)


def assert_policy(answer: Frame) -> None:
    error = answer["error"]
    assert error["code"] == types.MISSING_REQUIRED_CLIENT_CAPABILITY
    assert "exposure policy" in error["message"]
    data = types.MissingRequiredClientCapabilityErrorData.model_validate(error["data"])
    assert data.required_capabilities.extensions == {EXTENSION: {}}


# --- what is served --------------------------------------------------------------------------------------------------


def test_discover_tells_what_is_spoken_and_the_methods_of_runs_and_opens_nothing(
    sidecar: Sidecar, tmp_path: Path
) -> None:
    found = sidecar.request("server/discover")
    assert found["supportedVersions"] == list(VERSIONS)
    assert found["capabilities"] == {
        "tools": {},
        "extensions": {EXTENSION: {"methods": [OPEN, SUSPEND, FINISH, LIST]}},
    }
    assert "memory_read" in found["instructions"]
    assert files_under(tmp_path) == []
    assert sidecar.states() == {}


def test_the_index_is_for_who_wants_the_processs_own_run(tmp_path: Path) -> None:
    with launched(tmp_path) as sidecar:
        sidecar.write("layout", "x")
        mine = {"ticket": sidecar.token, "default_run": False}
        message = sidecar.message("server/discover")
        message["params"]["_meta"][CAPABILITIES] = {"experimental": {EXTENSION: mine}}
        sidecar.send(message)
        assert "instructions" not in sidecar.answer(message)["result"]
        assert "- layout: about layout" in sidecar.request("server/discover")["instructions"]


def test_a_request_needs_nothing_before_it(sidecar: Sidecar) -> None:
    assert sidecar.call("memory_list")["structuredContent"] == {"memories": []}


def test_the_first_call_that_names_no_run_opens_the_processs_own(tmp_path: Path) -> None:
    with Sidecar(tmp_path) as sidecar:
        one, two = sidecar.call("memory_list"), sidecar.call("memory_list")
        assert one["_meta"] == two["_meta"]
        assert list(sidecar.states().values()) == ["open"]
    with Sidecar(tmp_path, "--run", "monday") as sidecar:
        sidecar.greet()
        assert "monday" not in sidecar.states()
        assert sidecar.call("memory_list")["_meta"] == {RUN: "monday"}
        assert sidecar.states()["monday"] == "open"
        sidecar.suspend("monday")
        with pytest.raises(RefusedError, match="not open"):
            sidecar.call("memory_list")


def test_the_run_that_the_operator_named_may_be_named_in_a_call_or_opened(tmp_path: Path) -> None:
    with Sidecar(tmp_path, "--run", "monday") as sidecar:
        assert sidecar.call("memory_list", run="monday")["_meta"] == {RUN: "monday"}
    with Sidecar(tmp_path, "--run", "monday") as sidecar:
        assert sidecar.open("monday")["resumed"] is True
        assert sidecar.call("memory_list")["_meta"] == {RUN: "monday"}


def test_a_request_that_declines_the_processs_own_run_must_name_one(sidecar: Sidecar) -> None:
    declined = sidecar.tool("memory_list")
    declined["params"]["_meta"][CAPABILITIES] = {
        "extensions": {EXTENSION: {"ticket": sidecar.token, "default_run": False}}
    }
    sidecar.send(declined)
    assert "not open" in sidecar.answer(declined)["error"]["message"]
    assert sidecar.call("memory_list")["isError"] is False  # another request says so for itself


def test_the_run_that_was_named_and_cannot_be_opened_is_refused_and_the_others_go_on(tmp_path: Path) -> None:
    with launched(tmp_path) as sidecar:
        sidecar.open("monday")
        sidecar.finish("monday", "completed")
    with Sidecar(tmp_path, "--run", "monday") as sidecar:
        for _ in range(2):
            with pytest.raises(RefusedError, match="completed") as refused:
                sidecar.call("memory_list")
            assert refused.value.code == REFUSED
        sidecar.open("tuesday")
        assert sidecar.call("memory_list", run="tuesday")["isError"] is False


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "subscriptions/listen", "no/such/method", "", "notes"])
def test_what_does_not_exist_in_this_era_is_refused_by_the_same_words(sidecar: Sidecar, method: str) -> None:
    error = sidecar.ask(method)["error"]
    assert error == {"code": -32601, "message": "there is no such method"}


def test_the_runs_that_share_a_pipe_keep_apart(tmp_path: Path) -> None:
    with launched(tmp_path, *guarded(tmp_path)) as sidecar:
        sidecar.open("monday")
        sidecar.write("plan", "x", "monday")
        assert sidecar.write("plan", "y", overwrite=True)["code"] == "not_read"
        assert list(sidecar.suspend("monday")["scope"]["keys"]) == ["plan"]


# --- both eras on one pipe -------------------------------------------------------------------------------------------


def test_both_eras_may_share_a_pipe(sidecar: Sidecar) -> None:
    before = {"jsonrpc": "2.0", "id": "before", "method": "tools/list"}
    after = {**before, "id": "after"}
    sidecar.send(before)
    assert sidecar.answer("before")["error"]["code"] == -32600
    assert sidecar.write("plan", "one")["written"]
    sidecar.send(before)
    assert sidecar.answer("before")["error"]["code"] == -32600  # nothing is concluded from what was served without
    hello = sidecar.initialize()
    assert "- plan: about plan" in hello["instructions"]
    sidecar.send(after)
    told = sidecar.answer("after")["result"]
    assert set(told) == {"tools"}
    assert sidecar.request("tools/list")["tools"] == told["tools"]
    call = {"jsonrpc": "2.0", "id": "call", "method": "tools/call", "params": {"name": "memory_list"}}
    sidecar.send(call)
    answer = sidecar.answer("call")["result"]
    assert answer["_meta"] == hello["_meta"] == sidecar.call("memory_list")["_meta"]  # one run serves both


def test_a_handshake_opens_no_door_for_a_request_that_is_complete_in_itself(sidecar: Sidecar) -> None:
    sidecar.initialize()
    assert_policy(strange(sidecar, "tools/list"))
    assert_policy(strange(sidecar, "server/discover"))
    assert_policy(strange(sidecar, "tools/call", **WRITE))
    assert sidecar.call("memory_list")["structuredContent"] == {"memories": []}


# --- who is let in ---------------------------------------------------------------------------------------------------

WRONG: list[Any] = [
    pytest.param({}, id="none"),
    pytest.param({"extensions": {EXTENSION: {}}}, id="no token"),
    pytest.param({"extensions": {EXTENSION: {"ticket": ""}}}, id="empty"),
    pytest.param({"extensions": {EXTENSION: {"ticket": secrets.token_urlsafe(32)}}}, id="wrong"),
    pytest.param({"extensions": {EXTENSION: {"ticket": 7}}}, id="number"),
    pytest.param({"extensions": [], "experimental": {EXTENSION: {"ticket": "\ud800"}}}, id="nonsense"),
    pytest.param({"roots": {}, "elicitation": {}}, id="another client"),
]


@pytest.mark.parametrize("capabilities", WRONG)
@pytest.mark.parametrize("method", ["tools/list", "tools/call", OPEN, LIST, "no/such/method"])
def test_a_strangers_first_request_is_refused_and_the_process_ends(
    sidecar: Sidecar, tmp_path: Path, method: str, capabilities: Frame
) -> None:
    assert_policy(strange(sidecar, method, capabilities, **WRITE))
    assert sidecar.rest() == []
    assert sidecar.wait() == 77
    assert files_under(tmp_path) == []


def test_nothing_that_follows_a_strangers_request_is_served(sidecar: Sidecar) -> None:
    message = sidecar.modern({"jsonrpc": "2.0", "id": 0, "method": "tools/list"}, {}, {})
    sidecar.send(message, sidecar.tool("memory_list"), sidecar.hello())
    assert [frame["id"] for frame in sidecar.rest()] == [0]
    assert sidecar.wait() == 77


def test_a_strangers_probe_is_refused_and_so_is_what_follows_it_and_then_the_process_ends(tmp_path: Path) -> None:
    with Sidecar(tmp_path / "state", env=patched(tmp_path, LONG_GRACE)) as sidecar:
        assert_policy(strange(sidecar, "server/discover"))
        hello = sidecar.hello(capabilities={})
        sidecar.send(hello)
        assert_policy(sidecar.answer(hello))
        assert sidecar.rest() == []
        assert sidecar.wait() == 77


def test_a_strangers_probe_ends_the_process_soon_even_if_nothing_follows(sidecar: Sidecar) -> None:
    assert_policy(strange(sidecar, "server/discover"))
    assert sidecar.rest() == []
    assert sidecar.wait() == 77


def test_a_client_whose_probe_lacks_the_ticket_may_still_present_it(tmp_path: Path) -> None:
    with Sidecar(tmp_path / "state", env=patched(tmp_path, LONG_GRACE)) as sidecar:
        assert_policy(strange(sidecar, "server/discover"))
        sidecar.initialize()
        assert sidecar.call("memory_list")["isError"] is False
        assert sidecar.leave() == 0


def test_once_the_harness_is_served_a_stranger_is_refused_and_the_process_lives(sidecar: Sidecar) -> None:
    sidecar.call("memory_list")
    for method in ("tools/list", "server/discover", "tools/call", OPEN, "no/such/method"):
        assert_policy(strange(sidecar, method, **WRITE))
        hello = sidecar.hello(capabilities={})
        sidecar.send(hello)
        assert_policy(sidecar.answer(hello))
    assert sidecar.call("memory_list")["structuredContent"] == {"memories": []}
    assert sidecar.leave() == 0


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        pytest.param(None, -32602, id="no _meta"),
        pytest.param({}, -32602, id="empty"),
        pytest.param([], -32602, id="a list"),
        pytest.param({VERSION: MODERN_VERSION}, -32602, id="no capabilities"),
        pytest.param({CAPABILITIES: {}}, -32602, id="no version"),
        pytest.param({VERSION: 20260728, CAPABILITIES: {}}, -32602, id="version a number"),
        pytest.param({VERSION: MODERN_VERSION, CAPABILITIES: []}, -32602, id="capabilities a list"),
        pytest.param({VERSION: "2025-11-25", CAPABILITIES: {}}, -32022, id="a version with a handshake"),
        pytest.param({VERSION: "2099-01-01", CAPABILITIES: {}}, -32022, id="a version to come"),
    ],
)
def test_a_malformed_request_is_an_error_and_the_next_one_may_be_right(sidecar: Sidecar, meta: Any, code: int) -> None:
    params = {} if meta is None else {"_meta": meta}
    sidecar.send({"jsonrpc": "2.0", "id": "x", "method": "server/discover", "params": params})
    error = sidecar.answer("x")["error"]
    assert error["code"] == code
    if code == -32022:
        data = types.UnsupportedProtocolVersionErrorData.model_validate(error["data"])
        assert (data.requested, MODERN_VERSION in data.supported) == (meta[VERSION], True)
    assert sidecar.call("memory_list")["isError"] is False


@pytest.mark.parametrize("value", [None, 0, 1, "false", [], {}])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_whether_a_default_run_is_wanted_is_said_by_a_boolean(sidecar: Sidecar, value: Any, era: str) -> None:
    capabilities = {"extensions": {EXTENSION: {"ticket": sidecar.token, "default_run": value}}}
    if era == "legacy":
        message = sidecar.hello(capabilities=capabilities)
    else:
        message = sidecar.tool("memory_list")
        message["params"]["_meta"][CAPABILITIES] = capabilities
    sidecar.send(message)
    error = sidecar.answer(message)["error"]
    assert error["code"] == -32602
    assert "default_run" in error["message"]
    sidecar.initialize()
    assert sidecar.leave() == 0


def test_a_start_error_is_answered_to_the_first_request_and_not_to_a_probe(tmp_path: Path) -> None:
    with Sidecar(tmp_path / "state", *configured(tmp_path, "backend: fille")) as sidecar:
        assert "instructions" not in sidecar.request("server/discover")
        with pytest.raises(RefusedError, match="fille") as refused:
            sidecar.request("tools/list")
        assert refused.value.code == REFUSED
        assert sidecar.rest() == []
        assert sidecar.wait() == 78
    with Sidecar(tmp_path / "state", *configured(tmp_path, "backend: fille")) as sidecar:
        assert_policy(strange(sidecar, "tools/list"))  # a stranger doesn't learn why
        assert sidecar.wait() == 77


# --- one ticket, many processes --------------------------------------------------------------------------------------


def test_a_probe_in_a_process_of_its_own_does_not_use_the_ticket_up(tmp_path: Path) -> None:
    ticket = tmp_path / "ticket"
    token = make_ticket(ticket)
    with Sidecar(tmp_path / "state", ticket=ticket, token=token, env=patched(tmp_path, LONG_GRACE)) as probed:
        assert probed.request("server/discover")["supportedVersions"]
        with Sidecar(tmp_path / "state", ticket=ticket, token=token) as real:
            assert real.request("server/discover")["supportedVersions"]
            assert real.call("memory_list")["isError"] is False
            assert ticket.read_bytes() == b""
            # The one that only was probed has lost its right, and tells nothing any more.
            message = probed.message("server/discover")
            probed.send(message)
            assert_policy(probed.answer(message))
            message = probed.message("tools/list")
            probed.send(message)
            assert_policy(probed.answer(message))
            assert probed.wait() == 77
            assert real.call("memory_list")["isError"] is False


def test_a_ticket_that_was_claimed_opens_nothing_after_its_process(tmp_path: Path) -> None:
    ticket = tmp_path / "ticket"
    token = make_ticket(ticket)
    with Sidecar(tmp_path / "late", ticket=ticket, token=token) as late:
        late.request("server/discover")
        with Sidecar(tmp_path / "first", ticket=ticket, token=token) as first:
            first.call("memory_list")
            first.kill()
        message = late.message("tools/list")
        late.send(message)
        assert_policy(late.answer(message))
    with Sidecar(tmp_path / "later", ticket=ticket, token=token) as later:
        message = later.message("tools/list")
        later.send(message)
        assert_policy(later.answer(message))


def first_request(sidecar: Sidecar, number: int) -> Frame:
    """Of either era, and not all of them the same."""
    if number % 3 == 0:
        return sidecar.hello()
    return sidecar.tool("memory_list") if number % 3 == 1 else sidecar.message("tools/list")


@pytest.mark.parametrize("probe_first", [True, False])
def test_of_many_processes_with_one_ticket_exactly_one_serves(tmp_path: Path, *, probe_first: bool) -> None:
    for turn in range(4):
        ticket = tmp_path / f"ticket{turn}"
        token = make_ticket(ticket)
        racers = [Sidecar(tmp_path / "state", ticket=ticket, token=token) for _ in range(6)]
        try:
            if probe_first:
                for racer in racers:
                    assert "result" in racer.ask("server/discover")
            messages = [first_request(racer, number + turn) for number, racer in enumerate(racers)]
            for racer, message in zip(racers, messages, strict=True):
                racer.send(message)
            answers = [racer.answer(message) for racer, message in zip(racers, messages, strict=True)]
            assert sorted("result" in answer for answer in answers) == [False] * 5 + [True]
            for racer, answer in zip(racers, answers, strict=True):
                if "error" in answer:
                    assert_policy(answer)
                    assert racer.wait() == 77
        finally:
            for racer in racers:
                racer.__exit__()


def test_one_that_is_frozen_or_killed_before_it_served_keeps_nobody_out_and_lets_no_second_in(tmp_path: Path) -> None:
    for turn in range(8):
        ticket = tmp_path / f"ticket{turn}"
        token = make_ticket(ticket)
        with (
            Sidecar(tmp_path / "state", ticket=ticket, token=token) as frozen,
            Sidecar(tmp_path / "state", ticket=ticket, token=token) as killed,
            Sidecar(tmp_path / "state", ticket=ticket, token=token) as other,
        ):
            for racer in (frozen, killed, other):
                racer.request("server/discover")
            asked = [first_request(racer, number + turn) for number, racer in enumerate((frozen, killed, other))]
            os.kill(frozen.pid, signal.SIGSTOP)
            frozen.send(asked[0])
            if turn % 2:
                killed.send(asked[1])
            killed.kill()
            won = False
            if turn % 2:
                won = any("result" in frame for frame in killed.rest())
            other.send(asked[2])
            others = other.answer(asked[2])
            os.kill(frozen.pid, signal.SIGCONT)
            answers = [others, frozen.answer(asked[0])]
            served = sum("result" in answer for answer in answers) + won
            # The killed one may have claimed the ticket, and died before it could answer: then nobody serves.
            assert served == 1 or (served == 0 and turn % 2)
            for answer in answers:
                if "error" in answer:
                    assert_policy(answer)


CLAIM = """
import os, sys, time
from memory_sidecar.wire.ticket import open_ticket
ticket = open_ticket(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
print("won" if ticket.claim() else "lost", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed")
@pytest.mark.parametrize("blow", ["SIGSTOP", "SIGKILL"])
@pytest.mark.parametrize("call", ["flock", "pread64", "ftruncate"])
def test_no_moment_of_a_claim_lets_two_win(tmp_path: Path, call: str, blow: str) -> None:
    """Stop or kill the claim at each of its system calls: of it and another one, at most one wins."""
    ticket = tmp_path / "ticket"
    make_ticket(ticket)
    with claimant(ticket) as struck, claimant(ticket) as other:
        strike = f"inject={call}:signal={blow}:when=1"
        words = ["strace", "-p", str(struck.pid), "-o", os.devnull, "-e", f"trace={call}", "-e", strike]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            if "attached" not in tracer.stderr.readline():
                pytest.skip("processes may not be traced here")
            go(struck)
            if blow == "SIGSTOP":
                until(lambda: state(struck.pid) in "tT", "the claim is stopped")
            else:
                struck.wait(DEADLINE)
            go(other)
            others = outcome(other)
            tracer.terminate()
            tracer.wait(DEADLINE)
        if blow == "SIGSTOP":
            os.kill(struck.pid, signal.SIGCONT)
            assert sorted([others, outcome(struck)]) == ["lost", "won"]
        elif call != "ftruncate":
            assert others == "won"  # who died before the file was emptied has served nobody


@contextmanager
def claimant(ticket: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has opened the ticket, and claims it when told."""
    words = [sys.executable, "-c", CLAIM, str(ticket)]
    with subprocess.Popen(
        words, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert outcome(process) == "ready"
            yield process
        finally:
            process.kill()


def go(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def outcome(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_the_suites_answers_are_shown_as_they_were_sent(sidecar: Sidecar) -> None:
    """What `Sidecar` takes off before it shows an answer is really there."""
    message = sidecar.message("tools/list")
    sidecar.send_bytes(json.dumps(message).encode() + b"\n")
    assert sidecar.process.stdout is not None
    told = json.loads(sidecar.process.stdout.readline())["result"]
    assert set(told) == {"resultType", "tools", "ttlMs", "cacheScope", "_meta"}
    assert result({"result": told}) == told

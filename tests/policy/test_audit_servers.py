"""Real servers over real stdio and HTTP: each leak is found with evidence, each fault ends in time as unaudited."""

import gc
import gzip
import json
import os
import shlex
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from tests.policy.servers import offers
from tests.policy.servers.handed import handing
from tests.support.ports import free_port
from tests.support.sidecar import is_gone

from exposure_policy import TOOLS
from exposure_policy.audit import CLEAN, LEAK, UNAUDITED, Bounds, Report, Target, TargetReport, audit

HERE = Path(__file__).parent / "servers"
OFFERS = HERE / "offers.py"
BREAKS = HERE / "breaks.py"
ROOTS = os.pathsep.join(str(Path(__file__).parents[2] / part) for part in ("sidecar", "policy"))
PATIENT = Bounds(seconds=150)
# In the environment of what this file's tests launch, and of what that launches: others use the same programs.
MARK = f"LAUNCHED_BY_TEST={os.getpid()}"


def command(script: Path, *mode: str) -> str:
    return marked(f"PYTHONPATH={ROOTS}", sys.executable, str(script), *mode)


def marked(*words: str) -> str:
    return shlex.join(["env", MARK, *words])


def run(*targets: Target, bounds: Bounds = PATIENT) -> Report:
    return anyio.run(audit, targets, bounds)


def one(target: Target, bounds: Bounds = PATIENT) -> TargetReport:
    return run(target, bounds=bounds).targets[0]


# mode -> the name, the tool, the rule and the start of the place of each finding
LEAKS: dict[str, tuple[str, str, str, str]] = {
    "as_is": ("memory_read", "memory_read", "name", "name"),
    "renamed": ("acme__MemoryWriteV2", "memory_write", "name", "name"),
    "described": ("helper", "memory_read", "text", "description"),
    "prompt": ("memory-list", "memory_list", "name", "name"),
    "template": ("memory_read", "memory_read", "name", "name"),
    "introduction": ("helper", "memory_list", "text", "instructions"),
    "second_page": ("memory_delete", "memory_delete", "name", "name, page 2"),
    "remembers": ("recall", "memory_read", "name", "name"),
    "addressed": ("notes", "memory_read", "address", "uri"),
    "addressed_template": ("one", "memory_read", "address", "uriTemplate"),
    "prompted": ("start", "memory_read", "text", "description"),
    "calls_itself_memory": ("memory-server", "memory_list", "identity", "name"),
    "answers_by_hand": ("add", "memory_read", "text", "x-notes"),
    "changes_once": ("memory_write", "memory_write", "name", "name"),
    "wants_a_full_client": ("memory_write", "memory_write", "name", "name"),
    "names_it_as_experimental": ("by hand", "memory_write", "text", "result capabilities"),
    "names_it_as_extension": ("by hand", "memory_write", "text", "result capabilities"),
    "names_it_beside_the_list": ("by hand", "memory_write", "text", "result moreTools"),
    "names_it_in_metadata": ("by hand", "memory_write", "text", "_meta"),
}


def assert_found(report: TargetReport, mode: str) -> None:
    name, tool, rule, where = LEAKS[mode]
    (found,) = report.findings
    assert (found.surface, found.name, found.tool, found.rule) == ("mcp", name, tool, rule), report
    assert found.evidence[0].where == where
    assert found.evidence[0].text
    assert report.status == "leak"
    assert report.unaudited == ()


Offering = Callable[[str], Target]


@pytest.fixture(scope="module")
def offering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Offering]:
    """A command that launches a server on the SDK, by what it offers."""
    with handing(tmp_path_factory.mktemp("handed"), offers.build) as launching:
        yield lambda name: Target("mcp", marked(*launching(name)))


@pytest.fixture(scope="module")
def leaks(offering: Offering) -> dict[str, TargetReport]:
    """One run over every leaking server."""
    modes = [*sorted(LEAKS), "reexport"]
    report = run(*(offering(mode) if hasattr(offers, mode) else Target("mcp", command(BREAKS, mode)) for mode in modes))
    assert report.exit_code == LEAK
    return dict(zip(modes, report.targets, strict=True))


@pytest.mark.parametrize("mode", sorted(LEAKS))
def test_a_leak_over_stdio(leaks: dict[str, TargetReport], mode: str) -> None:
    assert_found(leaks[mode], mode)


def test_a_clean_server_over_stdio() -> None:
    report = run(Target("mcp", command(OFFERS, "clean")))
    assert report.targets[0].unaudited == ()
    assert report.exit_code == CLEAN
    assert report.targets[0].seen["tool"] == 2
    assert {"prompt", "resource", "resource template", "server"} <= set(report.targets[0].seen)


def test_the_sidecars_list_re_exported_is_found_tool_by_tool(leaks: dict[str, TargetReport]) -> None:
    report = leaks["reexport"]
    assert {f.name for f in report.findings} == set(TOOLS)
    for finding in report.findings:
        assert finding.tool == finding.name
        assert {"name", "marker"} <= {evidence.rule for evidence in finding.evidence}


# --- over HTTP --------------------------------------------------------------------------------------------


@pytest.fixture
def serve() -> Iterator[Callable[[Any], str]]:
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(app: Any) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        running.append((server, thread))
        # The listener is open already: a request that comes early waits in its backlog.
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for server, _thread in running:
        server.should_exit = True
    for _server, thread in running:
        thread.join(60)


@pytest.mark.parametrize("mode", ["as_is", "second_page", "described", "introduction", "addressed"])
def test_a_leak_over_streamable_http(serve: Callable[[Any], str], mode: str) -> None:
    url = serve(offers.build(mode).streamable_http_app()) + "/mcp"
    assert_found(one(Target("url", url)), mode)


@pytest.mark.parametrize("mode", ["as_is", "renamed", "prompt"])
def test_a_leak_over_sse(serve: Callable[[Any], str], mode: str) -> None:
    url = serve(offers.build(mode).sse_app()) + "/sse"
    assert_found(one(Target("sse", url)), mode)


def test_clean_servers_over_http(serve: Callable[[Any], str]) -> None:
    report = run(
        Target("url", serve(offers.clean().streamable_http_app()) + "/mcp"),
        Target("sse", serve(offers.clean().sse_app()) + "/sse"),
    )
    assert [t.unaudited for t in report.targets] == [(), ()]
    assert report.exit_code == CLEAN


def test_nobody_answers(serve: Callable[[Any], str]) -> None:
    port = free_port()
    report = run(
        Target("url", f"http://127.0.0.1:{port}/mcp"),
        Target("sse", f"http://127.0.0.1:{port}/sse"),
        Target("url", serve(offers.clean().streamable_http_app()) + "/elsewhere"),
        Target("url", "nonsense"),
    )
    assert [t.status for t in report.targets] == ["unaudited"] * 4
    assert report.exit_code == UNAUDITED


async def silent(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "http":
        await anyio.sleep_forever()


async def endless(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    for _ in range(1000):
        await send({"type": "http.response.body", "body": b" " * 65536, "more_body": True})
        await anyio.sleep(0)


@pytest.mark.parametrize("kind", ["url", "sse"])
def test_a_host_that_never_answers(serve: Callable[[Any], str], kind: str) -> None:
    report = timed(Target(kind, serve(silent)), Bounds(seconds=1))
    assert "within 1 seconds" in report.unaudited[0]


def test_a_host_that_never_ends(serve: Callable[[Any], str]) -> None:
    report = timed(Target("url", serve(endless)), Bounds(seconds=30, received=200_000))
    assert "more than 200000 bytes" in report.unaudited[0]


# --- faults ------------------------------------------------------------------------------------------------


def timed(target: Target, bounds: Bounds) -> TargetReport:
    """The report of a target that never ends by itself: without its bounds, the test's own limit would end this."""
    report = one(target, bounds)
    assert report.status == "unaudited"
    assert all("; " in reason for reason in report.unaudited), "say what to try"
    assert not left_behind()
    return report


def left_behind() -> list[str]:
    """Command lines of this file's servers that still run."""
    found = []
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if MARK.encode() in Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                found.append(f"{entry} {Path(f'/proc/{entry}/cmdline').read_bytes()!r}")
        except OSError:
            continue
    return found


SHORT = Bounds(seconds=1)
LONG = Bounds(seconds=150)
FAULTS = {
    "hangs": (SHORT, "within 1 seconds"),
    "hangs_unkindly": (SHORT, "within 1 seconds"),
    "closes_its_input": (SHORT, "within 1 seconds"),
    "leaves_children": (Bounds(seconds=2), "within 2 seconds"),
    "floods_stderr": (LONG, "bytes to stderr"),
    "prints_junk": (SHORT, "within 1 seconds"),
    "logs_to_stdout": (LONG, "more than 65536 bytes that are not JSON-RPC"),
    "asks_without_end": (LONG, "more than 1000 requests"),
    "logs_without_end": (LONG, "more than 1000 requests"),
    "asks_without_end_while_listing": (LONG, "more than 1000 requests"),
    "says_very_many_parts": (LONG, "more than 500000 parts"),
    "kills_its_keeper": (Bounds(seconds=1), "within 1 seconds"),
    "kills_all_its_keepers": (Bounds(seconds=1), "within 1 seconds"),
    "one_endless_line": (Bounds(seconds=60, received=1_000_000), "more than 1000000 bytes"),
    "tells_why_last": (LONG, "no such license"),
    "exits": (LONG, "no such license"),
    "closes_its_output": (LONG, "closed its output"),
}


@pytest.mark.parametrize("mode", sorted(FAULTS))
def test_a_command_that_breaks_the_rules(mode: str) -> None:
    bounds, reason = FAULTS[mode]
    report = timed(Target("mcp", command(BREAKS, mode)), bounds)
    assert reason in report.unaudited[0], report.unaudited


def test_a_time_out_is_one_under_a_flood() -> None:
    """However much is allowed."""
    bounds = Bounds(seconds=2, asked=10**9, received=10**9)
    for mode in ("asks_without_end", "logs_without_end", "asks_without_end_while_listing"):
        report = timed(Target("mcp", command(BREAKS, mode)), bounds)
        assert "within 2 seconds" in report.unaudited[0], report.unaudited


@pytest.mark.parametrize(
    ("mode", "bounds"), [("says_nothing_to_the_unknown", Bounds(seconds=10)), ("dies_of_the_unknown", LONG)]
)
def test_a_server_that_cannot_bear_the_newer_era_is_seen_in_the_older(mode: str, bounds: Bounds) -> None:
    report = one(Target("mcp", command(BREAKS, mode)), bounds)
    assert [f.name for f in report.findings] == ["memory_write"], report


def test_a_banner_is_passed_over() -> None:
    report = one(Target("mcp", command(BREAKS, "answers_after_a_banner")))
    assert [f.name for f in report.findings] == ["memory_write"]
    assert report.unaudited == ()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux can tell whose child a process was")
@pytest.mark.parametrize("mode", ["leaves_children_that_nothing_marks", "kills_its_keeper_and_hides"])
def test_what_left_its_session_is_ended_too(tmp_path: Path, mode: str) -> None:
    told = tmp_path / "told"
    line = f"{command(BREAKS, mode)} {told}"
    report = timed(Target("mcp", line), LONG)
    assert "bytes to stderr" in report.unaudited[0]
    processes = told.read_text().split()
    assert len(processes) == 3
    assert [process for process in processes if not is_gone(int(process))] == []


LAST_WORDS = {
    "answers_and_ends": "closed its output",
    "answers_then_junk": "closed its output",
    "answers_then_bad_json": "not JSON-RPC",
    "answers_then_half_a_line": "ended within a line",
    "answers_then_floods": "more than 40000 bytes",
}


def test_what_arrived_before_the_end_counts() -> None:
    bounds = Bounds(seconds=60, received=40_000)
    targets = [Target("mcp", command(BREAKS, mode)) for mode in LAST_WORDS]
    report = run(*targets, Target("mcp", command(BREAKS, "refuses_and_ends")), bounds=bounds)
    *seen, refused = report.targets
    for target, (mode, reason) in zip(seen, LAST_WORDS.items(), strict=True):
        assert [f.name for f in target.findings] == ["memory_write"], mode
        assert reason in target.unaudited[0], mode
    assert "no seat is free" in refused.unaudited[0]


LISTING_FAULTS = {
    "repeats_cursors": (LONG, "repeats a cursor"),
    "endless_pages": (Bounds(seconds=60, pages=5), "more than 5 pages"),
    "many_entries": (Bounds(seconds=60, entries=100), "more than 100 tools"),
    "lists_and_hangs": (Bounds(seconds=3), "within 3 seconds"),
    "lists_and_fails": (LONG, "listing its tools failed"),
}


@pytest.mark.parametrize("mode", sorted(LISTING_FAULTS))
def test_a_listing_that_breaks_the_rules(offering: Offering, mode: str) -> None:
    bounds, reason = LISTING_FAULTS[mode]
    report = timed(offering(mode), bounds)
    assert reason in report.unaudited[0], report.unaudited


def test_what_others_may_see_otherwise_is_unaudited() -> None:
    modes = {
        "changes_always": "lists changed each of the 3 times",
        "lists_twice_in_one_object": "the key 'tools' twice",
    }
    report = run(*(Target("mcp", command(BREAKS, mode)) for mode in modes))
    for target, reason in zip(report.targets, modes.values(), strict=True):
        assert target.status == "unaudited"
        assert reason in target.unaudited[0]


@pytest.mark.parametrize("hidden", ["tools", "prompts", "resources", "nothing"])
def test_what_is_declared_and_not_listed_is_unaudited(hidden: str) -> None:
    report = one(Target("mcp", command(BREAKS, "declares_what_it_does_not_list", hidden)))
    if hidden == "nothing":
        assert report.status == "clean"
    else:
        assert report.status == "unaudited"
        assert f"listing its {hidden} failed" in report.unaudited[0]


def test_a_session_that_is_lost_before_the_listing_is_unaudited(serve: Callable[[Any], str]) -> None:
    """As between replicas, or behind a firewall: over HTTP, the status is all that is told."""

    def lost(text: str) -> Response:
        return Response(status_code=404) if '"tools": [' in text else Response(text, media_type="application/json")

    assert one(Target("url", serve(by_hand(lost)) + "/mcp")).status == "unaudited"


def by_hand(frame: Callable[[str], Response]) -> Any:
    """A server over streamable HTTP that lists a tool twice in one object, each answer as `frame` makes it."""
    answers = {"tools/list": '{"tools": [{"name": "memory_write"}],\n "tools": []}'}
    answers["initialize"] = (
        '{"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "a", "version": "1"}}'
    )

    async def respond(request: Request) -> Response:
        asked = await request.json() if request.method == "POST" else {}
        if "id" not in asked:
            return Response(status_code=202 if asked else 405)
        text = '{"jsonrpc": "2.0", "id": %s, ' % json.dumps(asked["id"])  # noqa: UP031
        result = answers.get(asked["method"])
        text += f'"result": {result}}}' if result else '"error": {"code": -32601, "message": "Method not found"}}'
        return frame(text)

    return Starlette(routes=[Route("/mcp", respond, methods=["GET", "POST", "DELETE"])])


def event(text: str, end: str = "\n") -> Response:
    """One event, with a `data` line for each of the text's."""
    lines = ["event: message", *(f"data: {line}" for line in text.split("\n")), "", ""]
    return Response(end.join(lines), media_type="text/event-stream")


FRAMES: dict[str, Callable[[str], Response]] = {
    "one answer": lambda text: Response(text, media_type="application/json"),
    "an event of two lines": event,
    "an event with CR and LF": lambda text: event(text, "\r\n"),
    "an event with CR": lambda text: event(text, "\r"),
    "an event after others": lambda text: Response(
        f": hello\n\n\nid: 7\ndata:{text.replace(chr(10), '')}\n\n", media_type="text/event-stream"
    ),
}


@pytest.mark.parametrize("how", FRAMES)
def test_the_same_twice_over_http(serve: Callable[[Any], str], how: str) -> None:
    report = one(Target("url", serve(by_hand(FRAMES[how])) + "/mcp"))
    assert "the key 'tools' twice" in report.unaudited[0], report


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "x-unknown", "gzip, identity"])
@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_what_comes_compressed_is_never_decoded(serve: Callable[[Any], str], coding: str, kind: str) -> None:
    """A megabyte of it would be a gigabyte of nothing, and more than a reader has."""
    bomb = gzip.compress(b" " * 50_000_000)

    def frame(text: str) -> Response:
        return Response(bomb, media_type=kind, headers={"content-encoding": coding})

    report = one(Target("url", serve(by_hand(frame)) + "/mcp"))
    assert (report.status, len(report.unaudited)) == ("unaudited", 1)
    assert f"in the encoding {coding!r}, which nobody asked for" in report.unaudited[0]


def test_a_compressed_refusal_is_a_refusal(serve: Callable[[Any], str]) -> None:
    def frame(text: str) -> Response:
        return Response(gzip.compress(b"sign in"), status_code=401, headers={"content-encoding": "gzip"})

    assert "status 401" in one(Target("url", serve(by_hand(frame)) + "/mcp")).unaudited[0]


def test_what_was_seen_before_the_fault_is_kept(offering: Offering) -> None:
    report = one(offering("leaks_then_repeats"))
    assert report.status == "leak"
    assert "repeats a cursor" in report.unaudited[0]


@pytest.mark.parametrize("line", ["", "'", "no-such-command-anywhere --x", "/", "/etc/hostname"])
def test_a_command_that_cannot_be_started(line: str) -> None:
    assert one(Target("mcp", line)).status == "unaudited"


def test_targets_do_not_disturb_each_other(offering: Offering) -> None:
    report = run(
        Target("mcp", command(BREAKS, "exits")),
        offering("as_is"),
        offering("clean"),
        Target("mcp", command(BREAKS, "closes_its_output")),
    )
    assert [t.status for t in report.targets] == ["unaudited", "leak", "clean", "unaudited"]
    assert report.exit_code == LEAK


def test_an_audit_that_is_stopped_while_it_launches_leaves_nothing_behind() -> None:
    async def stopped(turns: int) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(audit, [Target("mcp", command(BREAKS, "hangs_unkindly"))], PATIENT)
            for _ in range(turns):
                await anyio.lowlevel.checkpoint()
            tasks.cancel_scope.cancel()

    for turns in range(2, 8):
        anyio.run(stopped, turns)
        gc.collect()  # a process that nobody waits for is told of now
        assert not left_behind(), turns


def test_no_target_is_not_a_clean_run() -> None:
    assert run().exit_code == UNAUDITED


def test_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match="unknown kind"):
        run(Target("ftp", "x"))

"""Real agent cards in files and at URLs: what a stranger reads is judged, what he cannot read is told."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from google.protobuf.json_format import MessageToDict
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from tests.policy.test_audit_servers import endless, serve, silent
from tests.policy.test_guards_a2a import card, skill

from exposure_policy.audit import CLEAN, LEAK, Bounds, Report, Target, TargetReport, audit

__all__ = ["serve"]


def run(*targets: Target, bounds: Bounds = Bounds(seconds=20)) -> Report:  # noqa: B008 - frozen
    return anyio.run(audit, targets, bounds)


def one(value: str, **bounds: Any) -> TargetReport:
    return run(Target("card", value), bounds=Bounds(**({"seconds": 20} | bounds))).targets[0]


def plain(*skills: Any, extended: bool = False, **fields: Any) -> dict[str, Any]:
    data: dict[str, Any] = MessageToDict(card(*skills, **fields))
    data["capabilities"] = {"extendedAgentCard": extended} if extended else {}
    return data


OLD = {
    "name": "Weather",
    "description": "Knows the weather.",
    "url": "https://agent.example/rpc",
    "version": "1",
    "protocolVersion": "0.2.6",
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "a", "name": "Forecast", "description": "Tells the weather.", "tags": []}],
}


def saved(path: Path, data: Any, name: str = "card.json") -> str:
    file = path / name
    file.write_text(json.dumps(data, indent=2))
    return str(file)


@pytest.mark.parametrize("data", [plain(), OLD], ids=["current", "old"])
def test_a_clean_card_in_a_file(tmp_path: Path, data: dict[str, Any]) -> None:
    report = run(Target("card", saved(tmp_path, data)))
    assert report.targets[0].unaudited == ()
    assert report.exit_code == CLEAN
    assert report.targets[0].seen["skill"] == 1


def test_a_leaky_skill_in_a_file_is_told_with_its_line(tmp_path: Path) -> None:
    leaky = skill(id="s", name="Recall", description="Gives back what the agent stored in memory.")
    path = saved(tmp_path, plain(leaky))
    report = run(Target("card", path))
    assert report.exit_code == LEAK
    finding = report.targets[0].findings[0]
    assert (finding.surface, finding.kind, finding.name, finding.rule) == ("a2a", "skill", "Recall", "text")
    assert finding.evidence[0].where == "description"
    assert '"Recall"' in Path(path).read_text().splitlines()[finding.line - 1]
    assert report.targets[0].file == path


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "cannot be read"),
        ("{", "cannot be read"),
        ("[1]", "not a JSON object"),
        ('{"skills": [{"id": "memory_read"}], "skills": []}', "the key 'skills' twice"),
        ("{}", "not an agent card"),
        ('{"name": "x"}', "not an agent card"),
        ('{"name": "x", "skills": [3]}', "does not accept"),
        ('{"name": "x", "skills": [], "version": {}}', "does not accept"),
        ("[" * 100_000, "cannot be read"),
        ("\udcff", "cannot be read"),
    ],
)
def test_a_file_that_is_no_card(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "card.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    report = one(str(file))
    assert report.status == "unaudited"
    assert reason in report.unaudited[0]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "missing.json", tmp_path, tmp_path / "fifo"):
        assert one(str(path)).status == "unaudited"


def site(routes: dict[str, Any], methods: tuple[str, ...] = ("GET", "POST")) -> Starlette:
    def answer(body: Any) -> Callable[[Request], Any]:
        async def respond(request: Request) -> Response:
            return body if isinstance(body, Response) else JSONResponse(body)

        return respond

    return Starlette(routes=[Route(path, answer(body), methods=list(methods)) for path, body in routes.items()])


BAD = plain(skill(id="memory_read"))


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/.well-known/agent-card.json", ""),
        ("/.well-known/agent.json", ""),
        ("/agents/a/.well-known/agent-card.json", "/agents/a"),
        ("/.well-known/agent-card.json", "/agents/a"),
        ("/cards/mine.json", "/cards/mine.json"),
    ],
)
def test_a_leaky_card_is_discovered(serve: Callable[[Any], str], path: str, asked: str) -> None:
    assert one(serve(site({path: BAD})) + asked).status == "leak"


def test_an_id_is_told_as_an_id_and_skills_may_be_a_mapping(tmp_path: Path) -> None:
    (finding,) = one(saved(tmp_path, plain(skill(id="memory_read", name="Forecast")))).findings
    assert (finding.name, finding.evidence[0].label) == ("Forecast", "name in id")
    nameless = OLD | {"skills": [{"id": "memory_read", "description": "d", "tags": []}]}
    (finding,) = one(saved(tmp_path, nameless)).findings
    assert (finding.name, finding.evidence[0].label) == ("memory_read", "name in id")
    mapped = OLD | {"skills": {"memory_read": {"description": "d"}}}
    report = one(saved(tmp_path, mapped))
    assert (report.status, report.findings[0].name) == ("leak", "memory_read")


def test_both_well_known_paths_are_judged(serve: Callable[[Any], str]) -> None:
    url = serve(site({"/.well-known/agent-card.json": plain(), "/.well-known/agent.json": BAD}))
    assert one(url).status == "leak"


def test_a_clean_card_is_discovered(serve: Callable[[Any], str]) -> None:
    report = one(serve(site({"/.well-known/agent-card.json": plain()})))
    assert (report.status, report.unaudited) == ("clean", ())


def test_a_host_without_a_card(serve: Callable[[Any], str]) -> None:
    for routes in ({}, {"/.well-known/agent-card.json": RedirectResponse("https://elsewhere.example/")}):
        assert "no agent card was found" in " ".join(one(serve(site(routes))).unaudited)
    locked = serve(site({"/.well-known/agent-card.json": JSONResponse({}, 401)}))
    assert "status 401" in one(locked).unaudited[0]
    junk, absent = one(serve(site({"/x.json": Response("no")})) + "/x.json").unaudited
    assert junk.startswith("/x.json is not JSON")
    assert absent.startswith("no agent card was found there")


def test_hosts_that_do_not_end(serve: Callable[[Any], str]) -> None:
    assert "within 1 seconds" in one(serve(silent), seconds=1).unaudited[0]
    assert "more than 100000 bytes" in one(serve(endless), received=100_000).unaudited[0]


def extended(url: str) -> dict[str, Any]:
    data = plain(extended=True)
    data["supportedInterfaces"] = [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]
    return data


def test_an_extended_card_that_anybody_gets_is_judged(serve: Callable[[Any], str]) -> None:
    routes = {"/.well-known/agent-card.json": extended("/rpc")}
    assert one(serve(site(routes | {"/rpc": {"jsonrpc": "2.0", "id": 1, "result": BAD}}))).status == "leak"
    assert one(serve(site(routes | {"/rpc/v1/card": BAD}))).status == "leak"


def test_an_extended_card_that_nobody_gets_is_unaudited(serve: Callable[[Any], str], tmp_path: Path) -> None:
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32007, "message": "no"}}
    url = serve(site({"/.well-known/agent-card.json": extended("/rpc"), "/rpc": error}))
    assert "extended card" in one(url).unaudited[0]
    file = saved(tmp_path, plain(extended=True))
    assert "extended card" in one(file).unaudited[0]
    # Once the other card is part of the run, everything on offer was seen.
    other = saved(tmp_path, plain(skill(id="more", name="More"), extended=True), "extended.json")
    report = run(Target("card", file), Target("card", other))
    assert report.exit_code == CLEAN


def test_an_extended_card_elsewhere_is_not_followed(serve: Callable[[Any], str]) -> None:
    trap = serve(site({"/rpc": {"jsonrpc": "2.0", "id": 1, "result": BAD}}))
    url = serve(site({"/.well-known/agent-card.json": extended(trap + "/rpc")}))
    assert one(url).status == "unaudited"

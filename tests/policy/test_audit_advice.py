"""What an audit says of what it could not see: what happened, and what to try."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount, Route
from tests.policy.servers import offers
from tests.policy.test_audit_servers import ROOTS, one, serve

from exposure_policy.audit import Target

__all__ = ["serve"]


def answers(**by_path: Response) -> Starlette:
    def endpoint(response: Response) -> Callable[[Any], Any]:
        async def respond(request: Any) -> Response:
            return response

        return respond

    return Starlette(
        routes=[
            *(Route(f"/{path}", endpoint(response), methods=["GET", "POST"]) for path, response in by_path.items()),
            Mount("/old", offers.clean().sse_app()),
        ]
    )


ANSWERS = {
    "locked": Response("no", 401),
    "forbidden": Response("no", 403),
    "broken": Response("no", 500),
    "moved": RedirectResponse("https://elsewhere.example/"),
    "page": Response("<html>", media_type="text/html"),
}
BOTH = ("url", "sse")
CASES = [
    *((kind, "/locked", "status 401", "wants none") for kind in BOTH),
    *((kind, "/forbidden", "status 403", "wants none") for kind in BOTH),
    *((kind, "/broken", "status 500", "its own log") for kind in BOTH),
    *((kind, "/moved", "status 307", "the address that it sends them to") for kind in BOTH),
    *((kind, "/page", "not an MCP server", "the URL's path") for kind in BOTH),
    *((kind, "/nowhere", "status 404", "the URL's path") for kind in BOTH),
    ("url", "/old/sse", "status 405", "--sse"),
]


def test_what_a_host_answers(serve: Callable[[Any], str]) -> None:
    base = serve(answers(**ANSWERS))
    for kind, path, what, remedy in CASES:
        (reason,) = one(Target(kind, base + path)).unaudited
        assert what in reason, (kind, path, reason)
        assert remedy in reason.partition("; ")[2], (kind, path, reason)


@pytest.mark.parametrize(
    ("kind", "value", "what", "remedy"),
    [
        ("url", "http://127.0.0.1:1/mcp", "nothing answers", "the port"),
        ("sse", "http://127.0.0.1:1/sse", "nothing answers", "the port"),
        ("card", "http://127.0.0.1:1/", "nothing answers", "the port"),
        ("url", "nonsense", "not a URL", "http://"),
        ("mcp", "no-such-command-anywhere", "No such file", "its path"),
        ("mcp", "/", "cannot be started", "its path"),
        ("mcp", "'", "cannot be read", "quoted"),
        ("mcp", "", "cannot be read", "quoted"),
        ("mcp", "true", "closed its output", "by hand"),
        ("mcp", "echo hello", "'hello'", "by hand"),
        ("mcp", "cat", "Method not found", "ask whoever"),
        ("card", "/nowhere/card.json", "No such file", "its path"),
        ("host-config", "/nowhere/mcp.json", "No such file", "its path"),
    ],
)
def test_what_cannot_be_reached(kind: str, value: str, what: str, remedy: str) -> None:
    reason = one(Target(kind, value)).unaudited[0]
    assert what in reason
    assert remedy in reason.partition("; ")[2]


@pytest.mark.parametrize("ticket", [None, "/nowhere/ticket"])
def test_the_sidecar_itself_is_named(ticket: str | None, tmp_path: Path) -> None:
    more = f"MEMORY_SIDECAR_TICKET={ticket}" if ticket else ""
    serving = f"{sys.executable} -P -m memory_sidecar serve --store-dir {tmp_path}"
    report = one(Target("mcp", f"env PYTHONPATH={ROOTS} {more} {serving}"))
    assert report.status == "unaudited"
    assert "this is the sidecar, and it refused" in report.unaudited[0]

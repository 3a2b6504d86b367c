"""The official TypeScript client as a harness and as a stranger, in each of its modes, over the transport it ships.

It is installed from its lock file. The official Python client is tried in test_mcp_client.py.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.sidecar import DEADLINE, SERVE, TICKET, environment, make_ticket

CLIENT = Path(__file__).parent / "clients"
TOOLS = ["memory_list", "memory_read", "memory_write", "memory_delete"]
NOTE = {"key": "k", "description": "d", "content": "c"}

MODES = {"default": "2025-11-25", "auto": "2026-07-28", "pinned": "2026-07-28"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("clients") / "npm"
    shutil.copytree(CLIENT, copy, ignore=shutil.ignore_patterns("node_modules"))
    words = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
    done = subprocess.run(words, cwd=copy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return copy / "client.mjs"


def session(client: Path, tmp_path: Path, mode: str, *, token: str | None = None, used: bool = False) -> Any:
    ticket = tmp_path / "ticket"
    fresh = make_ticket(ticket)
    if used:
        ticket.write_text("")
    words = ["node", str(client), mode, fresh if token is None else token, *SERVE]
    done = subprocess.run(
        [*words, "--store-dir", str(tmp_path / "state"), "--identity", "tester"],
        env=environment(**{TICKET: str(ticket)}),
        capture_output=True,
        text=True,
        timeout=DEADLINE * 3,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


pytestmark = [
    pytest.mark.skipif(not (shutil.which("node") and shutil.which("npm")), reason="Node and npm are not installed"),
    pytest.mark.long,
    pytest.mark.timeout(300),
]


@pytest.mark.parametrize("mode", MODES)
def test_it_is_a_harness_in_each_mode(client: Path, tmp_path: Path, mode: str) -> None:
    said = session(client, tmp_path, mode)
    assert "memory_read" in said.pop("instructions")
    assert said == {
        "version": MODES[mode],
        "tools": TOOLS,
        "written": {"written": True, "key": "k"},
        "read": {"found": True, **NOTE},
        "cancelled": said["cancelled"],
        "after": {"memories": [{"key": "k", "description": "d"}]},
    }
    assert "changed its mind" in said["cancelled"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("way", ["no ticket", "a wrong one", "a used one"])
def test_it_is_a_stranger_in_each_mode(client: Path, tmp_path: Path, mode: str, way: str) -> None:
    token = {"no ticket": "", "a wrong one": "A" * 43}.get(way)
    said = session(client, tmp_path, mode, token=token, used=way == "a used one")
    if mode == "pinned":
        # This client replaces the words of whoever refuses its probe by its own.
        assert said == {"error": said["error"], "code": "ERA_NEGOTIATION_FAILED"}
    else:
        assert said == {"error": said["error"], "code": -32021}
        assert "refused by the exposure policy" in said["error"]
    assert not os.path.exists(tmp_path / "state" / "memory" / "tester" / "k.md")


def test_the_lock_file_names_no_registry() -> None:
    lock = (CLIENT / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert re.search(r'"integrity"', lock)

"""MCP-to-HTTP proxies from registries, in front of the sidecar: an outsider at their URL gets nothing.

A proxy passes on whatever a stdio server offers, so it is the likeliest way by which a memory would be published by
mistake. Each is shown to serve an ordinary server first; then the sidecar takes that server's place.

What nothing can stop is shown too: a script that plays harness, by making a ticket and presenting it for whoever asks.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from mcp.client import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from tests.support.ports import free_port
from tests.support.sidecar import ROOT, SERVE, TICKET, Sidecar, make_ticket, until

from exposure_policy.audit import Target, audit
from memory_sidecar.cli.serve import _OPTIONS

LOCKED = Path(__file__).parent / "proxies"
ORDINARY = (sys.executable, str(ROOT / "tests/policy/servers/offers.py"), "clean")
BY_HAND = (sys.executable, str(ROOT / "tests/policy/servers/breaks.py"), "answers_by_hand")
NOTE = "the tangerine is ripe"
NEEDS_NODE = pytest.mark.skipif(not (shutil.which("node") and shutil.which("npm")), reason="Node and npm are not here")

# What it takes to play harness on purpose: a new ticket at each start, put into what the client sends.
WRAPPER = r"""#!/bin/sh
export MEMORY_SIDECAR_TICKET=$(mktemp)
token=$(head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=')
printf %s "$token" >"$MEMORY_SIDECAR_TICKET"
ticket='"experimental":{"memory-sidecar/harness":{"ticket":"'$token'"}},'
sed -u 's|apabilities":{|&'"$ticket"'|; s|},}|}}|g' | SERVE
"""

# Keeps what the server behind a proxy says and how it ends; the proxy may end it early, but not this record of it.
RECORD = 'trap : TERM INT HUP; "$@" 2>>"$RECORDS/stderr"; echo $? >>"$RECORDS/exits"'


class Kind(NamedTuple):
    """How a proxy is launched: its words before the command, given a port, and the path it serves on."""

    transport: str
    path: str
    words: Callable[[int], list[str]]
    joined: bool = False
    """Whether it takes the command as one word."""


GATEWAY = "node_modules/supergateway/dist/index.js"
NPM_PROXY = "node_modules/mcp-proxy/dist/bin/mcp-proxy.mjs"
KINDS = {
    "supergateway-http": Kind(
        "http",
        "/mcp",
        lambda port: ["node", GATEWAY, "--outputTransport", "streamableHttp", "--port", str(port), "--stdio"],
        joined=True,
    ),
    "supergateway-http-sessions": Kind(
        "http",
        "/mcp",
        lambda port: [
            *("node", GATEWAY, "--outputTransport", "streamableHttp"),
            *("--stateful", "--port", str(port), "--stdio"),
        ],
        joined=True,
    ),
    "supergateway-sse": Kind(
        "sse",
        "/sse",
        lambda port: ["node", GATEWAY, "--outputTransport", "sse", "--port", str(port), "--stdio"],
        joined=True,
    ),
    "npm-mcp-proxy-http": Kind(
        "http", "/mcp", lambda port: ["node", NPM_PROXY, "--host", "127.0.0.1", "--port", str(port), "--"]
    ),
    "npm-mcp-proxy-sse": Kind(
        "sse", "/sse", lambda port: ["node", NPM_PROXY, "--host", "127.0.0.1", "--port", str(port), "--"]
    ),
}
PYPI = {
    "pypi-mcp-proxy-http": Kind("http", "/mcp", lambda port: ["bin/mcp-proxy", "--port", str(port), "--"]),
    "pypi-mcp-proxy-sse": Kind("sse", "/sse", lambda port: ["bin/mcp-proxy", "--port", str(port), "--"]),
}

# Every option of `serve`, with the most that a static configuration could make of it. A new option belongs here.
EVERY_OPTION = {
    "config": "{base}/config.yaml",
    "identity": "tester",
    "store-dir": "{base}",
    "journal-dir": "{base}/runs",
    "run": "friday",
    "lockdown": "off",
    "log-level": "debug",
    "log-format": "json",
    "default-identity": "tester",
    "keep-runs": "90d",
}
# Every variable that the process reads, and some that somebody might hope for.
EVERY_VARIABLE = {
    "NATS_CONTEXT": "any",
    "XDG_STATE_HOME": "{base}",
    "XDG_CONFIG_HOME": "{base}",
    "HOME": "{base}",
    "OTEL_SDK_DISABLED": "true",
    "OTEL_TRACES_EXPORTER": "none",
    "RES_OPTIONS": "use-vc",
    "MEMORY_SIDECAR_EXPOSE": "mcp,a2a",
    "MEMORY_SIDECAR_POLICY": "allow",
    "MEMORY_SIDECAR_INSECURE": "1",
}
EVERY_KEY = (
    "identity: tester\n"
    "nats_context: any\n"
    "harness:\n"
    "  memory: {enabled: true, backend: file, read_only: false, no_index: false,"
    " options: {directory: memory/tester, require_read_before_update: true}}\n"
)


class Attempt(NamedTuple):
    """What came of one outsider at one proxy."""

    tools: list[str] | None
    """The tools that were listed; None when nobody answered or the answer was an error."""
    exits: list[int]
    stderr: str
    log: str


@pytest.fixture(scope="module")
def npm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the locked proxies, installed."""
    copy = tmp_path_factory.mktemp("proxies") / "npm"
    shutil.copytree(LOCKED, copy, ignore=shutil.ignore_patterns("node_modules"))
    # Their dependencies have scripts to run after installing, none of which a proxy needs.
    install(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], copy)
    return copy


@pytest.fixture(scope="module")
def pypi(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of its own: this proxy needs an older SDK than ours."""
    place = tmp_path_factory.mktemp("proxies") / "pypi"
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    install([str(place / "bin/pip"), "install", "--quiet", "--disable-pip-version-check", "mcp-proxy==0.13.0"], place)
    return place


def install(words: list[str], place: Path) -> None:
    done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip(f"the proxies cannot be installed here: {done.stderr.strip().splitlines()[-1:]}")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory with a note in it, a ticket that its harness has used up, and one that nobody has used."""
    base = tmp_path_factory.mktemp("memory")
    ticket = base / "used.ticket"
    token = make_ticket(ticket)
    with Sidecar(base, ticket=ticket, token=token) as harness:
        harness.initialize()
        assert harness.write("plan", NOTE)["written"]
        assert harness.leave() == 0
    assert ticket.read_bytes() == b""
    (base / "config.yaml").write_text(EVERY_KEY)
    return base


def served(base: Path, records: Path, how: str) -> tuple[list[str], int]:
    """The command line that a static configuration would hold, and the status with which it must end."""
    environment = {"PYTHONPATH": f"{ROOT / 'sidecar'}:{ROOT / 'policy'}", "RECORDS": str(records)}
    words = [*SERVE, "--store-dir", str(base), "--identity", "tester"]
    if how != "plain":
        words = [*SERVE, *(w for option, v in EVERY_OPTION.items() for w in (f"--{option}", v.format(base=base)))]
        environment |= {name: value.format(base=base) for name, value in EVERY_VARIABLE.items()}
        ticket = records / f"{how}.ticket" if how != "used" else base / "used.ticket"
        if how == "fresh":
            make_ticket(ticket)
        environment[TICKET] = str(ticket)
    assigned = [f"{name}={value}" for name, value in environment.items()]
    return ["env", *assigned, "sh", "-c", RECORD, "sh", *words], 64 if how == "plain" else 77


@contextmanager
def proxy(kind: Kind, place: Path, command: list[str], records: Path) -> Iterator[str]:
    """A proxy in front of `command`; yields its URL once it listens, or has given up."""
    port = free_port()
    words = [*kind.words(port), *([shlex.join(command)] if kind.joined else command)]
    words[0] = str(place / words[0]) if "/" in words[0] else words[0]
    log = records / "log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            words, cwd=place, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True
        )
    try:
        until(lambda: listens(port) or process.poll() is not None, "the proxy listens or gives up")
        yield f"http://127.0.0.1:{port}{kind.path}"
    finally:
        with_group(process, signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            with_group(process, signal.SIGKILL)
            process.wait()


def with_group(process: "subprocess.Popen[bytes]", number: int) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        process.poll()


def listens(port: int) -> bool:
    """Whether something listens on that port; looked up, because some proxies take a connection for a client."""
    wanted = f":{port:04X}"
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[1].endswith(wanted) and fields[3] == "0A":
                return True
    return False


async def outsider(kind: Kind, url: str, mode: str) -> list[str]:
    """The tools that the official client is given there, every page of them."""
    transport: Any = sse_client(url) if kind.transport == "sse" else streamable_http_client(url)
    names: list[str] = []
    async with Client(transport, mode=mode, read_timeout_seconds=20) as client:
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                return names


def attempt(kind: Kind, place: Path, command: list[str], records: Path, *, ends: bool) -> Attempt:
    """Put the proxy in front of `command` and go there as an outsider."""
    tools: list[str] | None = None
    with proxy(kind, place, command, records) as url:
        # The older handshake and whatever the client prefers: an outsider may choose.
        for mode in ("legacy", "auto"):
            try:
                tools = (tools or []) + anyio.run(outsider, kind, url, mode)
            except Exception:  # noqa: BLE001 - an error of any sort is what an outsider should get
                continue
        exits = records / "exits"
        if ends:
            until(lambda: exits.exists() and exits.read_text().strip(), "the sidecar has ended")
    return Attempt(
        tools,
        [int(line) for line in exits.read_text().split()] if exits.exists() else [],
        (records / "stderr").read_text(errors="replace") if (records / "stderr").exists() else "",
        (records / "log").read_text(errors="replace"),
    )


def assert_passes_on(kind: Kind, place: Path, records: Path) -> None:
    """The control: the same proxy serves an ordinary server's tools."""
    records.mkdir()
    command = ["env", f"RECORDS={records}", "sh", "-c", RECORD, "sh", *ORDINARY]
    found = attempt(kind, place, command, records, ends=False)
    assert found.tools is not None, found.log
    assert {"add", "read_memory_usage"} <= set(found.tools)


def assert_refused(kind: Kind, place: Path, base: Path, records: Path, how: str) -> None:
    records.mkdir()
    command, status = served(base, records, how)
    found = attempt(kind, place, command, records, ends=True)
    assert not found.tools, found.log
    # A proxy may end it the moment it is refused, before it has left by itself.
    assert {status, 128 + signal.SIGTERM} & set(found.exits), (found.exits, found.log)
    told = "is started by an agent harness" if status == 64 else "refused a client without the launch ticket"
    assert told in found.stderr, found.stderr
    for secret in (NOTE, "about plan"):
        assert secret not in found.log


def assert_the_note_is_whole(base: Path) -> None:
    """What was tried took and changed nothing, and its own harness still gets in."""
    with Sidecar(base) as harness:
        harness.initialize()
        assert harness.read("plan")["content"] == NOTE


def wrapped(base: Path, place: Path) -> Path:
    """A script that plays harness in front of the memory in `base`."""
    script = place / "start-memory"
    paths = f"PYTHONPATH={ROOT / 'sidecar'}:{ROOT / 'policy'}"
    words = ["env", paths, *SERVE, "--store-dir", str(base), "--identity", "tester"]
    script.write_text(WRAPPER.replace("SERVE", shlex.join(words)))
    script.chmod(0o700)
    return script


HOW = ("plain", "used", "missing", "fresh")


FRAMES = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"proxy","version":"1"}}}\n'
    '{"jsonrpc":"2.0","method":"notifications/initialized"}\n'
    '{"jsonrpc":"2.0","id":2,"method":"tools/list"}\n'
)


@pytest.mark.parametrize("how", [*HOW, "control"])
def test_what_any_proxy_launches_gets_nothing(base: Path, tmp_path: Path, how: str) -> None:
    """The quick part of what follows, without a proxy: what each of them writes to the command it launches."""
    command, status = served(base, tmp_path, "plain" if how == "control" else how)
    if how == "control":
        command, status = list(BY_HAND), 0
    done = subprocess.run(command, input=FRAMES, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0  # that of the record, and of the control
    assert ('"tools"' in done.stdout) == (how == "control"), done.stdout
    assert NOTE not in done.stdout
    if how != "control":
        assert (tmp_path / "exits").read_text().split() == [str(status)]
        assert_the_note_is_whole(base)


def test_a_script_that_plays_harness_on_purpose_is_one(base: Path, tmp_path: Path) -> None:
    """SECURITY.md says so where it promises that no configuration opens memory: a script is no configuration."""
    done = subprocess.run(
        [wrapped(base, tmp_path)], input=FRAMES, capture_output=True, text=True, check=False, timeout=60
    )
    assert '"memory_read"' in done.stdout, done.stdout + done.stderr


def test_a_host_that_lists_such_a_script_is_flagged(base: Path, tmp_path: Path) -> None:
    script = str(wrapped(base, tmp_path))
    listed = {
        "alone": {"command": script},
        "through a shell": {"command": "sh", "args": ["-c", f"exec {script}"]},
        "behind a proxy": {"command": "npx", "args": ["mcp-proxy", "--port", "8080", "--", script]},
        "behind a proxy that takes it as one word": {"command": "supergateway", "args": ["--stdio", f"{script} --x"]},
    }
    host = tmp_path / "host.json"
    host.write_text(json.dumps({"mcpServers": listed}))
    report = anyio.run(audit, [Target("host-config", str(host))])
    assert {finding.name for finding in report.targets[0].findings} == set(listed)


@NEEDS_NODE
@pytest.mark.long
@pytest.mark.timeout(600)
def test_nor_can_a_proxy_tell_such_a_script_from_a_server(npm: Path, base: Path, tmp_path: Path) -> None:
    command = ["env", f"RECORDS={tmp_path}", "sh", "-c", RECORD, "sh", str(wrapped(base, tmp_path))]
    found = attempt(KINDS["supergateway-http-sessions"], npm, command, tmp_path, ends=False)
    assert found.tools is not None, found.log
    assert "memory_read" in found.tools


@NEEDS_NODE
@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(KINDS))
def test_no_proxy_from_npm_serves_the_sidecar(npm: Path, base: Path, tmp_path: Path, name: str) -> None:
    assert_no_way(KINDS[name], npm, base, tmp_path)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", sorted(PYPI))
def test_no_proxy_from_pypi_serves_the_sidecar(pypi: Path, base: Path, tmp_path: Path, name: str) -> None:
    assert_no_way(PYPI[name], pypi, base, tmp_path)


def assert_no_way(kind: Kind, place: Path, base: Path, tmp_path: Path) -> None:
    assert_passes_on(kind, place, tmp_path / "control")
    for how in HOW:
        assert_refused(kind, place, base, tmp_path / how, how)
    assert_the_note_is_whole(base)


def test_the_static_configuration_names_everything_there_is() -> None:
    """A new option or variable must be put to the same test."""
    assert set(EVERY_OPTION) == set(_OPTIONS)
    read: set[str] = set()
    for file in (ROOT / "sidecar/memory_sidecar").rglob("*.py"):
        if ("harness" not in file.parts and "cli" not in file.parts[:-1]) or file.name == "serve.py":
            read |= set(re.findall(r"""environ(?:\.get|\.pop)?[(\[]\s*["'](\w+)["']""", file.read_text()))
    assert read - set(EVERY_VARIABLE) - {TICKET, "PYTHONPATH"} <= {"OTEL_EXPORTER_OTLP_ENDPOINT"}, read


def test_the_lock_file_names_no_registry() -> None:
    lock = (LOCKED / "package-lock.json").read_text()
    assert '"integrity"' in lock
    assert '"resolved"' not in lock

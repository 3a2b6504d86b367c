"""A raw driver of the wire: one sidecar process, frames by the line, nothing hidden.

It speaks as either era of MCP does (`Sidecar.era`). What it returns is told in the older one's terms, so that one test
holds both to the same outcome; every answer is held to the official SDK's models of its revision on the way.

Waiting is always for an event (a frame, an exit, a state that can be looked at) with a deadline that only a hang
reaches. The sidecar under test is the one in this source tree, whatever is installed.
"""

import json
import os
import secrets
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

ROOT: Final = Path(__file__).resolve().parents[2]
DEADLINE: Final = 30.0
"""Seconds until a test gives up on something that should happen at once. Long, because machines get busy."""

TICKET: Final = "MEMORY_SIDECAR_TICKET"
EXTENSION: Final = "memory-sidecar/harness"
RUN: Final = "memory-sidecar/run"
UNSAVED: Final = "memory-sidecar/unsaved"
OPEN: Final = "memory-sidecar/run/open"
SUSPEND: Final = "memory-sidecar/run/suspend"
FINISH: Final = "memory-sidecar/run/finish"
LIST: Final = "memory-sidecar/run/list"

LEGACY_VERSION: Final = "2025-11-25"
MODERN_VERSION: Final = "2026-07-28"
META: Final = "io.modelcontextprotocol/"
SERVER_INFO: Final = f"{META}serverInfo"

Era = Literal["legacy", "modern"]

OWN_METHODS: Final = (OPEN, SUSPEND, FINISH, LIST)

SERVE: Final = (sys.executable, "-P", "-m", "memory_sidecar", "serve")

Frame = dict[str, Any]


class RefusedError(Exception):
    """An answer was an error."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: Any = error.get("data")


def environment(**more: str) -> dict[str, str]:
    """This process's environment, with this source tree first on the path and no ticket."""
    known = {name: value for name, value in os.environ.items() if name not in (TICKET, "PYTHONPATH")}
    return {**known, "PYTHONPATH": f"{ROOT / 'sidecar'}:{ROOT / 'policy'}", **more}


def make_ticket(path: Path, *, mode: int = 0o600) -> str:
    """Write a fresh ticket at `path` and return its token."""
    token = secrets.token_urlsafe(32)
    path.write_text(token)
    path.chmod(mode)
    return token


def until(condition: Callable[[], object], what: str = "it happens", seconds: float = DEADLINE) -> Any:
    """Poll until `condition` is true, and return what it was."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {seconds:.0f} s in vain until {what}")
        time.sleep(0.005)
    return found


def is_gone(pid: int) -> bool:
    """Whether the process has ended; one that only waits to be reaped counts as ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"


class Sidecar:
    """One launched sidecar. Use it as a context manager; leaving kills what still runs."""

    era: ClassVar[Era] = "legacy"
    """How all of them speak. A fixture plays a test in both: see `both_eras`."""

    def __init__(
        self,
        base: Path | None = None,
        *arguments: str,
        ticket: Path | str | None = None,
        token: str | None = None,
        command: Iterable[str] = SERVE,
        identity: str = "tester",
        stderr: int | None = None,
        **options: Any,
    ) -> None:
        """Launch over `base` (the store base), with a fresh ticket unless one is given; `""` means none."""
        words = [*command]
        if base is not None:
            words += [] if "--store-dir" in arguments else ["--store-dir", str(base)]
        if identity:
            words += [] if "--identity" in arguments else ["--identity", identity]
        words += arguments
        env = options.pop("env", None) or environment()
        self._own_ticket: Path | None = None
        if ticket is None:
            descriptor, name = tempfile.mkstemp(suffix=".ticket")
            os.close(descriptor)
            ticket = self._own_ticket = Path(name)
            token = make_ticket(self._own_ticket)
        if ticket:
            env[TICKET] = str(ticket)
        self.token = token or ""
        self.identity = identity
        self.memory = base / "memory" / identity if base is not None else None
        self.runs = base / "runs" / identity if base is not None else None
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed at exit
        options.setdefault("stdin", subprocess.PIPE)
        options.setdefault("stdout", subprocess.PIPE)
        self.process = subprocess.Popen(
            words, stderr=self._errors if stderr is None else stderr, env=env, bufsize=0, **options
        )
        self._received = bytearray()
        self._frames: list[Frame] = []
        self._asked: dict[int | str, tuple[str, bool]] = {}
        self._next = 1

    def __enter__(self) -> "Sidecar":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(DEADLINE)
        for pipe in (self.process.stdin, self.process.stdout, self._errors):
            if pipe is not None:
                pipe.close()
        if self._own_ticket is not None:
            self._own_ticket.unlink(missing_ok=True)

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def stderr(self) -> str:
        """What it has written to stderr so far."""
        self._errors.seek(0)
        return self._errors.read().decode()

    # --- frames out ----------------------------------------------------------------------------------------------

    def send_bytes(self, data: bytes) -> None:
        assert self.process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self.process.stdin.write(view) :]

    def send(self, *messages: Any) -> None:
        """Send all messages in one write."""
        self._asked.update(
            (message["id"], (message["method"], _is_modern(message)))
            for message in messages
            if isinstance(message, dict) and isinstance(message.get("id"), int | str) and "method" in message
        )
        self.send_bytes(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def message(self, method: str, params: Mapping[str, Any] | None = None) -> Frame:
        """A request with an id of its own, not sent yet."""
        number, self._next = self._next, self._next + 1
        message: Frame = {"jsonrpc": "2.0", "id": number, "method": method}
        if self.era == "modern" and method != "initialize":
            return self.modern(message, params or {})
        if params is not None:
            message["params"] = params
        return message

    def modern(self, message: Frame, params: Mapping[str, Any], capabilities: Mapping[str, Any] | None = None) -> Frame:
        """`message` with `params` as a request of MCP 2026-07-28: complete in itself, the ticket with it."""
        mine = {"extensions": {EXTENSION: {"ticket": self.token}}} if capabilities is None else capabilities
        meta = {
            f"{META}protocolVersion": MODERN_VERSION,
            f"{META}clientCapabilities": mine,
            f"{META}clientInfo": {"name": "tests", "version": "1"},
        }
        return {**message, "params": {**params, "_meta": {**meta, **params.get("_meta", {})}}}

    def pulse(self) -> None:
        """Return when all that was sent before has been received."""
        if self.era == "legacy":
            assert self.request("ping") == {}
        else:
            assert self.request("tools/list")["tools"]

    def tool(self, name: str, arguments: Mapping[str, Any] | None = None, run: str | None = None) -> Frame:
        """A `tools/call` request, not sent yet."""
        params: Frame = {"name": name, "arguments": arguments or {}}
        if run is not None:
            params["_meta"] = {RUN: run}
        return self.message("tools/call", params)

    def notify(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        self.send({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def cancel(self, request: Frame) -> None:
        self.notify("notifications/cancelled", {"requestId": request["id"], "reason": "test"})

    def close_stdin(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    # --- frames in -----------------------------------------------------------------------------------------------

    def receive(self, seconds: float = DEADLINE) -> Frame:
        """The next frame. EOFError when the sidecar has closed its end."""
        if self._frames:
            return self._frames.pop(0)
        return self._read(time.monotonic() + seconds)

    def answer(self, to: Frame | int | str, seconds: float = DEADLINE) -> Frame:
        """The answer to a request; others that come before it stay to be received."""
        wanted = to["id"] if isinstance(to, dict) else to
        for index, frame in enumerate(self._frames):
            if frame.get("id") == wanted:
                return self._frames.pop(index)
        deadline = time.monotonic() + seconds
        while (frame := self._read(deadline)).get("id") != wanted:
            self._frames.append(frame)
        return frame

    def rest(self) -> list[Frame]:
        """All frames until the sidecar closes its end."""
        frames = []
        try:
            while True:
                frames.append(self.receive())
        except EOFError:
            return frames

    def _read(self, deadline: float) -> Frame:
        assert self.process.stdout is not None
        while (end := self._received.find(b"\n")) < 0:
            if not select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"no answer in time; its log says: {self.stderr or 'nothing'}")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                assert not self._received, f"half a frame at the end: {bytes(self._received[:200])!r}"
                raise EOFError(f"the sidecar closed its end; its log says: {self.stderr or 'nothing'}")
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        frame = json.loads(line)
        assert frame["jsonrpc"] == "2.0"
        return self._checked(frame)

    def _checked(self, frame: Frame) -> Frame:
        """The answer, held to its revision's model, in the terms of the older era."""
        from mcp_types.methods import validate_server_result  # slow to load, and not every user of this needs it

        if "result" not in frame:
            return frame
        is_modern = "resultType" in frame["result"]
        method, asked_so = self._asked.pop(frame["id"], (None, is_modern))
        assert is_modern == asked_so
        if method is not None and method not in OWN_METHODS:
            validate_server_result(method, MODERN_VERSION if is_modern else LEGACY_VERSION, frame["result"])
        if not is_modern:
            return frame
        told = dict(frame["result"])
        assert told.pop("resultType") == "complete"
        if method in ("tools/list", "server/discover"):
            assert (told.pop("ttlMs"), told.pop("cacheScope")) == (0, "private")
        meta = dict(told.pop("_meta"))
        assert meta.pop(SERVER_INFO)["name"] == "memory-sidecar"
        return {**frame, "result": {**told, "_meta": meta} if meta else told}

    # --- requests and their results ------------------------------------------------------------------------------

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> Frame:
        """Send a request and return its whole answer."""
        message = self.message(method, params)
        self.send(message)
        return self.answer(message)

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> Frame:
        """Send a request and return its result.

        Raises:
            RefusedError: the answer is an error.
        """
        return result(self.ask(method, params))

    def hello(self, **changes: Any) -> Frame:
        """An `initialize` request, not sent yet."""
        params: Frame = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"extensions": {EXTENSION: {"ticket": self.token}}},
            "clientInfo": {"name": "tests", "version": "1"},
        }
        return self.message("initialize", {**params, **changes})

    def initialize(self, **changes: Any) -> Frame:
        """Shake hands and return the result."""
        message = self.hello(**changes)
        self.send(message)
        found = result(self.answer(message))
        self.notify("notifications/initialized")
        return found

    def greet(self) -> Frame:
        """Begin as a client of this era does: shake hands, or discover. Both results tell the instructions."""
        return self.initialize() if self.era == "legacy" else self.request("server/discover")

    def call(self, name: str, arguments: Mapping[str, Any] | None = None, run: str | None = None) -> Frame:
        """Call a tool and return MCP's CallToolResult."""
        message = self.tool(name, arguments, run)
        self.send(message)
        return result(self.answer(message))

    def read(self, key: str, run: str | None = None) -> Frame:
        return self.call("memory_read", {"key": key}, run)["structuredContent"]  # type: ignore[no-any-return]

    def write(self, key: str, content: str, run: str | None = None, *, overwrite: bool = False) -> Frame:
        arguments = {"key": key, "description": f"about {key}", "content": content, "overwrite": overwrite}
        return self.call("memory_write", arguments, run)["structuredContent"]  # type: ignore[no-any-return]

    def open(self, run: str, **params: Any) -> Frame:
        return self.request(OPEN, {"run": run, **params})

    def suspend(self, run: str) -> Frame:
        return self.request(SUSPEND, {"run": run})

    def finish(self, run: str, reason: str, **params: Any) -> Frame:
        return self.request(FINISH, {"run": run, "reason": reason, **params})

    def states(self) -> dict[str, str]:
        """The state of each run in the journal directory."""
        return {run["run"]: run["state"] for run in self.request(LIST)["runs"]}

    # --- the end -------------------------------------------------------------------------------------------------

    def wait(self, seconds: float = DEADLINE) -> int:
        """The exit status, once it has ended."""
        return self.process.wait(seconds)

    def leave(self) -> int:
        """Close the pipe, as a harness does that is done, and return the exit status."""
        self.close_stdin()
        return self.wait()

    def kill(self) -> None:
        self.process.kill()
        self.wait()


def _is_modern(message: Frame) -> bool:
    """Whether a request is complete in itself."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return isinstance(meta, dict) and f"{META}protocolVersion" in meta


def result(answer: Frame) -> Frame:
    if "error" in answer:
        raise RefusedError(answer["error"])
    return answer["result"]  # type: ignore[no-any-return]


def launched(base: Path, *arguments: str, **options: Any) -> Sidecar:
    """A sidecar that serves: that has shaken hands, where the era has that."""
    sidecar = Sidecar(base, *arguments, **options)
    try:
        sidecar.greet()
    except BaseException:
        sidecar.__exit__()
        raise
    return sidecar


def guarded(directory: Path) -> tuple[str, str]:
    """The arguments that switch on the file backend's guard, by a configuration written into `directory`."""
    return configured(directory, "backend: file, options: {require_read_before_update: true}")


def configured(directory: Path, memory: str) -> tuple[str, str]:
    """The arguments for a configuration whose memory block is enabled and holds `memory` (flow style)."""
    path = directory / "memory-config.yaml"
    path.write_text(f"harness:\n  memory: {{enabled: true, {memory}}}\n")
    return "--config", str(path)


def patched(directory: Path, code: str) -> dict[str, str]:
    """An environment in which `code` runs in the sidecar before anything else."""
    site = directory / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(code)
    env = environment()
    return {**env, "PYTHONPATH": f"{site}:{env['PYTHONPATH']}"}

"""A harness in the fewest lines: launches the real process and speaks JSON-RPC to it, one request at a time.

It speaks as either era of MCP does (`Speaker.era`).
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, ClassVar

TOKEN = "t" * 43
EXTENSION = "memory-sidecar/harness"


def _surroundings() -> dict[str, str]:
    """This process's environment without what would make a sidecar speak to a collector, or to another one."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("OTEL_") and not name.lower().endswith("_proxy")
    }


def _complete(token: str) -> dict[str, Any]:
    """What a modern request has in its `_meta`."""
    return {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {"ticket": token}}},
    }


class Speaker:
    """One launched sidecar. As a context manager it closes the pipe and waits for the end."""

    era: ClassVar[str] = "legacy"
    """How all of them speak; `both_eras` plays a test in both."""

    def __init__(
        self,
        base: Path,
        *options: str,
        env: Mapping[str, str] | None = None,
        stderr: int | IO[Any] = subprocess.PIPE,
        python: Sequence[str] = (),
    ) -> None:
        descriptor, ticket = tempfile.mkstemp()
        os.write(descriptor, TOKEN.encode())
        os.close(descriptor)
        words = ["-m", "memory_sidecar", "serve", "--store-dir", str(base), "--identity", "tester", *options]
        self.process = subprocess.Popen(
            [sys.executable, *python, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**_surroundings(), **(env or {}), "MEMORY_SIDECAR_TICKET": ticket},
        )
        self._next = 0
        self.log = ""
        """What it wrote to stderr, once it has ended."""

    def request(self, method: str, params: Mapping[str, Any] | None = None, token: str = TOKEN) -> dict[str, Any]:
        self._next += 1
        sent = dict(params or {})
        if self.era == "modern" and method != "initialize":
            sent["_meta"] = {**sent.get("_meta", {}), **_complete(token)}
        message = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": sent}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert answer["id"] == self._next
        return answer

    def greet(self, token: str = TOKEN) -> str:
        """Ask for the index as this era does; return the method. A modern refusal ends the process soon after."""
        if self.era == "legacy":
            self.initialize(token)
            return "initialize"
        self.request("server/discover", token=token)
        return "server/discover"

    def initialize(self, token: str = TOKEN, name: str = "speaker", **params: Any) -> dict[str, Any]:
        return self.request(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {"extensions": {EXTENSION: {"ticket": token}}},
                "clientInfo": {"name": name, "version": "1"},
                **params,
            },
        )

    def call(self, tool: str, meta: Mapping[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
        answer = self.request("tools/call", {"name": tool, "arguments": arguments, "_meta": meta or {}})
        result: dict[str, Any] = answer.get("result", answer)
        return result

    def wait(self) -> int:
        """Wait for an end of its own accord."""
        return self.process.wait(30)

    def end(self) -> int:
        """Close the pipe and wait; what was on stderr is in `log`."""
        _, log = self.process.communicate(timeout=30)
        self.log = (log or b"").decode()
        return self.process.returncode

    def __enter__(self) -> "Speaker":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None or not self.log:
            self.end()

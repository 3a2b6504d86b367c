"""A harness in the fewest lines: launches the real process and speaks JSON-RPC to it, one request at a time."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

TOKEN = "t" * 43
EXTENSION = "memory-sidecar/harness"


def _surroundings() -> dict[str, str]:
    """This process's environment without what would make a sidecar speak to a collector, or to another one."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("OTEL_") and not name.lower().endswith("_proxy")
    }


class Speaker:
    """One launched sidecar. As a context manager it closes the pipe and waits for the end."""

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

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self._next += 1
        message = {"jsonrpc": "2.0", "id": self._next, "method": method, "params": params or {}}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert answer["id"] == self._next
        return answer

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

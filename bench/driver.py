"""One raw JSON-RPC driver for every contestant that speaks on stdio, so that no client library's cost is measured.

A time runs from before the request is written until the last byte of its answer is read; parsing is not part of it.
A contestant that is a library runs in a child too (`peers/library.py`) but times its own calls: it pays no pipe.
"""

import json
import os
import select
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

__all__ = ["Answer", "DeadError", "Process", "Resident"]

_PATIENCE = 180.0
_CHUNK = 1 << 20


class DeadError(Exception):
    """The contestant ended, or did not answer."""


class Answer(NamedTuple):
    message: dict[str, Any]
    seconds: float
    size: int
    """Bytes of the frame."""

    def check(self) -> None:
        """Raise unless it is the answer of a call that worked."""
        _ = self.result

    @property
    def result(self) -> dict[str, Any]:
        if "result" not in self.message:
            raise DeadError(f"an error instead of an answer: {self.message.get('error')}")
        result: dict[str, Any] = self.message["result"]
        if result.get("isError"):
            raise DeadError(f"the tool failed: {result['content'][0]['text'][:300]}")
        return result


class Resident(NamedTuple):
    """KiB of memory that the process holds: all it maps, and its share of it."""

    rss: int
    pss: int | None


class Process:
    """A launched contestant, from before its launch until it is gone."""

    def __init__(self, words: Sequence[str], env: Mapping[str, str], cwd: str, log: str) -> None:
        self._next = 0
        self._parts: list[bytes] = []
        self._lines: list[tuple[bytes, float]] = []
        with open(log, "ab") as errors:
            self.launched = time.perf_counter()
            self._process = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, env=dict(env), cwd=cwd, bufsize=0
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._out, select.POLLIN)

    def send(self, method: str, params: Mapping[str, Any] | None = None, *, notify: bool = False) -> int:
        """Write a request and return its id, without waiting."""
        self._next += 1
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params or {}}
        if not notify:
            message["id"] = self._next
        data = memoryview(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        try:
            while data:
                data = data[os.write(self._in, data) :]
        except OSError as error:
            raise DeadError(f"it closed its pipe: {error.strerror}") from error
        return self._next

    def receive(self) -> tuple[dict[str, Any], float, int]:
        """The next answer, whosever it is: the message, the moment its last byte was read, its size."""
        while True:
            while not self._lines:
                self._read()
            line, moment = self._lines.pop(0)
            message = json.loads(line)
            if "id" in message and "method" not in message:
                return message, moment, len(line)

    def call(self, method: str, params: Mapping[str, Any] | None = None) -> Answer:
        """One request, and the wait for its answer."""
        start = time.perf_counter()
        number = self.send(method, params)
        while True:
            message, moment, size = self.receive()
            if message["id"] == number:
                inside = message.get("result", {}).get("seconds")
                return Answer(message, moment - start if inside is None else inside, size)

    def tool(self, name: str, arguments: Mapping[str, Any], run: str | None = None) -> Answer:
        params: dict[str, Any] = {"name": name, "arguments": arguments}
        if run is not None:
            params["_meta"] = {"memory-sidecar/run": run}
        return self.call("tools/call", params)

    def handshake(self, capabilities: Mapping[str, Any]) -> tuple[float, list[dict[str, Any]]]:
        """As every MCP client does it. Returns the seconds from the launch to the list of tools, and the list."""
        self.call(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": capabilities,
                "clientInfo": {"name": "bench", "version": "0"},
            },
        ).check()
        self.send("notifications/initialized", notify=True)
        start = time.perf_counter()
        answer = self.call("tools/list")
        return start + answer.seconds - self.launched, answer.result["tools"]

    def resident(self) -> Resident:
        values = {}
        for name in ("status", "smaps_rollup"):
            with suppress(OSError), open(f"/proc/{self._process.pid}/{name}") as file:
                for line in file:
                    label, _, rest = line.partition(":")
                    if label in ("VmRSS", "Pss"):
                        values[label] = int(rest.split()[0])
        return Resident(values.get("VmRSS", 0), values.get("Pss"))

    def wait(self) -> float:
        """Wait for an end that comes by itself; seconds since the launch."""
        self._process.wait(_PATIENCE)
        return time.perf_counter() - self.launched

    def close(self) -> None:
        """Close its stdin and wait; a contestant that stays is killed."""
        with suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _read(self) -> None:
        if not self._poll.poll(_PATIENCE * 1000):
            raise DeadError(f"no answer within {_PATIENCE:.0f} s")
        data = os.read(self._out, _CHUNK)
        moment = time.perf_counter()
        if not data:
            raise DeadError("it closed its pipe; see its log")
        first, *more = data.split(b"\n")
        self._parts.append(first)
        for part in more:
            line = b"".join(self._parts)
            self._parts = [part]
            if line.strip():
                self._lines.append((line, moment))

"""The implementation in Go as another writer: its own stores, in a program of its own, behind `turns.Other`."""

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["Reference"]


class Reference:
    """One process with one open store. `options` are those of its backend."""

    def __init__(self, program: Path, backend: str, options: dict[str, Any], url: str = "") -> None:
        self._guarded = backend == "jetstream"
        self._process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._ask("open", backend=backend, options=options, url=url)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def write(self, key: str, description: str, content: str, *, overwrite: bool) -> bool:
        note = {"key": key, "description": description, "content": content}
        if overwrite and self._guarded and self.read(key) is None:
            return self._ask("write", **note)["done"] is True  # with its guard it replaces only what it has read
        return self._ask("write", **note, overwrite=overwrite)["done"] is True

    def delete(self, key: str) -> bool:
        return self._ask("delete", key=key)["done"] is True

    def read(self, key: str) -> tuple[str, str] | None:
        found = self._ask("read", key=key)
        return (found["description"], found["content"]) if found["done"] else None

    def list(self) -> dict[str, str]:
        return {item["Key"]: item["Description"] for item in self._ask("list")["items"] or []}

    def _ask(self, call: str, **arguments: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"call": call, **arguments}).encode() + b"\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert answer.get("error") in (None, "exists", "absent", "stale"), answer["error"]
        return answer

"""Memory that is a library and not a server, in a process of its own so that its launch and size can be measured.

Speaks as much JSON-RPC as the driver needs. Each call is timed in here, around the library's own function, so a
library is charged neither for a pipe nor for JSON: its numbers are lower bounds. Which library: the first argument.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
import time
import uuid
from abc import ABC, abstractmethod
from typing import Any


class Library(ABC):
    """The operations of the benchmark, in one library's terms."""

    @abstractmethod
    async def open(self, directory: str) -> None: ...

    @abstractmethod
    async def create(self, key: str, description: str, content: str) -> None: ...

    @abstractmethod
    async def overwrite(self, key: str, description: str, content: str) -> None: ...

    @abstractmethod
    async def read(self, key: str) -> str | None: ...

    @abstractmethod
    async def delete(self, key: str) -> None: ...

    @abstractmethod
    async def keys(self) -> list[str]: ...

    async def index(self) -> None:
        """What the library puts into the prompt when a run starts."""
        raise NotImplementedError

    @abstractmethod
    async def append(self, key: str, line: str) -> bool:
        """Read, add a line, write, with whatever protection the library has. Whether it said yes."""

    async def tools(self) -> list[dict[str, Any]]:
        return []

    async def close(self) -> None:
        """The end. Most need none."""
        return


class PydanticFile(Library):
    """pydantic-ai-harness: the store of its `Memory` capability, with the receipts its tools always ask for.

    A description has no place of its own there; it becomes the first line. The tool's own read before each write is
    left out.
    """

    _LIMIT = 2000

    async def open(self, directory: str) -> None:
        from pydantic_ai.workspaces import LocalWorkspaceBackend
        from pydantic_ai_harness.memory import FileStore

        self.store: Any = FileStore(".", workspace=LocalWorkspaceBackend(directory))

    def _path(self, key: str) -> str:
        return f"agent/{key}.md"

    async def _write(self, key: str, text: str, version: str | None) -> None:
        from pydantic_ai_harness.memory import MemoryOperation

        operation = MemoryOperation(uuid.uuid4().hex, hashlib.sha256(text.encode()).hexdigest())
        await self.store.write(self._path(key), text, expected_version=version, operation=operation)

    async def create(self, key: str, description: str, content: str) -> None:
        await self._write(key, f"{description}\n\n{content}", None)

    async def overwrite(self, key: str, description: str, content: str) -> None:
        found = await self.store.read(self._path(key), max_chars=1 << 20)
        await self._write(key, f"{description}\n\n{content}", found.version if found else None)

    async def read(self, key: str) -> str | None:
        found = await self.store.read(self._path(key), max_chars=1 << 20)
        return found.content if found else None

    async def delete(self, key: str) -> None:
        found = await self.store.read(self._path(key), max_chars=1)
        if found is not None:
            await self.store.delete(self._path(key), expected_version=found.version)

    async def keys(self) -> list[str]:
        paths: list[str] = await self.store.list_paths("agent/", limit=self._LIMIT)
        return [path.removeprefix("agent/").removesuffix(".md") for path in paths]

    async def index(self) -> None:
        await self.store.read("agent/MEMORY.md", max_chars=65_536)
        await self.store.list_paths("agent/", limit=self._LIMIT)

    async def append(self, key: str, line: str) -> bool:
        from pydantic_ai_harness.memory import MemoryConflictError

        for _ in range(200):
            found = await self.store.read(self._path(key), max_chars=1 << 20)
            try:
                await self._write(key, (found.content if found else "") + line, found.version if found else None)
            except MemoryConflictError:
                continue
            return True
        return False

    async def tools(self) -> list[dict[str, Any]]:
        from pydantic_ai import Agent
        from pydantic_ai.models.test import TestModel
        from pydantic_ai_harness import Memory

        model = TestModel(call_tools=[])
        agent: Any = Agent(model, capabilities=[Memory(store=self.store)])
        await agent.run("hello")
        asked = model.last_model_request_parameters
        return [
            {"name": tool.name, "description": tool.description, "inputSchema": tool.parameters_json_schema}
            for tool in (asked.function_tools if asked else [])
        ]


class PydanticSqlite(PydanticFile):
    """The same capability's store on SQLite, which it names for more than one writer."""

    async def open(self, directory: str) -> None:
        from pydantic_ai_harness.memory import SqliteMemoryStore

        self.store = SqliteMemoryStore(database=os.path.join(directory, "memory.db"))


class LangGraph(Library):
    """LangGraph's durable store, on SQLite as it sets it up. It has no compare-and-swap and no index."""

    async def open(self, directory: str) -> None:
        from langgraph.store.sqlite import SqliteStore

        self._context = SqliteStore.from_conn_string(os.path.join(directory, "store.db"))
        self.store = self._context.__enter__()
        self.store.setup()

    async def create(self, key: str, description: str, content: str) -> None:
        self.store.put(("agent",), key, {"description": description, "content": content})

    overwrite = create

    async def read(self, key: str) -> str | None:
        found = self.store.get(("agent",), key)
        return found.value["content"] if found else None

    async def delete(self, key: str) -> None:
        self.store.delete(("agent",), key)

    async def keys(self) -> list[str]:
        return [item.key for item in self.store.search(("agent",), limit=2000)]

    async def append(self, key: str, line: str) -> bool:
        found = self.store.get(("agent",), key)
        self.store.put(
            ("agent",), key, {"description": "d", "content": (found.value["content"] if found else "") + line}
        )
        return True

    async def close(self) -> None:
        self._context.__exit__(None, None, None)


LIBRARIES = {"pydantic-file": PydanticFile, "pydantic-sqlite": PydanticSqlite, "langgraph": LangGraph}


async def burst(library: Library, arguments: dict[str, Any]) -> dict[str, Any]:
    """Many calls, `lanes` of them at a time: how many, in how many seconds; which were acknowledged."""
    jobs = iter(arguments["keys"])
    done: list[str] = []
    failed = 0

    async def lane() -> None:
        nonlocal failed
        for key in jobs:
            try:
                if arguments["op"] == "read":
                    await library.read(key)
                elif arguments["op"] == "append":
                    if not await library.append("shared", f"{key}\n"):
                        continue
                else:
                    await library.create(key, "A note of the race", arguments["content"])
            except Exception:  # noqa: BLE001 - whatever it is, the write was not acknowledged
                failed += 1
            else:
                done.append(key)

    start = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(arguments["lanes"])))
    return {"seconds": time.perf_counter() - start, "done": done, "failed": failed}


async def answer(library: Library, method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "tools/list":
        return {"tools": []}
    if method == "prompt":
        return {"tools": await library.tools()}
    if method == "seed":
        for note in params["notes"]:
            await library.create(*note)
    if method != "tools/call":
        return {}
    name, arguments = params["name"], params["arguments"]
    if name == "burst":
        return await burst(library, arguments)
    operation = getattr(library, name)
    start = time.perf_counter()
    value = await operation(**arguments)
    return {"seconds": time.perf_counter() - start, "value": value}


async def main() -> None:
    library = LIBRARIES[sys.argv[1]]()
    await library.open(sys.argv[2])
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" not in request:
            continue
        reply: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
        try:
            reply["result"] = await answer(library, request["method"], request.get("params", {}))
        except Exception as error:  # noqa: BLE001 - told to the driver
            reply["error"] = {"code": -32603, "message": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()
    await library.close()


if __name__ == "__main__":
    asyncio.run(main())

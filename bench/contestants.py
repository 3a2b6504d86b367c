"""Who is measured, each in its own terms: how it is launched, what a stored note looks like, which call does what.

Where a peer has no such operation its method says so with `None`, and the table shows a dash. What a peer does less
(no flush to disk, no guard, no index) is written beside it: a ratio is read with that.
"""

import base64
import json
import os
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, ClassVar, NamedTuple

from memory_sidecar.harness.command import command_line

from .driver import Process

__all__ = ["Call", "Contestant", "Note", "Session", "all_contestants", "is_line"]

HERE = os.path.dirname(os.path.abspath(__file__))
PEERS = os.path.join(HERE, "peers")
EXTENSION = "memory-sidecar/harness"


class Note(NamedTuple):
    key: str
    description: str
    content: str


class Call(NamedTuple):
    """One tool call."""

    tool: str
    arguments: Mapping[str, Any]


Calls = Sequence[Call] | None
"""What one operation takes; None where the peer has no such operation."""


class Session:
    """A launched contestant that is ready."""

    def __init__(self, who: "Contestant", process: Process, capabilities: Mapping[str, Any]) -> None:
        self.process = process
        self.who = who
        self.ready, self.tools = process.handshake(capabilities)
        self._runs = 0

    def do(self, calls: Sequence[Call], run: str | None = None) -> float:
        """Make the calls one after the other; the seconds they took together."""
        seconds = 0.0
        for call in calls:
            answer = self.process.tool(call.tool, call.arguments, run)
            problem = self.who.refused(call, answer.result)
            if problem:
                raise RuntimeError(f"{self.who.name}: {call.tool} was refused: {problem}")
            seconds += answer.seconds
        return seconds

    def index(self) -> float | None:
        """The text a run starts with, built anew; None where the peer has none."""
        calls = self.who.index()
        return None if calls is None else self.do(calls)

    def lanes(self, count: int) -> list[str | None]:
        """What makes `count` calls independent of each other."""
        return [None] * count

    def leave(self, lanes: Sequence[str | None]) -> None:
        """The lanes are not needed any more."""


class Contestant:
    """How to seed, launch and use one of them."""

    name: ClassVar[str]
    label: ClassVar[str]
    remark: ClassVar[str] = ""
    library: ClassVar[bool] = False

    def why_not(self) -> str | None:
        """Why it cannot take part here; None if it can."""
        return None

    def seed(self, directory: str, notes: Sequence[Note]) -> None:
        """Store the notes in the fresh `directory`, in the form the contestant itself uses."""
        raise NotImplementedError

    def words(self, directory: str) -> list[str]:
        raise NotImplementedError

    def environment(self, directory: str) -> dict[str, str]:  # noqa: ARG002
        return dict(os.environ)

    @contextmanager
    def launch(self, directory: str) -> Iterator[Session]:
        """One process on what `directory` holds."""
        with self.served(directory), self.attach(directory) as session:
            yield session

    @contextmanager
    def launch_two(self, directory: str) -> Iterator[list[Session]]:
        """Two processes on the same."""
        with self.served(directory), self.attach(directory) as one, self.attach(directory) as two:
            yield [one, two]

    @contextmanager
    def served(self, directory: str) -> Iterator[None]:  # noqa: ARG002
        """What must run before a process can start."""
        yield

    @contextmanager
    def attach(self, directory: str) -> Iterator[Session]:
        log = os.path.join(directory, "..", f"{self.name}.log")
        with Process(self.words(directory), self.environment(directory), directory, log) as process:
            yield Session(self, process, {})

    def refused(self, call: Call, result: Mapping[str, Any]) -> str | None:  # noqa: ARG002
        """What a tool's ordinary answer says against the call having worked."""
        return None

    def create(self, note: Note) -> Calls:
        raise NotImplementedError

    def overwrite(self, note: Note) -> Calls:
        raise NotImplementedError

    def read(self, key: str) -> Calls:
        raise NotImplementedError

    def delete(self, key: str) -> Calls:
        raise NotImplementedError

    def list(self) -> Calls:
        raise NotImplementedError

    def index(self) -> Calls:
        return None

    def append(self, session: Session, key: str, line: str) -> bool:
        """For the race on one note: read it, add a line, write it, with what protection there is."""
        raise NotImplementedError

    def stored(self, session: Session, keys: Sequence[str]) -> int:
        """How many of the keys a fresh session finds."""
        raise NotImplementedError

    def lines(self, session: Session, key: str) -> int:
        """How many lines the note has."""
        raise NotImplementedError


# --- ours ---------------------------------------------------------------------------------------------------------


class SidecarSession(Session):
    def index(self) -> float | None:
        self._runs += 1
        run = f"index-{self._runs}-{os.urandom(4).hex()}"
        answer = self.process.call("memory-sidecar/run/open", {"run": run})
        assert answer.result["instructions"]
        self.leave([run])
        return answer.seconds

    def lanes(self, count: int) -> list[str | None]:
        runs = [f"lane-{number}-{os.urandom(4).hex()}" for number in range(count)]
        for run in runs:
            self.process.call("memory-sidecar/run/open", {"run": run}).check()
        return list(runs)

    def leave(self, lanes: Sequence[str | None]) -> None:
        for run in lanes:
            self.process.call("memory-sidecar/run/finish", {"run": run, "reason": "completed"}).check()


class FourTools(Contestant):
    """The calls of `memory_list`, `memory_read`, `memory_write` and `memory_delete`."""

    def create(self, note: Note) -> Calls:
        return [Call("memory_write", note._asdict())]

    def overwrite(self, note: Note) -> Calls:
        return [Call("memory_write", {**note._asdict(), "overwrite": True})]

    def read(self, key: str) -> Calls:
        return [Call("memory_read", {"key": key})]

    def delete(self, key: str) -> Calls:
        return [Call("memory_delete", {"key": key})]

    def list(self) -> Calls:
        return [Call("memory_list", {})]

    def refused(self, call: Call, result: Mapping[str, Any]) -> str | None:  # noqa: ARG002
        answer = _structured(result)
        no = [word for word in ("found", "written", "deleted") if answer.get(word) is False]
        return f"{no[0]}: false, {answer.get('code') or answer.get('reason')}" if no else None

    def append(self, session: Session, key: str, line: str) -> bool:
        for _ in range(400):
            found = _structured(session.process.tool("memory_read", {"key": key}).result)
            arguments = {"key": key, "description": "A shared log", "content": found.get("content", "") + line}
            if found["found"]:
                arguments["overwrite"] = True
            answer = session.process.tool("memory_write", arguments)
            if _structured(answer.result).get("written"):
                return True
        return False

    def stored(self, session: Session, keys: Sequence[str]) -> int:
        listed = _structured(session.process.tool("memory_list", {}).result)["memories"]
        return len({memory["key"] for memory in listed} & set(keys))

    def lines(self, session: Session, key: str) -> int:
        content: str = _structured(session.process.tool("memory_read", {"key": key}).result)["content"]
        return sum(map(is_line, content.split("\n")))


class SidecarOnFiles(FourTools):
    name = "sidecar"
    label = "memory-sidecar, files"
    remark = "flushes the note and its directory to disk before it answers; journals what a run has seen"

    guard: ClassVar[bool] = False
    """Overwrites must follow a read: on in the races, off for speed, as it is by default."""

    def seed(self, directory: str, notes: Sequence[Note]) -> None:
        memory = os.path.join(directory, "memory", "bench")
        os.makedirs(memory, mode=0o700)
        for note in notes:
            with open(os.path.join(memory, f"{note.key}.md"), "w", encoding="utf-8") as file:
                file.write(f"---\ndescription: {note.description}\n---\n\n{note.content}")

    def words(self, directory: str) -> list[str]:
        return command_line(None, {"store_dir": directory}) + self.options(directory)

    def options(self, directory: str) -> list[str]:
        if not self.guard:
            return ["--identity", "bench"]
        return _config(directory, {"enabled": True, "options": {"require_read_before_update": True}})

    @contextmanager
    def attach(self, directory: str) -> Iterator[Session]:
        token = base64.urlsafe_b64encode(os.urandom(32)).rstrip(b"=")
        descriptor, path = tempfile.mkstemp(prefix="bench-", suffix=".ticket")
        os.write(descriptor, token)
        os.close(descriptor)
        environment = {**self.environment(directory), "MEMORY_SIDECAR_TICKET": path}
        log = os.path.join(directory, "..", f"{self.name}.log")
        with Process(self.words(directory), environment, directory, log) as process:
            yield SidecarSession(self, process, {"extensions": {EXTENSION: {"ticket": token.decode()}}})

    def index(self) -> Calls:
        return []


class GuardedFiles(SidecarOnFiles):
    name = "sidecar-guard"
    label = "memory-sidecar, files, guard on"
    guard = True


class SidecarOnJetStream(SidecarOnFiles):
    name = "sidecar-jetstream"
    label = "memory-sidecar, JetStream"
    remark = "nats-server on loopback, one node; the broker's default flushes the disk every two minutes"

    def why_not(self) -> str | None:
        for module in ("memory_sidecar.backend.jetstream.bucket", "nats"):
            if find_spec(module) is None:
                return f"{module} is not installed"
        return None if _nats_server() else "nats-server is not installed"

    def environment(self, directory: str) -> dict[str, str]:
        return {**os.environ, "XDG_CONFIG_HOME": os.path.join(directory, "config")}

    def options(self, directory: str) -> list[str]:
        memory = {"enabled": True, "backend": "jetstream", "options": {"bucket": "bench", "prefix": "bench"}}
        return _config(directory, memory, nats_context="bench")

    @contextmanager
    def served(self, directory: str) -> Iterator[None]:
        from .broker import serving

        with serving(_nats_server() or "", directory, "bench"):
            yield

    def seed(self, directory: str, notes: Sequence[Note]) -> None:
        from .broker import make_bucket, serving

        with serving(_nats_server() or "", directory, "bench") as url:
            make_bucket(url, "bench", {f"bench.{note.key}": (_document(note), _headers(note)) for note in notes})


class ServerMemory(Contestant):
    name = "server-memory"
    label = "server-memory (npm)"
    remark = "no flush to disk; overwrite is delete and create; list is read_graph, which returns all contents"

    _module = os.path.join(PEERS, "node_modules", "@modelcontextprotocol", "server-memory", "dist", "index.js")

    def why_not(self) -> str | None:
        if shutil.which("node") is None:
            return "node is not installed"
        return None if os.path.exists(self._module) else "npm could not install it (npm ci in bench/peers)"

    def seed(self, directory: str, notes: Sequence[Note]) -> None:
        with open(os.path.join(directory, "memory.jsonl"), "w", encoding="utf-8") as file:
            file.write("\n".join(json.dumps({"type": "entity", **self._entity(note)}) for note in notes))

    def words(self, directory: str) -> list[str]:  # noqa: ARG002
        return [shutil.which("node") or "node", self._module]

    def environment(self, directory: str) -> dict[str, str]:
        return {**os.environ, "MEMORY_FILE_PATH": os.path.join(directory, "memory.jsonl")}

    @staticmethod
    def _entity(note: Note) -> dict[str, Any]:
        return {"name": note.key, "entityType": note.description, "observations": [note.content]}

    def create(self, note: Note) -> Calls:
        return [Call("create_entities", {"entities": [self._entity(note)]})]

    def overwrite(self, note: Note) -> Calls:
        return [*(self.delete(note.key) or ()), *(self.create(note) or ())]

    def read(self, key: str) -> Calls:
        return [Call("open_nodes", {"names": [key]})]

    def delete(self, key: str) -> Calls:
        return [Call("delete_entities", {"entityNames": [key]})]

    def list(self) -> Calls:
        return [Call("read_graph", {})]

    def refused(self, call: Call, result: Mapping[str, Any]) -> str | None:
        nothing = call.tool in ("create_entities", "open_nodes") and not result["structuredContent"]["entities"]
        return "nothing was found or made" if nothing else None

    def append(self, session: Session, key: str, line: str) -> bool:
        change = {"entityName": key, "contents": [line]}
        session.process.tool("add_observations", {"observations": [change]}).check()
        return True

    def stored(self, session: Session, keys: Sequence[str]) -> int:
        graph = session.process.tool("read_graph", {}).result["structuredContent"]
        return len({entity["name"] for entity in graph["entities"]} & set(keys))

    def lines(self, session: Session, key: str) -> int:
        found = session.process.tool("open_nodes", {"names": [key]}).result["structuredContent"]["entities"]
        return sum(map(is_line, found[0]["observations"])) if found else 0


class SdkServer(FourTools):
    name = "mcp-sdk"
    label = "same tools on the mcp SDK"
    remark = "one file a key, renamed into place; no flush to disk, no guard, no index, no limits"

    def why_not(self) -> str | None:
        return _missing("mcp")

    def seed(self, directory: str, notes: Sequence[Note]) -> None:
        os.makedirs(os.path.join(directory, "notes"))
        for note in notes:
            with open(os.path.join(directory, "notes", f"{note.key}.md"), "w", encoding="utf-8") as file:
                file.write(f"{note.description}\n{note.content}")

    def words(self, directory: str) -> list[str]:
        return [sys.executable, os.path.join(PEERS, "mcp_server.py"), os.path.join(directory, "notes")]


class LibraryPeer(Contestant):
    """A library in a process of its own (`peers/library.py`)."""

    library = True
    _module: ClassVar[str]
    _has_index: ClassVar[bool] = False

    def why_not(self) -> str | None:
        return _missing(self._module)

    def words(self, directory: str) -> list[str]:
        return [sys.executable, os.path.join(PEERS, "library.py"), self.name, directory]

    def seed(self, directory: str, notes: Sequence[Note]) -> None:
        with self.launch(directory) as session:
            for start in range(0, len(notes), 64):
                session.process.call("seed", {"notes": notes[start : start + 64]}).check()

    def create(self, note: Note) -> Calls:
        return [Call("create", note._asdict())]

    def overwrite(self, note: Note) -> Calls:
        return [Call("overwrite", note._asdict())]

    def read(self, key: str) -> Calls:
        return [Call("read", {"key": key})]

    def delete(self, key: str) -> Calls:
        return [Call("delete", {"key": key})]

    def list(self) -> Calls:
        return [Call("keys", {})]

    def index(self) -> Calls:
        return [Call("index", {})] if self._has_index else None

    def append(self, session: Session, key: str, line: str) -> bool:
        return bool(session.process.tool("append", {"key": key, "line": line}).result["value"])

    def stored(self, session: Session, keys: Sequence[str]) -> int:
        return len(set(session.process.tool("keys", {}).result["value"]) & set(keys))

    def lines(self, session: Session, key: str) -> int:
        content: str = session.process.tool("read", {"key": key}).result["value"]
        return sum(map(is_line, content.split("\n")))


class PydanticFile(LibraryPeer):
    name = "pydantic-file"
    label = "pydantic-ai FileStore"
    remark = "in process, no pipe charged; one mv process a write, no flush to disk; lists names, not descriptions"
    _module = "pydantic_ai_harness"
    _has_index = True

    def seed(self, directory: str, notes: Sequence[Note]) -> None:
        os.makedirs(os.path.join(directory, "agent"))
        for note in notes:
            with open(os.path.join(directory, "agent", f"{note.key}.md"), "w", encoding="utf-8") as file:
                file.write(f"{note.description}\n\n{note.content}")


class PydanticSqlite(LibraryPeer):
    name = "pydantic-sqlite"
    label = "pydantic-ai SqliteMemoryStore"
    remark = "in process, no pipe charged; lists names, not descriptions"
    _module = "pydantic_ai_harness"
    _has_index = True


class LangGraph(LibraryPeer):
    name = "langgraph"
    label = "LangGraph SqliteStore"
    remark = "in process, no pipe charged; the durable one of its stores; list is search, which returns all contents"
    _module = "langgraph.store.sqlite"


class Floor(Contestant):
    name = "floor"
    label = "floor: Python, pipe, disk"
    remark = "bare interpreter that echoes lines; create and overwrite write, flush, rename and flush the directory"

    def seed(self, directory: str, notes: Sequence[Note]) -> None:
        """It keeps nothing."""

    def words(self, directory: str) -> list[str]:
        return [sys.executable, "-I", os.path.join(PEERS, "floor.py"), directory]

    def create(self, note: Note) -> Calls:
        return [Call("create", note._asdict())]

    def overwrite(self, note: Note) -> Calls:
        return [Call("overwrite", note._asdict())]

    def read(self, key: str) -> Calls:
        return [Call("read", {"key": key})]

    def delete(self, key: str) -> Calls:  # noqa: ARG002
        return None

    def list(self) -> Calls:
        return None


def is_line(text: str) -> bool:
    """Whether this is a line that a racer added, and not a part of the note's own form."""
    return text.strip().replace("-", "").isdigit()


def all_contestants() -> list[Contestant]:
    """Everyone whose speed is measured, ours first."""
    return [
        SidecarOnFiles(),
        SidecarOnJetStream(),
        ServerMemory(),
        SdkServer(),
        PydanticFile(),
        PydanticSqlite(),
        LangGraph(),
        Floor(),
    ]


def _document(note: Note) -> bytes:
    return f"---\ndescription: {note.description}\n---\n\n{note.content}".encode()


def _headers(note: Note) -> dict[str, str]:
    """What the backend stores beside a note."""
    return {"Memory-Write": base64.urlsafe_b64encode(os.urandom(16)).decode(), "Memory-Description": note.description}


def _config(directory: str, memory: Mapping[str, Any], **more: str) -> list[str]:
    path = os.path.join(directory, "memory.yaml")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"identity": "bench", "harness": {"memory": memory}, **more}, file)  # JSON is YAML
    return ["--config", path]


def _structured(result: Mapping[str, Any]) -> dict[str, Any]:
    found = result.get("structuredContent") or json.loads(result["content"][0]["text"])
    answer: dict[str, Any] = found.get("result", found)
    return answer


def _missing(module: str) -> str | None:
    try:
        found = find_spec(module)
    except ModuleNotFoundError:
        found = None
    return None if found else f"{module} is not installed"


def _nats_server() -> str | None:
    beside = os.path.join(sysconfig.get_path("scripts"), "nats-server")
    return beside if os.path.exists(beside) else shutil.which("nats-server")

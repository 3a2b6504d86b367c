"""One of several processes on one directory of notes. The first argument says what it does; see the functions.

Prints one JSON value at the end. Workers that race meet at a line in a shared file before every round.
"""

import errno
import json
import mmap
import os
import resource
import signal
import sys
from typing import TYPE_CHECKING, Any

from tests.support.processes import drop_privileges

if TYPE_CHECKING:
    from collections.abc import Callable

from memory_sidecar.backend.file import FileBackend, FileOptions, open_file
from memory_sidecar.store.authority import Store
from memory_sidecar.store.errors import StoreError
from memory_sidecar.store.scope import Scope
from memory_sidecar.system import files, staging
from memory_sidecar.tools.catalog import Catalog

LARGE = 60_000


class Line:
    """Where `count` workers wait for each other. Each spins, for waking up would take longer than a race lasts."""

    def __init__(self, path: str, me: int, count: int) -> None:
        with open(path, "r+b") as file:
            self._rounds = memoryview(mmap.mmap(file.fileno(), 4 * count)).cast("I")
        self._me = me

    def wait(self) -> None:
        mine = self._rounds[self._me] = self._rounds[self._me] + 1
        while min(self._rounds) < mine:
            os.sched_yield()


def _store(directory: str, *, guard: bool = False) -> Store:
    return open_file(FileOptions(directory, guard), "agent", None).store


def _call(tool: str, arguments: dict[str, Any], store: Store, scope: Scope) -> dict[str, Any]:
    outcome = Catalog(enabled=True, read_only=False).call(tool, arguments, store, scope)
    assert outcome.structured is not None, outcome.error
    result: dict[str, Any] = outcome.structured
    return result


def _without_hard_links() -> None:
    def refuse(*_arguments: Any, **_named: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    os.link = refuse


def create(directory: str, line: str, me: str, count: str, rounds: str, links: str) -> list[dict[str, Any]]:
    """Race to create one key a round; what `memory_write` said, and whether the note read back whole."""
    if links == "no":
        _without_hard_links()
    store = _store(directory)
    meeting = Line(line, int(me), int(count))
    said = []
    for number in range(int(rounds)):
        key = f"k{number}"
        meeting.wait()
        result = _call(
            "memory_write",
            {"key": key, "description": f"by {me}", "content": me * LARGE if number % 10 == 0 else me},
            store,
            Scope(),
        )
        content = _call("memory_read", {"key": key}, store, Scope())["content"]
        whole = content == content[0] * (LARGE if number % 10 == 0 else 1)
        said.append({**result, "winner": content[0], "whole": whole})
    return said


def count(directory: str, line: str, me: str, workers: str, times: str) -> int:
    """Add one to the number in the note `count`, so many times, by reading and overwriting; tells the retries."""
    store, scope, done, retries = _store(directory, guard=True), Scope(), 0, 0
    Line(line, int(me), int(workers)).wait()
    while done < int(times):
        number = int(_call("memory_read", {"key": "count"}, store, scope)["content"])
        write = {"key": "count", "description": "a number", "content": str(number + 1), "overwrite": True}
        result = _call("memory_write", write, store, scope)
        if result["written"]:
            done += 1
        else:
            assert result["code"] == "changed", result
            retries += 1
    return retries


def fill(directory: str, line: str, me: str, workers: str, times: str) -> dict[str, int]:
    """Create so many keys of one's own; how many fitted and how many met a full store."""
    store, results = _store(directory), {"created": 0, "full": 0}
    Line(line, int(me), int(workers)).wait()
    for number in range(int(times)):
        try:
            store.create(f"of-{me}-{number}", "words", "text")
            results["created"] += 1
        except StoreError as error:
            results[error.code] += 1
    return results


def stage(directory: str) -> str:
    """Stage a note, say so, and wait to be killed."""
    with files.open_directory(directory) as opened, staging.staged(opened, b"half done") as name:
        print(name, flush=True)
        sys.stdin.readline()
    return "ended"


def _attempts(store: Store, key: str) -> dict[str, str]:
    calls: dict[str, Callable[[], Any]] = {
        "list": store.list,
        "read": lambda: store.read(key),
        "create": lambda: store.create(key, "words", "text"),
        "update": lambda: store.update(key, "words", "text"),
        "delete": lambda: store.delete(key),
    }
    results = {}
    for name, call in calls.items():
        try:
            results[name] = repr(call())
        except StoreError as error:
            results[name] = f"{error.code}: {error}"
    return results


def forbidden(directory: str, key: str) -> dict[str, str]:
    """Try every method on a key, as a user whom file modes bind."""
    drop_privileges()
    return _attempts(_store(directory), key)


def forbidden_later(directory: str, key: str) -> dict[str, str]:
    """The same, on a directory that was closed to its user after the start."""
    store = _store(directory)
    os.chmod(directory, 0)
    drop_privileges()
    try:
        return _attempts(store, key)
    finally:
        os.chmod(directory, 0o700)


def too_long(directory: str, size: str) -> dict[str, str]:
    """Try to write where no file may grow beyond `size` bytes: the write comes back short, then fails."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size), int(size)))
    results = {}
    store = Store(FileBackend(directory))
    for name, write in (("create", store.create), ("update", store.update)):
        try:
            write("note" if name == "update" else "new", "words", "x" * 60_000)
            results[name] = "stored"
        except StoreError as error:
            results[name] = f"{error.code}: {error}"
    return results


WORK = {work.__name__: work for work in (create, count, fill, stage, forbidden, forbidden_later, too_long)}

if __name__ == "__main__":
    print(json.dumps(WORK[sys.argv[1]](*sys.argv[2:])))

"""A store of your own: notes in one SQLite database, served with everything else as it is.

    async with MemorySidecar.launch(command=[sys.executable, "sqlite_store.py"], config="memory.yaml") as memory: ...

    # memory.yaml
    harness: {memory: {enabled: true, backend: sqlite, options: {file: notes.db}}}

`memory_sidecar.testing` holds it to the contract. Each change is one transaction that has the write lock from its first
statement on, so what it looks at is what it changes.
"""

import os
import secrets
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple
from urllib.parse import quote

from memory_sidecar.own_store import BackendError, Fact, NotMadeError, OpenedStore, OwnStore, Place, fact, guarded, main
from memory_sidecar.store.contract import ABSENT, ANYTHING, Expected, Info, Item, Stored
from memory_sidecar.store.document import UNREADABLE, parse_description
from memory_sidecar.store.errors import ConflictError, OutcomeUnknownError, UnavailableError, UnreadableError
from memory_sidecar.store.rules import check_capacity

_SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE IF NOT EXISTS notes (key TEXT PRIMARY KEY, revision TEXT NOT NULL, document BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS store (id TEXT NOT NULL);
"""


class SqliteOptions(NamedTuple):
    """`harness.memory.options`."""

    file: str
    """The database; made if it is not there."""
    require_read_before_update: bool = True
    """Refuse an overwrite of what this run has not read, or what has changed since."""


class SqliteBackend:
    """A `Backend` over one database file. Any number of processes may share it."""

    def __init__(self, path: str) -> None:
        self._path = path
        with closing(sqlite3.connect(path)) as database:
            database.executescript(_SCHEMA)
            # Two processes that make it at once agree on one id.
            made = "INSERT INTO store SELECT ? WHERE NOT EXISTS (SELECT 1 FROM store)"
            database.execute(made, (secrets.token_hex(16),))
            database.commit()
            self.id: str = database.execute("SELECT id FROM store").fetchone()[0]

    def info(self) -> Info:
        return Info("sqlite", "")

    def list(self) -> list[Item]:
        with self._transaction() as database:
            rows = database.execute("SELECT key, document FROM notes").fetchall()
        return sorted(Item(key, _described(document)) for key, document in rows)

    def get(self, key: str, *, after: str | None = None) -> Stored | None:  # noqa: ARG002 - nothing lags here
        with self._transaction() as database:
            row = database.execute("SELECT revision, document FROM notes WHERE key = ?", (key,)).fetchone()
        return None if row is None else Stored(*row)

    def put(self, key: str, document: bytes, expected: Expected) -> str:
        revision = secrets.token_hex(16)
        with self._transaction(change=revision) as database:
            if _found(database, key, expected) is None:
                check_capacity(database.execute("SELECT count(*) FROM notes").fetchone()[0])
            database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", (key, revision, document))
        return revision

    def remove(self, key: str, expected: Expected) -> str | None:
        with self._transaction(change="") as database:
            row = database.execute("SELECT revision FROM notes WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            revision = _found(database, key, expected)
            database.execute("DELETE FROM notes WHERE key = ?", (key,))
        return revision

    @contextmanager
    def _transaction(self, change: str | None = None) -> Iterator[sqlite3.Connection]:
        """One transaction on a connection of its own. A `change` may be stored although its commit failed."""
        committing = False
        try:
            # In a URI some characters that a path may have mean something else.
            place = f"file:{quote(self._path)}?mode=rw"
            with closing(sqlite3.connect(place, uri=True, timeout=5, isolation_level=None)) as own:
                own.execute("PRAGMA synchronous = FULL")  # what is acknowledged survives a power cut
                own.execute("BEGIN" if change is None else "BEGIN IMMEDIATE")
                yield own
                committing = change is not None
                own.execute("COMMIT")
        except sqlite3.Error as error:
            if committing:
                raise OutcomeUnknownError(change or None) from error
            raise UnavailableError("The memory store cannot be used now. Nothing was changed; try again.") from error


def _found(database: sqlite3.Connection, key: str, expected: Expected) -> str | None:
    """The key's revision, which is what was expected."""
    row = database.execute("SELECT revision FROM notes WHERE key = ?", (key,)).fetchone()
    revision: str | None = None if row is None else row[0]
    if expected not in (ANYTHING, ABSENT if revision is None else revision):
        raise ConflictError(absent=revision is None)
    return revision


def _described(document: bytes) -> str:
    try:
        return parse_description(document, len(document)) or ""
    except UnreadableError:
        return UNREADABLE


def open_sqlite(options: SqliteOptions, place: Place) -> OpenedStore:
    path = os.path.abspath(os.path.join(place.base or "", options.file))
    if not place.make and not (os.path.exists(path) and os.path.getsize(path)):
        # Where a start would make it, `doctor` and `info --check` find nothing wrong with that.
        can_be_made = os.access(os.path.dirname(path), os.W_OK | os.X_OK)
        raise (NotMadeError if can_be_made else BackendError)(
            f"there is no database {path}", "check harness.memory.options.file, or start its harness once"
        )
    try:
        backend = SqliteBackend(path)
    except sqlite3.Error as error:
        raise BackendError(f"the database cannot be used: {error}", "check harness.memory.options.file") from error
    # SQLite writes files of its own beside the database.
    return OpenedStore(backend, backend.id, options.require_read_before_update, (os.path.dirname(path),))


def describe_sqlite(options: SqliteOptions, place: Place) -> list[Fact]:
    path = os.path.abspath(os.path.join(place.base or "", options.file))
    return [fact("file", path), guarded(options.require_read_before_update)]


if __name__ == "__main__":
    sys.exit(main(OwnStore("sqlite", SqliteOptions, open_sqlite, describe_sqlite)))

"""The example of a store of one's own keeps the contract, and is as short as it says."""

import importlib.util
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from memory_sidecar.testing import BackendContract, BlindContract, GuardedContract, Subject

EXAMPLE = Path(__file__).parents[2] / "examples" / "sqlite_store.py"


def _load() -> Any:
    spec = importlib.util.spec_from_file_location("sqlite_store", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


example = _load()


class _Sqlite(Subject):
    name = "sqlite"

    def __init__(self, directory: Path) -> None:
        self._path = directory / "notes.db"
        self._gone = directory / "gone.db"

    def open(self) -> Any:
        return example.SqliteBackend(str(self._path))

    def unreachable(self) -> Any:
        backend = example.SqliteBackend(str(self._gone))
        self._gone.unlink()
        return backend

    def plant(self, key: str, document: bytes) -> None:
        self._plant([(key, document)])

    def fill(self, count: int) -> None:
        document = b"---\ndescription: one of many\n---\n\nsmall"
        self._plant([(f"fill-{number:04}", document) for number in range(count)])

    def stored(self) -> Mapping[str, bytes]:
        self.open()
        with closing(sqlite3.connect(self._path)) as database:
            return dict(database.execute("SELECT key, document FROM notes"))

    def _plant(self, rows: list[tuple[str, bytes]]) -> None:
        self.open()
        with closing(sqlite3.connect(self._path)) as database:
            change = "INSERT OR REPLACE INTO notes VALUES (?, lower(hex(randomblob(16))), ?)"
            database.executemany(change, rows)
            database.commit()


class _Provided:
    @pytest.fixture
    def subject(self, tmp_path: Path) -> Subject:
        return _Sqlite(tmp_path)


class TestBackend(_Provided, BackendContract): ...


class TestGuarded(_Provided, GuardedContract): ...


class TestBlind(_Provided, BlindContract): ...


def test_it_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 150

"""The file backend keeps the contract, with its guard and without."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from memory_sidecar.backend.file import FileBackend
from memory_sidecar.system import exchange
from memory_sidecar.testing import BackendContract, BlindContract, GuardedContract, Subject


class _Files(Subject):
    name = "file"

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def open(self) -> FileBackend:
        return self._open(self._directory / "notes")

    def unreachable(self) -> FileBackend:
        gone = self._directory / "gone"
        store = self._open(gone)
        gone.rmdir()
        return store

    def plant(self, key: str, document: bytes) -> None:
        # As an editor saves: a new file renamed over the old one.
        (self._directory / "edited").write_bytes(document)
        notes = self._directory / "notes"
        notes.mkdir(exist_ok=True)
        os.replace(self._directory / "edited", notes / f"{key}.md")

    def stored(self) -> Mapping[str, bytes]:
        return {path.name.removesuffix(".md"): path.read_bytes() for path in (self._directory / "notes").iterdir()}

    def _open(self, directory: Path) -> FileBackend:
        directory.mkdir(exist_ok=True)
        return FileBackend(str(directory))


class _Provided:
    @pytest.fixture
    def subject(self, tmp_path: Path) -> Subject:
        return _Files(tmp_path)


class TestBackend(_Provided, BackendContract): ...


class TestGuarded(_Provided, GuardedContract): ...


@pytest.mark.long
class TestGuardedWithoutExchange(_Provided, GuardedContract):
    """On a file system, or a kernel, that cannot let two names change places."""

    @pytest.fixture(autouse=True)
    def no_exchange(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(exchange, "kernel", lambda: None)


class TestBlind(_Provided, BlindContract): ...

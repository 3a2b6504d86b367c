"""The file backend keeps the contract, with its guard and without."""

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.contract.suite import BlindContract, GuardedContract, Subject

from memory_sidecar.backend.file import FileOptions, open_file
from memory_sidecar.store.store import Store


class _Files(Subject):
    backend = "file"

    def __init__(self, directory: Path, *, guard: bool) -> None:
        self._directory = directory
        self._guard = guard

    def open(self) -> Store:
        return self._open(self._directory / "notes")

    def unreachable(self) -> Store:
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

    def _open(self, directory: Path) -> Store:
        options = FileOptions(directory=str(directory), require_read_before_update=self._guard)
        return open_file(options, "agent", None).store


class TestGuarded(GuardedContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> Subject:
        return _Files(tmp_path, guard=True)


class TestBlind(BlindContract):
    @pytest.fixture
    def subject(self, tmp_path: Path) -> Subject:
        return _Files(tmp_path, guard=False)

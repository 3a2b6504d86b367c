"""The file backend keeps the contract, with its guard and without."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from tests.contract.suite import BlindContract, Call, GuardedContract, Subject

from memory_sidecar.backend.choose import run_to_end
from memory_sidecar.backend.file import FileOptions, open_file
from memory_sidecar.store.contract import Store
from memory_sidecar.store.errors import StoreError


class _Files(Subject):
    backend = "file"

    def __init__(self, directory: Path, *, guard: bool) -> None:
        self._directory = directory
        self._guard = guard

    async def open(self) -> Store:
        return self._open(self._directory / "notes")

    async def unreachable(self) -> Store:
        gone = self._directory / "gone"
        store = self._open(gone)
        gone.rmdir()
        return store

    async def plant(self, key: str, document: bytes) -> None:
        # As an editor saves: a new file renamed over the old one.
        (self._directory / "edited").write_bytes(document)
        notes = self._directory / "notes"
        notes.mkdir(exist_ok=True)
        os.replace(self._directory / "edited", notes / f"{key}.md")

    async def stored(self) -> Mapping[str, bytes]:
        return {path.name.removesuffix(".md"): path.read_bytes() for path in (self._directory / "notes").iterdir()}

    async def together(self, *calls: Call) -> list[Any]:
        # The methods block their thread, so tasks of one loop would run one after the other.
        results: list[Any] = [None] * len(calls)

        def make(number: int) -> None:
            try:
                results[number] = run_to_end(calls[number]())  # type: ignore[arg-type]
            except StoreError as error:
                results[number] = error

        async with anyio.create_task_group() as tasks:
            for number in range(len(calls)):
                tasks.start_soon(anyio.to_thread.run_sync, make, number)
        return results

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

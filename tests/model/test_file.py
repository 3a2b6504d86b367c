"""The model against the file backend, with and without the guard."""

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from memory_sidecar.backend.file import FileOptions, open_file
from memory_sidecar.store.authority import Store

from .machine import Machine, settle


class _Files(Machine):
    revisions_repeat = True

    def open_store(self, place: Path) -> Store:
        return open_file(FileOptions(require_read_before_update=self.guard), "model", str(place)).store


class _Guarded(_Files):
    guard = True


class _Unguarded(_Files):
    guard = False


TestGuarded = settle(_Guarded, examples=60, steps=50)
TestUnguarded = settle(_Unguarded, examples=25, steps=50)


@pytest.mark.long
class TestLong:
    def test_guarded(self) -> None:
        run_state_machine_as_test(_Guarded, settings=settings(max_examples=1200, stateful_step_count=50))

    def test_unguarded(self) -> None:
        run_state_machine_as_test(_Unguarded, settings=settings(max_examples=400, stateful_step_count=50))

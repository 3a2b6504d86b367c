"""The suite finds what it is for: each fault below is planted in the double, and the suite must fail on it.

The faulty doubles are run by a pytest of their own, as a backend's author would run theirs.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

HEAD = """
import time
import pytest
from memory_sidecar.store.contract import ABSENT, ANYTHING, Item
from memory_sidecar.store.document import parse
from memory_sidecar.store.errors import ConflictError, KeyNotFoundError, OutcomeUnknownError
from memory_sidecar.store.rules import check_capacity, validate_key
from memory_sidecar.store.authority import Store
from memory_sidecar.testing import BackendContract, BlindContract, GuardedContract, Subject
from tests.contract.test_memory_store import Memory
from memory_sidecar.testing.memory_store import MemoryBackend, _revision

SUITE = {suite}

{fault}

class _Faulty(Memory):
    kind = globals().get("Faulty", MemoryBackend)

class TestIt(SUITE):
    @pytest.fixture
    def subject(self):
        return _Faulty()

    def over(self, backend):
        return globals().get("FaultyStore", Store)(backend, guard=self.guard)
"""

FAULTS = {
    "capacity is checked outside the transaction": (
        "BackendContract",
        """
class Faulty(MemoryBackend):
    def put(self, key, document, expected):
        if key not in self.shelf.documents:
            check_capacity(len(self.shelf.documents))
            time.sleep(0.03)
        with self.shelf.lock:
            self._require(key, expected)
            self.shelf.documents[key] = document
        return _revision(document)
""",
    ),
    "a swap is two steps": (
        "BackendContract",
        """
class Faulty(MemoryBackend):
    def put(self, key, document, expected):
        with self.shelf.lock:
            self._require(key, expected)
        time.sleep(0.03)
        return super().put(key, document, ANYTHING)
""",
    ),
    "removing ignores what is expected": (
        "BackendContract",
        """
class Faulty(MemoryBackend):
    def remove(self, key, expected):
        return super().remove(key, ANYTHING)
""",
    ),
    "a listing is not sorted": (
        "BackendContract",
        """
class Faulty(MemoryBackend):
    def list(self):
        return super().list()[::-1]
""",
    ),
    "a listing leaves out what cannot be read": (
        "BackendContract",
        """
class Faulty(MemoryBackend):
    def list(self):
        return [item for item in super().list() if item.description != "(unreadable)"]
""",
    ),
    "a listing stops at a page": (
        "BackendContract",
        """
class Faulty(MemoryBackend):
    def list(self):
        return super().list()[:10]
""",
    ),
    "a put is acknowledged before it is visible": (
        "BackendContract",
        """
class Faulty(MemoryBackend):
    def put(self, key, document, expected):
        with self.shelf.lock:
            self._require(key, expected)
        self.late = (key, document, ANYTHING)
        return _revision(document)

    def get(self, key):
        found = super().get(key)
        if late := vars(self).pop("late", None):
            super().put(*late)
        return found
""",
    ),
    "a conflict does not tell that nothing is there": (
        "BackendContract",
        """
class Faulty(MemoryBackend):
    def put(self, key, document, expected):
        try:
            return super().put(key, document, expected)
        except ConflictError:
            raise ConflictError(absent=False) from None
""",
    ),
    "authority is kept after an unknown outcome": (
        "GuardedContract",
        """
class FaultyStore(Store):
    def _kept(self, method, key, *rest, scope=None, **named):
        held = None if scope is None else scope.revision(key)
        try:
            return getattr(super(), method)(key, *rest, scope=scope, **named)
        except OutcomeUnknownError as error:
            if held is not None:
                scope.grant(key, held, "read")
            raise

    def update(self, key, *rest, **named):
        return self._kept("update", key, *rest, **named)
""",
    ),
    "a read that fails grants authority": (
        "GuardedContract",
        """
class FaultyStore(Store):
    def read(self, key, *, scope=None):
        validate_key(key)
        stored = self.backend.get(key)
        if stored is not None and scope is not None:
            scope.grant(key, stored.revision, "read")
        return super().read(key, scope=scope)
""",
    ),
}


def run(program: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """A pytest of its own, without the plugins that are installed here: most of its time went to loading them."""
    words = [sys.executable, "-m", "pytest", *options, "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    return subprocess.run(
        [*words, "--rootdir", program.parent, program],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        timeout=200,
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_the_suite_finds_a_planted_fault(fault: str, tmp_path: Path) -> None:
    suite, code = FAULTS[fault]
    program = tmp_path / "test_faulty.py"
    program.write_text(HEAD.format(suite=suite, fault=code))
    done = run(program, "-x")
    assert "1 failed" in done.stdout, done.stdout + done.stderr
    assert "AssertionError" in done.stdout or "DID NOT RAISE" in done.stdout, done.stdout


def test_without_a_fault_it_passes(tmp_path: Path) -> None:
    program = tmp_path / "test_sound.py"
    program.write_text(HEAD.format(suite="BackendContract", fault=""))
    done = run(program)
    assert done.returncode == 0, done.stdout + done.stderr

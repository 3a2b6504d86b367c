"""A memory that is only read: the kernel keeps even code inside the sidecar from writing where its notes are."""

from pathlib import Path

import pytest
from tests.support.sidecar import RefusedError, Sidecar, configured, launched, patched

from memory_sidecar.system.lockdown import available

locks = pytest.mark.skipif(available().landlock_abi is None, reason="this kernel has no Landlock")

# As a hostile dependency would: long after the start, in the process that serves.
ATTEMPT = """
import atexit, os, sys

def attempt():
    for name in ("planted.md", "note.md"):
        path = os.path.join(os.environ["NOTES"], name)
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND))
            os.write(2, f"{name} opened for writing\\n".encode())
        except OSError as error:
            os.write(2, f"{name}: {error.strerror}\\n".encode())

atexit.register(attempt)
"""


@locks
@pytest.mark.parametrize(("read_only", "said"), [("false", "opened for writing"), ("true", "Permission denied")])
def test_the_kernel_lets_nothing_be_written_there(tmp_path: Path, read_only: str, said: str) -> None:
    notes = tmp_path / "memory" / "tester"
    notes.mkdir(parents=True, mode=0o700)
    (notes / "note.md").write_text("---\ndescription: d\n---\n\nbody")
    env = patched(tmp_path, ATTEMPT) | {"NOTES": str(notes)}
    with launched(tmp_path, *configured(tmp_path, f"read_only: {read_only}"), env=env) as sidecar:
        assert sidecar.read("note")["found"]
        assert sidecar.leave() == 0
        told = [line for line in sidecar.stderr.splitlines() if ".md" in line]
    assert len(told) == 2
    assert all(said in line for line in told), told


@pytest.mark.parametrize("journal", ["memory", "memory/tester", "memory/tester/runs", "linked"])
def test_journals_are_kept_apart_from_it(tmp_path: Path, journal: str) -> None:
    (tmp_path / "memory" / "tester").mkdir(parents=True)
    (tmp_path / "linked").symlink_to(tmp_path / "memory")
    for read_only in ("true", "false"):
        options = (*configured(tmp_path, f"read_only: {read_only}"), "--journal-dir", str(tmp_path / journal))
        with Sidecar(tmp_path, *options) as sidecar:
            refused = False
            try:
                sidecar.greet()
            except (EOFError, RefusedError):
                refused = True
            assert sidecar.leave() == (78 if refused else 0)
            assert refused == (read_only == "true")
            assert ("where memory is read_only; set --journal-dir" in sidecar.stderr) == refused

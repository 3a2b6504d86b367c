"""Independent processes for the tests: started with this one's import path, ended for sure."""

import ctypes
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["children", "drop_privileges", "python", "run_python"]

TIMEOUT = 110.0


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), "PYTHONWARNINGS": "error"}


@contextmanager
def python(module: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """`python -m module`, with pipes; killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=_environment(),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def run_python(module: str, commands: Sequence[Sequence[object]]) -> list[str]:
    """Run one process for each argument list, all at once, and return what each wrote to stdout."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", module, *map(str, arguments)], stdout=subprocess.PIPE, text=True, env=_environment()
        )
        for arguments in commands
    ]
    try:
        outputs = [process.communicate(timeout=TIMEOUT)[0] for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()
    assert [process.returncode for process in running] == [0] * len(running)
    return outputs


def children() -> set[str]:
    """The ids of all child processes of this one, zombies included."""
    words: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # a thread that ended meanwhile has handed its children on
            words.update((task / "children").read_text().split())
    return words


def drop_privileges() -> None:
    """Give up the capabilities that let a superuser ignore file modes, for what this process executes too.

    Nothing to do for anyone else.
    """
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.prctl(28, 1, 0, 0, 0) != 0:  # PR_SET_SECUREBITS, SECBIT_NOROOT: executing wins nothing back
            raise OSError(ctypes.get_errno(), "securebits")
        header = (ctypes.c_uint32 * 2)(0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this thread
        if libc.capset(header, (ctypes.c_uint32 * 6)()) != 0:
            raise OSError(ctypes.get_errno(), "capset")

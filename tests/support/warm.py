"""The program kept warm: a process that has loaded it, and forks once for each command line that it is asked for.

Each command still is a process of its own, with its own directory, environment, descriptors and exit; what it is
spared is the loading, which is most of what a short command costs. `python warm.py` is the process, `Warm` its user.
"""

import atexit
import gc
import importlib
import json
import os
import pkgutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile

_LOADED = ("argparse", "difflib", "json", "nats", "rich.console", "rich.progress", "rich.table", "yaml")


class Warm:
    """The user's side: like `subprocess.run` of `python -W error -P -m memory_sidecar`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )

    def run(self, words: Sequence[str], cwd: Path, stdin: bytes, env: Mapping[str, str]) -> tuple[int, bytes, bytes]:
        """The exit status, what it said on stdout, and on stderr."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with TemporaryFile() as source, TemporaryFile() as out, TemporaryFile() as err:
            source.write(stdin)
            source.seek(0)
            files = [f"/proc/{os.getpid()}/fd/{file.fileno()}" for file in (source, out, err)]
            request = json.dumps({"words": words, "cwd": str(cwd), "env": dict(env), "files": files})
            self._process.stdin.write(request.encode() + b"\n")
            status = int(self._process.stdout.readline())
            for file in (out, err):
                file.seek(0)
            return status, out.read(), err.read()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


def _load() -> None:
    import memory_sidecar

    for package in ("cli", "store", "backend", "run", "tools", "wire", "system", "observe"):
        found = importlib.import_module(f"{memory_sidecar.__name__}.{package}")
        for module in pkgutil.walk_packages(found.__path__, f"{found.__name__}."):
            importlib.import_module(module.name)
    for name in _LOADED:
        importlib.import_module(name)


def _serve() -> None:
    for line in sys.stdin.buffer:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(request)
            return
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _become(request: dict[str, object]) -> None:
    """In the fork: the program, as if it had been started so."""
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    for target, (path, flags) in enumerate(
        zip(request["files"], (os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_WRONLY | os.O_APPEND), strict=True)  # type: ignore[call-overload]
    ):
        opened = os.open(path, flags)
        os.dup2(opened, target)
        os.close(opened)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - they are the process's own
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False, errors="backslashreplace")  # noqa: SIM115
    sys.argv = ["memory-sidecar", *request["words"]]  # type: ignore[misc]
    from memory_sidecar.__main__ import main

    try:
        status = main()
    except SystemExit as left:
        status = int(left.code or 0)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(status)  # taking apart all that was loaded would cost more than most commands


if __name__ == "__main__":
    _load()
    gc.freeze()  # no collection in a fork looks at what it shares with the others
    _serve()

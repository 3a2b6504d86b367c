"""The program at a pseudo-terminal, as a person sees it."""

import fcntl
import os
import pty
import signal
import struct
import subprocess
import termios
from types import TracebackType

from .conftest import PROGRAM, environment


def _take_terminal() -> None:
    # A shell starts what it runs in the background with Ctrl-C ignored, and that is inherited.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Terminal:
    def __init__(self, *words: object, columns: int = 100) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self._process = subprocess.Popen(
            [*PROGRAM, *map(str, words)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(TERM="xterm-256color"),
            start_new_session=True,
            preexec_fn=_take_terminal,  # noqa: PLW1509 - the tests start no threads
        )
        os.close(theirs)
        self._seen = ""
        self.status: int | None = None

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._process.kill()
        self.status = self._process.wait()
        os.close(self._ours)

    def send(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def until(self, text: str) -> str:
        """What was shown up to and with `text`."""
        while text not in self._seen:
            data = self._read()
            assert data, f"{text!r} was never shown after: {self._seen!r}"
            self._seen += data
        shown, _, self._seen = self._seen.partition(text)
        return shown + text

    def until_waiting(self) -> None:
        """Return when the program waits for a key: Python's readline misses a Ctrl-C that comes while it echoes."""
        state = ""
        while state != "S":
            with open(f"/proc/{self._process.pid}/stat") as file:
                state = file.read().rpartition(")")[2].split()[0]

    def rest(self) -> str:
        while data := self._read():
            self._seen += data
        return self._seen

    def _read(self) -> str:
        try:
            return os.read(self._ours, 65536).decode(errors="replace")
        except OSError:  # Linux: the other end is closed
            return ""

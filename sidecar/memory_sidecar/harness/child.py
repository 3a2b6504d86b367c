"""The sidecar as a child process: its start, its pipes, its end. Knows nothing of what is said through the pipes.

A process that is forked from the harness has copies of the pipes and no thread that reads them. So a fork closes the
copies, or the sidecar would never see that its harness has left, and whatever is asked there is refused.
"""

import os
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from . import bounds
from .errors import StartError, remedy_of
from .ticket import launch_environment, new_ticket

__all__ = ["Child"]


class Child:
    """A started sidecar. Its descriptors are ours alone; `stdin` does not block.

    Raises:
        StartError: it cannot be started; the text is the remedy.
    """

    def __init__(self, words: Sequence[str], env: Mapping[str, str] | None, stderr: int | None, *, log: bool) -> None:
        self.forked = False
        """Whether this is a copy in a process that was forked from the one that launched the sidecar."""
        self.ticket, self.token = new_ticket()
        self.descriptors: set[int] = set()
        self.pidfd: int | None = None
        """Readable once the process has ended; None where the system has no such thing."""
        self.log: int | None = None
        """Where its stderr is read from, if that was asked for. Whoever reads it closes it."""
        theirs: list[int] = []
        try:
            read, self.stdin = self.pipe()
            theirs.append(read)
            self.stdout, write = self.pipe()
            theirs.append(write)
            if log:
                self.log, stderr = self.pipe()
                theirs.append(stderr)
            os.set_blocking(self.stdin, False)
            os.set_blocking(self.stdout, False)
            self._process = subprocess.Popen(
                words,
                stdin=read,
                stdout=write,
                stderr=stderr,
                env=launch_environment(self.ticket, env),
                start_new_session=True,  # a Ctrl-C at the terminal is the harness's to handle
            )
        except BaseException as error:
            self.forget()
            if isinstance(error, OSError):
                remedy = remedy_of(error, "check the command")
                raise StartError(f"cannot run {words[0]}: {error.strerror}; {remedy}") from error
            if isinstance(error, ValueError):
                raise StartError(f"cannot run {words[0]}: {error}; check the options given") from error
            raise
        finally:
            for descriptor in theirs:
                self.close(descriptor)
        if self.log is not None:
            self.descriptors.discard(self.log)
        self.pid: Final = self._process.pid
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):  # an old kernel, or a sandbox
                self.pidfd = os.pidfd_open(self.pid)
                self.descriptors.add(self.pidfd)
        _children.add(self)

    def status(self, seconds: float = 0.0) -> int | None:
        """The exit status, as `subprocess` has it; None while it runs, or after waiting for `seconds`."""
        if seconds:
            with suppress(subprocess.TimeoutExpired):
                return self._process.wait(seconds)
        return self._process.poll()

    def terminate(self) -> None:
        """Ask it to end. One that has ended is left alone."""
        self._process.terminate()

    def kill(self) -> None:
        """End it. What it acknowledged is on disk."""
        self._process.kill()

    def abandon(self) -> None:
        """End it at once, and leave nothing of it: nobody could attend to it."""
        self.kill()
        self.status(bounds.KILL_SECONDS)
        self.forget()

    def close(self, descriptor: int) -> None:
        """Close one of the descriptors, once."""
        if descriptor in self.descriptors:
            self.descriptors.discard(descriptor)
            os.close(descriptor)

    def forget(self) -> None:
        """Close all descriptors, and remove a ticket that was not used up."""
        for descriptor in list(self.descriptors):
            self.close(descriptor)
        with suppress(OSError):
            os.unlink(self.ticket)

    def pipe(self) -> tuple[int, int]:
        """A pipe that is closed with the others: where it is read, and where it is written."""
        ends = os.pipe()
        self.descriptors.update(ends)
        return ends

    def _forked(self) -> None:
        self.forked = True
        for descriptor in self.descriptors:
            with suppress(OSError):
                os.close(descriptor)
        self.descriptors.clear()
        self._process.returncode = 0  # it is not this process's child


_children: "weakref.WeakSet[Child]" = weakref.WeakSet()


def _after_fork() -> None:
    for child in list(_children):
        child._forked()  # noqa: SLF001 - this module's own
    _children.clear()


os.register_at_fork(after_in_child=_after_fork)

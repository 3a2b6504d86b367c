"""What a process gets from whoever started it, put in order before the first file is opened or thread started.

POSIX lets descriptors, their flags, signal dispositions, the signal mask, limits and the umask through exec(2), and
launchers leave all kinds of them behind. Each has a row in `_PUT_RIGHT`. What cannot be put right here, because only
its user knows what it needs, is met where it is used: a working directory that is gone (`files.absolute`), channels
that do not wait (`wire.stdio`, and `cli.shared.output` for commands), threads that run already (`lockdown`).
"""

import fcntl
import os
import sys
from contextlib import suppress

from ..hints import Final
from .signals import signal

__all__ = ["has_descriptors", "has_room", "put_right", "restart_alone", "stopping_signals", "threads"]

_ENOUGH: Final = 4096
"""Descriptors that all runs of one process may need at once: an open one has its journal, and a call a few more."""

_LEAST: Final = 24
"""What one run needs, and a little more: below it the first call that opens a file may fail."""

_RESERVED: Final = 8
"""What the calls of the runs that are open need beside their journals."""

_LOOKED_AT: Final = 4096
"""Numbers that are tried for stray descriptors, where the system doesn't list those that are open."""

_STOPPING: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def put_right(*, strays: bool = True) -> None:
    """Put in order what was inherited. Called once, at the very start.

    With `strays` descriptors above 2 are closed: for a program of ours, which has opened none of its own yet.
    """
    for mend in _PUT_RIGHT:
        if strays or mend is not _close_strays:
            with suppress(OSError):  # a sandbox that forbids it: then it has to do as it is
                mend()


def stopping_signals() -> list[int]:
    """The signals that are to end the process. One that is ignored from the start (nohup) stays ignored."""
    return [number for number in _STOPPING if signal.getsignal(number) != signal.SIG_IGN]


def has_descriptors() -> bool:
    """Whether the limit of descriptors leaves enough to serve one run."""
    return _descriptor_limit() >= _LEAST


def has_room() -> bool:
    """Whether one run more would leave the others descriptors for their calls."""
    try:
        lowest_free = os.dup(0)
    except OSError:
        return False
    os.close(lowest_free)
    return lowest_free + _RESERVED < _descriptor_limit()


def _descriptor_limit() -> int:
    """The soft limit; one that may not be read in this sandbox counts as none."""
    import resource

    try:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    except OSError:
        return sys.maxsize
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def threads() -> list[str]:
    """Names of the threads that run beside the calling one, as far as they have any."""
    try:
        numbers = os.listdir("/proc/self/task")
    except OSError:
        import threading

        return [thread.name for thread in threading.enumerate()][1:]
    found = []
    for number in numbers:
        if int(number) != os.getpid():
            with suppress(OSError), open(f"/proc/self/task/{number}/comm", "rb") as file:
                found.append(file.read().decode("ascii", "replace").strip())
    return found


def restart_alone() -> None:
    """Start this program again without what PYTHONPATH loads into every Python process, if that runs threads by now.

    Instrumentation (ddtrace-run, opentelemetry-instrument) comes so, as a directory with a `sitecustomize` in it. Its
    threads could not be locked down, nor could they send anything from a process that may not open a connection.
    Nothing is lost: exec(2) keeps the process, its channels and its parent.
    """
    path = os.environ.get("PYTHONPATH", "")
    kept = os.pathsep.join(entry for entry in path.split(os.pathsep) if not _customizes(entry))
    if kept != path and threads():
        os.environ["PYTHONPATH"] = kept
        with suppress(OSError):  # forbidden here: the lockdown will say what is wrong
            os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - itself


def _customizes(entry: str) -> bool:
    return any(os.path.exists(os.path.join(entry, f"{name}.py")) for name in ("sitecustomize", "usercustomize"))


def _fill_standard_descriptors() -> None:
    """Have something at 0, 1 and 2. Else the next file that is opened is taken for stdin, stdout or stderr."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is what open(2) takes, and all below it are open by now.
            _open_nothing(reading=descriptor == 0)
            os.set_inheritable(descriptor, True)


def _open_nothing(*, reading: bool) -> None:
    try:
        os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # a root directory without /dev
        ends = os.pipe()
        # A pipe without a writer is at its end; one without a reader refuses what is written.
        kept, other = ends if reading else ends[::-1]
        os.close(other)
        if kept > other:
            os.dup2(kept, other)
            os.close(kept)


def _close_strays() -> None:
    """Close descriptors that the launcher forgot: another's pipe that is held open here never reports its end.

    Whatever was opened in this process closes on exec (PEP 446), so one that doesn't was inherited.
    """
    try:
        numbers = [int(name) for name in os.listdir("/proc/self/fd")]
    except (OSError, ValueError):
        numbers = list(range(_LOOKED_AT))
    for descriptor in numbers:
        if descriptor > 2:
            with suppress(OSError):
                if not fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC:
                    os.close(descriptor)


def _unblock_signals() -> None:
    """A launcher's thread that blocked signals for itself did not mean this process."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPPING)


def _raise_descriptor_limit() -> None:
    """The soft limit is low for the sake of programs that use select(2); this one doesn't."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(_ENOUGH, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _set_umask() -> None:
    """Modes are given in full where something is made. A launcher's mask could only take the owner's rights away."""
    os.umask(0o077)


_PUT_RIGHT: Final = (
    _fill_standard_descriptors,
    _close_strays,
    _unblock_signals,
    _raise_descriptor_limit,
    _set_umask,
)

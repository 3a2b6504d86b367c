"""A program of its own: runs one command, and outlives it for long enough to end all that came of it.

    python -I -S keeper.py LIFELINE ENVIRONMENT COMMAND [ARGUMENT ...]

It is the "subreaper" of what it starts (Linux, `prctl(2)`): a descendant that leaves its session, its process group and
its parents becomes a child of this process, and of no other, so none can hide. When the other end of the descriptor
LIFELINE is closed, on purpose or because the audit died, every descendant is killed. It ends when none is left.
The command's parent is a second such process, in between: a command that kills its parent frees nothing, since what
is left then is the first one's. ENVIRONMENT is the command's, as a JSON object. Exit status 0, or 1 if a descendant
outlived its end; a command that cannot be started is told on stderr. Elsewhere than on Linux only the command's session
is ended.

Nothing of this package is imported here: it starts in the time of a bare interpreter.
"""

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

__all__ = ["main"]

_PR_SET_CHILD_SUBREAPER = 36
# A killed process is gone as soon as it is given a processor, which on a busy machine takes a while.
_SECONDS = 10.0
_POLL_SECONDS = 0.005


def main() -> int:
    """Run the command that the arguments tell, until nothing of it is left."""
    lifeline, environment, command = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3:]
    os.set_inheritable(lifeline, False)
    _keep_descendants()
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(tell, warn_on_full_buffer=False)
    child = os.fork()
    if child == 0:
        if sys.platform.startswith("linux"):
            _stand_between()
        _become(command, environment)
    _let_go_of_streams()
    while _reap():
        ready, _, _ = select.select([lifeline, told], [], [])
        if lifeline in ready:
            return _end(child)
        os.read(told, 4096)
    return 0


def _keep_descendants() -> None:
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _stand_between() -> None:
    """Be the command's parent, and keep its descendants, until none is left. Returns in the command's process alone."""
    _keep_descendants()  # a child does not inherit it
    signal.set_wakeup_fd(-1)
    if os.fork() == 0:
        return
    _let_go_of_streams()
    with suppress(ChildProcessError):
        while True:
            os.wait()
    os._exit(0)


def _let_go_of_streams() -> None:
    """The first three are the command's: held here, their end would never be seen."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nothing, descriptor)


def _become(command: list[str], environment: dict[str, str]) -> None:
    os.setsid()
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGCHLD):  # a program expects them as they are by default
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 - the command is what shall run
    except OSError as error:
        os.write(2, f"it cannot be started: {error.strerror}\n".encode())
    os._exit(127)


def _reap() -> bool:
    """Whether a child is left, after those that ended are buried."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _end(session: int) -> int:
    deadline = time.monotonic() + _SECONDS
    while _reap():
        found = _descendants()
        for process in found:
            _kill(os.kill, process)
        if not found:
            _kill(os.killpg, session)
        if time.monotonic() > deadline:
            return 1
        time.sleep(_POLL_SECONDS)
    return 0


def _kill(how: Callable[[int, int], None], process: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        how(process, signal.SIGKILL)


def _descendants() -> list[int]:
    """All processes below this one, by what the kernel says of their parents. Empty where it doesn't say."""
    children: dict[int, list[int]] = {}
    try:
        entries = os.listdir("/proc")
    except OSError:
        return []
    for entry in filter(str.isdecimal, entries):
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                # The name in parentheses may hold anything; the state and the parent stand behind it.
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (OSError, IndexError, ValueError):
            continue
        children.setdefault(parent, []).append(int(entry))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


if __name__ == "__main__":
    sys.exit(main())

"""The library for programs without an event loop: scripts, notebooks, synchronous frameworks, threads.

    with MemorySidecar.launch(store_dir="state") as memory, memory.run("monday") as run:
        answer = run.call("memory_list")

The same as `memory_sidecar.harness`, but that nothing is awaited. Any thread may call, several at once too, and where
an event loop runs, a call holds it up. Ctrl-C cancels what is waited for; leaving a block it is passed on afterwards.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Generic, TypeVar, Unpack

from .command import LaunchOptions, StrPath
from .core import Ending, Launched, OpenRun, Resume
from .errors import RequestRefusedError, SidecarDiedError, SidecarError, StartError
from .log import Stderr
from .result import ToolResult
from .start import start
from .steps import Steps, Wait

__all__ = [
    "LaunchOptions",
    "MemorySidecar",
    "RequestRefusedError",
    "Run",
    "SidecarDiedError",
    "SidecarError",
    "StartError",
    "ToolResult",
]

T = TypeVar("T")


class _Block(AbstractContextManager[T], Generic[T]):
    def __init__(self, enter: Callable[[], Steps[T]], leave: Callable[[T, BaseException | None], Steps[None]]) -> None:
        self._enter = enter
        self._leave = leave
        self._inside: list[T] = []

    def __enter__(self) -> T:
        inside = _drive(self._enter())
        self._inside.append(inside)
        return inside

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        _drive(self._leave(self._inside.pop(), failure))


class Run(OpenRun):
    __doc__ = OpenRun.__doc__

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Serve the model's call of the tool `name`; as `harness.Run.call`, with the same errors."""
        return _drive(self._call(name, arguments))

    def suspend(self) -> dict[str, Any]:
        """End the run so that it can be resumed, and return its scope; as `harness.Run.suspend`."""
        return _drive(self._suspend())

    def finish(self, reason: Ending = "completed", message: str | None = None) -> dict[str, Any]:
        """End the run for good (`completed`), or for another reason; as `harness.Run.finish`."""
        return _drive(self._finish(reason, message))


class MemorySidecar(Launched):
    """A launched sidecar. Make one with `launch`."""

    @classmethod
    def launch(
        cls,
        *,
        command: Sequence[StrPath] | None = None,
        env: Mapping[str, str] | None = None,
        stderr: Stderr = None,
        **options: Unpack[LaunchOptions],
    ) -> AbstractContextManager["MemorySidecar"]:
        """Start a sidecar as a subprocess, serve the block, and end it; as `harness.MemorySidecar.launch`."""

        def enter() -> Steps["MemorySidecar"]:
            return cls((yield from start(command, env, stderr, options)))

        return _Block(enter, lambda memory, _: memory._leave())  # noqa: SLF001 - its own block

    def run(
        self,
        run: str | None = None,
        *,
        resume: Resume = "auto",
        scope: Mapping[str, Any] | None = None,
    ) -> AbstractContextManager[Run]:
        """Open a run, or resume it, and suspend it on leaving; as `harness.MemorySidecar.run`."""

        def enter() -> Steps[Run]:
            return Run(self, (yield from self._open(run, resume, scope)))

        return _Block(enter, lambda opened, failure: opened._leave(failure))  # noqa: SLF001 - its own block

    def runs(self) -> list[dict[str, Any]]:
        """All runs in the journal directory; as `harness.MemorySidecar.runs`."""
        return _drive(self._list())


def _drive(steps: Steps[T]) -> T:
    """Take the steps in this thread."""
    try:
        wait = next(steps)
        while True:
            try:
                _settled(wait)
            except BaseException as interruption:  # noqa: BLE001 - the steps let it pass when all is in order
                wait = steps.throw(interruption)
            else:
                wait = next(steps)
    except StopIteration as done:
        result: T = done.value
        return result


def _settled(wait: Wait) -> None:
    """Wait. An insistent wait puts the first interrupt off; by a second one the user says that it is enough."""
    settled = threading.Event()

    def wake(_: Future[Any]) -> None:
        settled.set()

    wait.pending.add_done_callback(wake)
    try:
        settled.wait()
    except BaseException:
        if wait.insistent:
            settled.wait()
        raise

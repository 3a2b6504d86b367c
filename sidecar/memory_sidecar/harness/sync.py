"""The library for programs without an event loop: scripts, notebooks, synchronous frameworks, threads.

    with MemorySidecar.launch(identity="my-agent", store_dir="state") as memory, memory.run("monday") as run:
        answer = run.call("memory_list")

The same as `memory_sidecar.harness`, but that nothing is awaited. Any thread may call, several at once too, and where
an event loop runs, a call holds it up. Ctrl-C cancels what is waited for; leaving a block it is passed on afterwards.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, NoReturn, TypeVar, Unpack

from .block import Block
from .command import LaunchOptions, StrPath
from .core import Launched, Resume
from .errors import RequestRefusedError, SidecarDiedError, SidecarError, StartError
from .log import Stderr
from .result import ToolResult
from .run import Ending, OpenRun
from .steps import here

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


class SyncBlock(Block[T], AbstractContextManager[T]):
    _ENTERED_BY = "with MemorySidecar.launch(...) as memory, memory.run(...) as run: ..."

    def __enter__(self) -> T:
        return here(self._entered())

    def __exit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        here(self._left(failure))

    # Neither is part of the type that `launch` and `run` return: a type checker refuses both.

    async def __aenter__(self) -> NoReturn:
        raise TypeError(
            f"it is entered by {self._ENTERED_BY} For a program on an event loop, memory_sidecar.harness has the same "
            "for `async with`."
        )

    async def __aexit__(self, *_: object) -> None: ...


class Run(OpenRun):
    __doc__ = OpenRun.__doc__

    def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Serve the model's call of the tool `name`; as `harness.Run.call`.

        Raises:
            RequestRefusedError: there is no such tool, the run has ended, or the arguments hold a Python object that
                is no JSON.
            SidecarDiedError: the sidecar's process ended; a write may or may not be stored.
            SidecarError: this process was forked from the one that launched.
            ExposureRefused: a stranger is being served (`exposure_policy.serving`).
        """
        return here(self._call(name, arguments))

    def suspend(self) -> dict[str, Any]:
        """End the run so that it can be resumed, and return its scope; as `harness.Run.suspend`.

        Raises:
            RequestRefusedError: the run has ended.
            SidecarDiedError: the sidecar's process ended; the run can be resumed by another.
            SidecarError: this process was forked from the one that launched.
            ExposureRefused: a stranger is being served (`exposure_policy.serving`).
        """
        return here(self._suspend())

    def finish(self, reason: Ending = "completed", message: str | None = None) -> dict[str, Any]:
        """End the run for good (`completed`), or for another reason; as `harness.Run.finish`.

        Raises:
            RequestRefusedError: the run has ended, or there is no such reason.
            SidecarDiedError: the sidecar's process ended; the run can be resumed by another.
            SidecarError: this process was forked from the one that launched.
            ExposureRefused: a stranger is being served (`exposure_policy.serving`).
        """
        return here(self._finish(reason, message))


class MemorySidecar(Launched):
    """A launched sidecar. Make one with `launch`."""

    @classmethod
    def launch(
        cls,
        *,
        command: Sequence[StrPath] | None = None,
        env: Mapping[str, str] | None = None,
        stderr: Stderr = None,
        restarts: int = 0,
        **options: Unpack[LaunchOptions],
    ) -> AbstractContextManager["MemorySidecar"]:
        """Start a sidecar as a subprocess, serve the block, and end it; as `harness.MemorySidecar.launch`.

        Raises:
            StartError: it cannot start; the text is the remedy.
            TypeError: there is no such option, or a value is of the wrong type.
        """

        return SyncBlock(
            lambda: cls._launched(command, env, stderr, restarts, options),
            lambda memory, _: memory._leave(),  # noqa: SLF001 - its own block
        )

    def run(
        self,
        run: str | None = None,
        *,
        identity: str | None = None,
        resume: Resume = "auto",
        scope: Mapping[str, Any] | None = None,
    ) -> AbstractContextManager[Run]:
        """Open a run, or resume it, and suspend it on leaving; as `harness.MemorySidecar.run`.

        Raises:
            RequestRefusedError: the run cannot be opened so; the text says why.
            SidecarDiedError: the sidecar's process ended; on leaving, too, unless the block failed itself.
            SidecarError: this process was forked from the one that launched.
            ExposureRefused: a stranger is being served (`exposure_policy.serving`).
        """

        return SyncBlock(
            lambda: self._opened_as(Run, run, resume, scope, identity),
            lambda opened, failure: opened._leave(failure),  # noqa: SLF001 - its own block
        )

    def runs(self, *, identity: str | None = None) -> list[dict[str, Any]]:
        """All runs of an identity; as `harness.MemorySidecar.runs`.

        Raises:
            RequestRefusedError: the identity is not needed or not legal.
            SidecarDiedError: the sidecar's process ended.
            SidecarError: this process was forked from the one that launched.
            ExposureRefused: a stranger is being served (`exposure_policy.serving`).
        """
        return here(self._list(identity))

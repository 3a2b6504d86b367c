"""The library for asyncio (uvloop and the like included) and trio: `MemorySidecar` and `Run`.

A coroutine of these may run in any task of any loop in any thread of the process that launched, and a block may be left
in another task than it was entered in. `memory_sidecar.harness.sync` is the same for programs without a loop.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, NoReturn, TypeVar, Unpack

from .block import Block
from .command import LaunchOptions, StrPath
from .core import Launched, Resume
from .log import Stderr
from .loops import drive
from .result import ToolResult
from .run import Ending, OpenRun

__all__ = ["MemorySidecar", "Run"]

T = TypeVar("T")


class AsyncBlock(Block[T], AbstractAsyncContextManager[T]):
    _ENTERED_BY = "async with MemorySidecar.launch(...) as memory, memory.run(...) as run: ..."

    async def __aenter__(self) -> T:
        return await drive(self._entered())

    async def __aexit__(
        self, kind: type[BaseException] | None, failure: BaseException | None, trace: TracebackType | None
    ) -> None:
        await drive(self._left(failure))

    # Neither is part of the type that `launch` and `run` return: a type checker refuses both.

    def __await__(self) -> NoReturn:
        raise TypeError(f"it is not awaited but entered: {self._ENTERED_BY}")

    def __enter__(self) -> NoReturn:
        raise TypeError(
            f"it is entered by {self._ENTERED_BY} For a program without an event loop, memory_sidecar.harness.sync "
            "has the same for a plain `with`."
        )

    def __exit__(self, *_: object) -> None: ...


class Run(OpenRun):
    __doc__ = OpenRun.__doc__

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Serve the model's call of the tool `name`. Calls of one run are served in order.

        Whatever a model can produce as arguments may be handed over. What is no object, too large, or nothing that JSON
        can carry (NaN) is not sent: the result is an error that tells the model. If the await is cancelled, so is the
        call: a write is then whole or absent.

        Raises:
            RequestRefusedError: there is no such tool, the run has ended, or the arguments hold a Python object that
                is no JSON.
            SidecarDiedError: the sidecar's process ended; a write may or may not be stored.
            SidecarError: this process was forked from the one that launched.
            RuntimeError: no loop of asyncio or trio runs.
            ExposureRefused: a stranger is being served (`exposure_policy.serving`).
        """
        return await drive(self._call(name, arguments))

    async def suspend(self) -> dict[str, Any]:
        """End the run so that it can be resumed, and return its scope.

        If the await is cancelled the run is suspended all the same.

        Raises:
            RequestRefusedError: the run has ended.
            SidecarDiedError: the sidecar's process ended; the run can be resumed by another.
            SidecarError: this process was forked from the one that launched.
            RuntimeError: no loop of asyncio or trio runs.
            ExposureRefused: a stranger is being served (`exposure_policy.serving`).
        """
        return await drive(self._suspend())

    async def finish(self, reason: Ending = "completed", message: str | None = None) -> dict[str, Any]:
        """End the run for good (`completed`), or for a reason after which it may be resumed; return its scope.

        If the await is cancelled the run is ended all the same.

        Raises:
            RequestRefusedError: the run has ended, or there is no such reason.
            SidecarDiedError: the sidecar's process ended; the run can be resumed by another.
            SidecarError: this process was forked from the one that launched.
            RuntimeError: no loop of asyncio or trio runs.
            ExposureRefused: a stranger is being served (`exposure_policy.serving`).
        """
        return await drive(self._finish(reason, message))


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
    ) -> AbstractAsyncContextManager["MemorySidecar"]:
        """Start a sidecar as a subprocess, serve the block, and end it.

        Args:
            command: how to start the sidecar, `serve` included; this Python's `memory_sidecar` by default.
            env: the environment of the sidecar; this process's by default.
            stderr: where its log goes: a file or descriptor as for `subprocess`, any object with a `write` method, or
                a `logging.Logger`, which gets each line at its level; this process's stderr by default.
            restarts: how often a sidecar that dies is launched again. Its open runs are opened again with the authority
                that they had. A read or a listing that was under way is asked again; of any other call the model is
                told that its outcome is unknown. Each is told to the logger `memory_sidecar.harness`.
            options: those of `memory-sidecar serve` (`config`, `identity`, `many_identities`, `store_dir`,
                `journal_dir`, `keep_runs`, `lockdown`, `log_level`, `log_format`), as `LaunchOptions` describes them.

        The sidecar is in a session of its own: Ctrl-C at a terminal is the harness's to handle, and doesn't end it.

        Leaving the block, by a cancellation too and however often that is repeated, ends the sidecar within bounds even
        if it does not answer. A run that is open is given 20 seconds to be suspended. Once the pipe is closed, the
        sidecar has 20 seconds to end while a run is open, 5 while none is, and 2 if it has not started yet or did not
        answer before; then comes SIGTERM, and 2 seconds later SIGKILL, which loses nothing that was acknowledged. The
        cancellation is passed on after that.

        Raises:
            StartError: it cannot start; the text is the remedy.
            TypeError: there is no such option, or a value is of the wrong type.
            RuntimeError: no loop of asyncio or trio runs.
        """

        return AsyncBlock(
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
    ) -> AbstractAsyncContextManager[Run]:
        """Open a run, or resume it. Leaving the block suspends it, unless it was ended inside.

        Args:
            run: its id, `[A-Za-z0-9][A-Za-z0-9_-]{0,127}`; a new one by default. Ids are names within an identity.
            identity: whose memory it has. Needed where the launch said `many_identities=True`, and refused elsewhere.
            resume: `require` refuses a run that does not exist yet, `never` one that does.
            scope: the scope that an earlier run of this id returned, if the harness keeps it itself; it is the
                newest and wins.

        An opening that is cancelled leaves no open run; its id can be used again at once.

        Raises:
            RequestRefusedError: the run cannot be opened so; the text says why.
            SidecarDiedError: the sidecar's process ended; on leaving, too, unless the block failed itself.
            SidecarError: this process was forked from the one that launched.
            RuntimeError: no loop of asyncio or trio runs.
            ExposureRefused: a stranger is being served (`exposure_policy.serving`).
        """

        return AsyncBlock(
            lambda: self._opened_as(Run, run, resume, scope, identity),
            lambda opened, failure: opened._leave(failure),  # noqa: SLF001 - its own block
        )

    async def runs(self, *, identity: str | None = None) -> list[dict[str, Any]]:
        """All runs of an identity: `run`, `state`, `created` and `updated` of each.

        `identity` is needed where the launch said `many_identities=True`, and refused elsewhere.

        Raises:
            RequestRefusedError: the identity is not needed or not legal.
            SidecarDiedError: the sidecar's process ended.
            SidecarError: this process was forked from the one that launched.
            RuntimeError: no loop of asyncio or trio runs.
            ExposureRefused: a stranger is being served (`exposure_policy.serving`).
        """
        return await drive(self._list(identity))

"""`MemorySidecar` and `Run`: a launch and the runs within it, as two nested blocks.

Leaving a run's block without a word suspends it; leaving the launch's block closes the pipe, on which the sidecar
suspends whatever is still open. So no exception loses what a run had earned.
"""

import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE
from typing import IO, Any, Final, Literal, Unpack

import anyio
from anyio.abc import Process

from .command import LaunchOptions, StrPath, command_line
from .connection import Connection, FrameTooLargeError
from .errors import (
    START_SECONDS,
    RequestRefusedError,
    SidecarDiedError,
    SidecarError,
    StartError,
    start_failed,
    start_refused,
)
from .ticket import EXTENSION, launch_environment, ticket

__all__ = ["MemorySidecar", "Run", "ToolResult"]

_PROTOCOL_VERSION: Final = "2025-11-25"
_STOP_SECONDS: Final = 20.0
"""How long a sidecar may take to end once its pipe is closed; it gives calls in flight less than that itself."""

_REFUSED: Final = -32000
_TOO_LARGE: Final = (
    "The arguments are larger than a call may be. Nothing was changed. A content has at most 65536 bytes: shorten it, "
    "or split it over several keys."
)
_RUN: Final = "memory-sidecar/run"
_UNSAVED: Final = "memory-sidecar/unsaved"

Ending = Literal["completed", "error", "budget", "max_iterations"]


class ToolResult(dict[str, Any]):
    """A tool's answer: MCP's CallToolResult as the sidecar sent it, with its parts at hand."""

    @property
    def text(self) -> str:
        """What to show the model."""
        return "".join(part["text"] for part in self["content"])

    @property
    def structured(self) -> dict[str, Any] | None:
        """The answer as an object; None for an error."""
        return self.get("structuredContent")

    @property
    def is_error(self) -> bool:
        """Whether the call failed. A refusal that the model can act on (an existing key) is no failure."""
        return bool(self.get("isError"))


class Run:
    """An open run: what to tell the model, and where to send its calls.

    A memory tool is private to its harness; `__memory_private__` lets the guards of `exposure_policy` recognise a
    run that someone is about to publish.
    """

    __memory_private__: Final = True

    def __init__(self, connection: Connection, opened: Mapping[str, Any], open_runs: set[str]) -> None:
        self._connection = connection
        self._open_runs = open_runs
        self._ended = False
        self.id: str = opened["run"]
        self.resumed: bool = opened["resumed"]
        """Whether this run goes on from an earlier one, with the authority that had earned."""
        self.tools: list[dict[str, Any]] = opened["tools"]
        """Definitions in MCP's form: name, description, inputSchema, ..."""
        self.instructions: str = opened["instructions"]
        """Text for the system prompt: how to use memory, and the index of what it holds."""
        self.scope: dict[str, Any] = opened["scope"]
        """The authority as it was when the run opened or ended: `{store, keys: {key: revision}}`."""
        self.read_only: bool = opened["read_only"]
        self.unsaved: str | None = opened.get("_meta", {}).get(_UNSAVED)
        """Why the newest authority is not on disk (a full disk), or None. Memory works all the same."""

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None) -> ToolResult:
        """Serve the model's call of the tool `name`. Calls of one run are served in order.

        Raises:
            RequestRefusedError: there is no such tool, or the run has ended.
            SidecarDiedError: the sidecar's process ended; a write may or may not be stored.
        """
        params = {"name": name, "arguments": dict(arguments or {}), "_meta": {_RUN: self.id}}
        try:
            answer = await self._connection.request("tools/call", params)
        except FrameTooLargeError:
            return ToolResult(content=[{"type": "text", "text": _TOO_LARGE}], isError=True)
        result = ToolResult(answer)
        self.unsaved = result.get("_meta", {}).get(_UNSAVED)
        return result

    async def suspend(self) -> dict[str, Any]:
        """End the run so that it can be resumed, and return its scope."""
        return await self._end("memory-sidecar/run/suspend", {})

    async def finish(self, reason: Ending = "completed", message: str | None = None) -> dict[str, Any]:
        """End the run for good (`completed`), or for a reason after which it may be resumed; return its scope."""
        params: dict[str, Any] = {"reason": reason}
        if message is not None:
            params["message"] = message
        return await self._end("memory-sidecar/run/finish", params)

    async def _end(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        ended = await self._connection.request(method, {"run": self.id, **params})
        self._ended = True
        self._open_runs.discard(self.id)
        self.unsaved = ended.get("_meta", {}).get(_UNSAVED)
        self.scope = ended["scope"]
        return self.scope

    async def _leave(self) -> None:
        if not self._ended:
            with anyio.move_on_after(_STOP_SECONDS, shield=True):
                await self.suspend()


class MemorySidecar:
    """A launched sidecar. Make one with `launch`."""

    __memory_private__: Final = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._runs: set[str] = set()

    @classmethod
    @asynccontextmanager
    async def launch(
        cls,
        *,
        command: Sequence[StrPath] | None = None,
        env: Mapping[str, str] | None = None,
        stderr: int | IO[Any] | None = None,
        **options: Unpack[LaunchOptions],
    ) -> AsyncIterator["MemorySidecar"]:
        """Start a sidecar as a subprocess, serve the block, and end it.

        Args:
            command: how to start the sidecar, `serve` included; this Python's `memory_sidecar` by default.
            env: the environment of the sidecar; this process's by default.
            stderr: where its log goes, as for `subprocess`; this process's stderr by default.
            options: those of `memory-sidecar serve` (`config`, `identity`, `store_dir`, `journal_dir`, `lockdown`,
                `log_level`, `log_format`), as `LaunchOptions` describes them.

        The sidecar is in a session of its own: Ctrl-C at a terminal is the harness's to handle, and doesn't end it.

        Raises:
            StartError: it cannot start; the text is the remedy.
            TypeError: there is no such option.
        """
        words = command_line(command, options)
        failure: BaseException | None = None
        with ticket() as (path, token):
            try:
                process = await anyio.open_process(
                    words,
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=stderr,
                    env=launch_environment(path, env),
                    start_new_session=True,
                )
            except OSError as error:
                raise StartError(f"cannot run {words[0]}: {error.strerror}; check the command") from error
            except ValueError as error:
                raise StartError(f"cannot run {words[0]}: {error}; check the options given to launch") from error
            connection = Connection(process)
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(connection.receive)
                    tasks.start_soon(connection.send)
                    try:
                        await _initialize(connection, process, token)
                        yield cls(connection)
                    except BaseException as error:  # noqa: BLE001 - raised again below, not wrapped in a group
                        failure = error
                    with anyio.CancelScope(shield=True):
                        await _stop(process)
                    connection.close()
            finally:
                with anyio.CancelScope(shield=True):
                    await process.aclose()
        if failure is not None:
            raise failure

    @asynccontextmanager
    async def run(
        self,
        run: str | None = None,
        *,
        resume: Literal["auto", "require", "never"] = "auto",
        scope: Mapping[str, Any] | None = None,
    ) -> AsyncIterator[Run]:
        """Open a run, or resume it. Leaving the block suspends it, unless it was ended inside.

        Args:
            run: its id, `[A-Za-z0-9][A-Za-z0-9_-]{0,127}`; a new one by default.
            resume: `require` refuses a run that does not exist yet, `never` one that does.
            scope: the scope that an earlier run of this id returned, if the harness keeps it itself; it is the
                newest and wins.

        Raises:
            RequestRefusedError: the run cannot be opened so; the text says why.
        """
        name = run or f"run-{uuid.uuid4().hex}"
        params: dict[str, Any] = {"run": name, "resume": resume}
        if scope is not None:
            params["scope"] = scope
        if name in self._runs:
            raise RequestRefusedError(_REFUSED, f"run {name} is open already; use it, or end it first")
        self._runs.add(name)
        try:
            opened = Run(self._connection, await self._open(params), self._runs)
        except BaseException:
            self._runs.discard(name)
            raise
        try:
            yield opened
        except BaseException:
            with suppress(SidecarError):  # what made the block fail says more
                await opened._leave()  # noqa: SLF001 - the block is the run's own
            raise
        await opened._leave()  # noqa: SLF001

    async def _open(self, params: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return await self._connection.request("memory-sidecar/run/open", params)
        except anyio.get_cancelled_exc_class():
            # It may be open by now, or about to be. Once this is answered, whatever the answer, it is not.
            with anyio.move_on_after(_STOP_SECONDS, shield=True), suppress(SidecarError):
                await self._connection.request("memory-sidecar/run/suspend", {"run": params["run"]})
            raise

    async def runs(self) -> list[dict[str, Any]]:
        """All runs in the journal directory: `run`, `state`, `created` and `updated` of each."""
        found: list[dict[str, Any]] = (await self._connection.request("memory-sidecar/run/list", {}))["runs"]
        return found


async def _initialize(connection: Connection, process: Process, token: str) -> None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        own = version("memory-sidecar")
    except PackageNotFoundError:  # run from a source tree
        own = "0"
    params = {
        "protocolVersion": _PROTOCOL_VERSION,
        # Runs are opened by name here, so nobody would use the process's own one, nor read its index.
        "capabilities": {"extensions": {EXTENSION: {"ticket": token, "default_run": False}}},
        "clientInfo": {"name": "memory_sidecar.harness", "version": own},
    }
    try:
        with anyio.fail_after(START_SECONDS):
            await connection.request("initialize", params)
    except RequestRefusedError as error:
        raise start_refused(error.code, str(error)) from None
    except SidecarDiedError as error:
        raise start_failed(await connection.ended()) from error
    except TimeoutError as error:
        process.kill()  # it has nothing to save, and would be waited for
        raise start_failed() from error
    connection.notify("notifications/initialized")


async def _stop(process: Process) -> None:
    """Close the pipe and wait; a sidecar that does not end is terminated, then killed."""
    assert process.stdin is not None  # noqa: S101 - launched with a pipe
    with suppress(OSError, anyio.BrokenResourceError):
        await process.stdin.aclose()
    for end in (process.terminate, process.kill):
        with anyio.move_on_after(_STOP_SECONDS):
            await process.wait()
            return
        end()
    await process.wait()

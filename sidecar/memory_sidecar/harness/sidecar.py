"""`MemorySidecar` and `Run`: a launch and the runs within it, as two nested blocks.

Leaving a run's block without a word suspends it; leaving the launch's block closes the pipe, on which the sidecar
suspends whatever is still open. So no exception loses what a run had earned.
"""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from subprocess import PIPE
from typing import IO, Any, Final, Literal, Unpack

import anyio
from anyio.abc import Process

from .command import LaunchOptions, StrPath, command_line
from .connection import PARSE_ERROR, Connection, FrameTooLargeError
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

__all__ = ["NOT_JSON", "NO_OBJECT", "MemorySidecar", "Run", "ToolResult", "for_model"]

_PROTOCOL_VERSION: Final = "2025-11-25"
_STOP_SECONDS: Final = 20.0
"""How long a sidecar may take to suspend a run, or to end once its pipe is closed while a run is open; it gives calls
in flight 15 seconds itself."""

_IDLE_STOP_SECONDS: Final = 5.0
"""How long it may take to end while no run is open: all that it may have to do is to send its telemetry."""

_KILL_SECONDS: Final = 2.0
"""How long it may take if it has served nothing yet, or is known not to answer; and, for any, to end on SIGTERM."""

_REFUSED: Final = -32000
_INVALID_PARAMS: Final = -32602
_TOO_LARGE: Final = (
    "The arguments are larger than a call may be. Nothing was changed. A content has at most 65536 bytes: shorten it, "
    "or split it over several keys."
)
NOT_JSON: Final = (
    "The arguments hold what JSON cannot carry (NaN, Infinity), too large a number, or lists and objects nested too "
    "deeply. Nothing was changed. Call the tool with the arguments that it takes, texts above all."
)
NO_OBJECT: Final = "The arguments must be a JSON object."
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

        Whatever a model can produce as arguments may be handed over. What is no object, too large, or nothing that JSON
        can carry (NaN) is not sent: the result is an error that tells the model.

        Raises:
            RequestRefusedError: there is no such tool, the run has ended, or the arguments hold a Python object that
                is no JSON.
            SidecarDiedError: the sidecar's process ended; a write may or may not be stored.
        """
        given: object = {} if arguments is None else arguments
        if not isinstance(given, Mapping):
            return for_model(NO_OBJECT)
        params = {"name": name, "arguments": dict(given), "_meta": {_RUN: self.id}}
        try:
            answer = await self._connection.request("tools/call", params)
        except FrameTooLargeError:
            return for_model(_TOO_LARGE)
        except RequestRefusedError as error:
            if error.code != PARSE_ERROR:
                raise
            return for_model(NOT_JSON)
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
            await _within_patience(self._connection, self.suspend)


async def _within_patience(connection: Connection, suspend: Callable[[], Awaitable[object]]) -> None:
    """Suspend, even while being cancelled; but not for ever, and not if the sidecar is known not to answer."""
    if connection.silent:
        return
    with anyio.move_on_after(_STOP_SECONDS, shield=True) as scope:
        await suspend()
    if scope.cancelled_caught:
        connection.silent = True


def for_model(text: str) -> ToolResult:
    return ToolResult(content=[{"type": "text", "text": text}], isError=True)


class MemorySidecar:
    """A launched sidecar. Make one with `launch`."""

    __memory_private__: Final = True

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._runs: set[str] = set()
        """Those that are open, or about to be."""

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

        Leaving the block, by a cancellation too, ends the sidecar within bounds even if it does not answer. A run that
        is open is given 20 seconds to be suspended. Once the pipe is closed, the sidecar has 20 seconds to end while a
        run is open, 5 while none is, and 2 if it has not started yet or did not answer before; then comes SIGTERM,
        and 2 seconds later SIGKILL, which loses nothing that was acknowledged.

        Raises:
            StartError: it cannot start; the text is the remedy.
            TypeError: there is no such option, or a value is of the wrong type.
        """
        words = command_line(command, options)
        memory = None
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
                        memory = cls(connection)
                        yield memory
                    except BaseException as error:  # noqa: BLE001 - raised again below, not wrapped in a group
                        failure = error
                    with anyio.CancelScope(shield=True):
                        await _stop(process, _patience(memory))
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
        name = f"run-{uuid.uuid4().hex}" if run is None else run
        if not isinstance(name, str) or not name:
            raise RequestRefusedError(
                _INVALID_PARAMS,
                "the id of a run is a text that is not empty; leave it out for a new run with one of its own",
            )
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
            with suppress(SidecarError):
                await _within_patience(
                    self._connection,
                    lambda: self._connection.request("memory-sidecar/run/suspend", {"run": params["run"]}),
                )
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
    except SidecarError as error:  # it could not read what every sidecar can
        raise start_failed("what was launched does not speak as a memory sidecar does") from error
    except TimeoutError as error:
        process.kill()  # it has nothing to save, and would be waited for
        raise start_failed() from error
    connection.notify("notifications/initialized")


def _patience(memory: MemorySidecar | None) -> float:
    """How long the sidecar may take to end by itself, in seconds; `memory` is None before the handshake is done."""
    if memory is None or memory._connection.silent:  # noqa: SLF001
        return _KILL_SECONDS
    return _STOP_SECONDS if memory._runs else _IDLE_STOP_SECONDS  # noqa: SLF001


async def _stop(process: Process, patience: float) -> None:
    """Close the pipe and wait; a sidecar that does not end is terminated, then killed."""
    assert process.stdin is not None  # noqa: S101 - launched with a pipe
    with suppress(OSError, anyio.BrokenResourceError):
        await process.stdin.aclose()
    for seconds, end in ((patience, process.terminate), (_KILL_SECONDS, process.kill)):
        with anyio.move_on_after(seconds):
            await process.wait()
            return
        with suppress(ProcessLookupError):  # it ended just now
            end()
    await process.wait()

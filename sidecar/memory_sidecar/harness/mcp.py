"""Memory for whatever speaks MCP by itself: a transport to a sidecar of its own, and a session over it.

    async with Client(memory_transport(identity="researcher", store_dir="state", run="monday")) as client:
        result = await client.call_tool("memory_list", {})  # any client that takes a transport or a pair of streams

    async with memory_session(identity="researcher", store_dir="state", run="monday") as session:
        tools = (await session.list_tools()).tools

Both work with the official SDK `mcp`, 1.x and 2.x, on asyncio and trio. The transport has one run. The system text is
in the answer to the handshake (`instructions`), and leaving the block suspends the run.
"""

from __future__ import annotations

import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TextIO, Unpack

from exposure_policy.serving import ask

from . import bounds
from .command import LaunchOptions, StrPath, command_line
from .errors import SidecarDiedError, StartError, start_failed, start_refused
from .frames import MAX_FRAME
from .ticket import EXTENSION, launch_environment, ticket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from mcp import ClientSession
    from mcp.client._transport import ReadStream, WriteStream
    from mcp.shared.message import SessionMessage

__all__ = ["memory_session", "memory_transport"]

_META: Final = "io.modelcontextprotocol/"
_INVALID_REQUEST: Final = -32600
_CLOSED: Final = "Connection closed"
"""The SDK's own word for it; its code is one of ours too."""


@asynccontextmanager
async def memory_transport(
    *,
    run: str | None = None,
    command: Sequence[StrPath] | None = None,
    env: Mapping[str, str] | None = None,
    errlog: TextIO | None = None,
    **options: Unpack[LaunchOptions],
) -> AsyncIterator[tuple[ReadStream[SessionMessage | Exception], WriteStream[SessionMessage]]]:
    """Start a sidecar, yield the pair of streams that a client of the SDK takes, and end it.

    The client needs to know nothing of the launch's ticket: it is put into the first message of a client that begins
    with `initialize`, and into every request of one that speaks MCP 2026-07-28.

    Args:
        run: the run's id; it is resumed if it exists. A new one by default.
        errlog: where the sidecar's log goes, a file that is open for text (a launch calls it `stderr`); this process's
            stderr by default.

    A `Client` that is pinned to 2026-07-28 never asks for instructions, so its `instructions` are None and the model
    gets no system text: use `memory_session`, or a client in its mode `auto` or `legacy`.

    The others are those of `MemorySidecar.launch`. A request that is larger than the sidecar reads, or that holds what
    JSON cannot carry, raises the SDK's `MCPError` (`McpError` in 1.x), or a ValueError where the SDK itself cannot
    write it (a Python object, 250 nested lists); the client goes on. While a stranger is served (see
    `exposure_policy.serving`) each request raises ExposureRefused. A sidecar that cannot start tells the remedy in its
    answer to the first request. When it dies, so does every request from then on; what it acknowledged is saved, and a
    new transport with the same `run` resumes it.

    Raises:
        ImportError: the SDK is not installed.
        StartError: the process cannot be started; the text is the remedy.
        SidecarDiedError: the process has ended, and the client did not notice (1.x).
        TypeError: there is no such option, or a value is of the wrong type.
    """
    if "stderr" in options:
        raise TypeError("stderr is called errlog here, as in the SDK, and is a file that is open for text")
    words = command_line(command, options, run, ("run", "command", "env", "errlog"))
    stdio_client, parameters = _sdk()
    failure: BaseException | None = None
    started = False
    with ticket() as (path, token):
        server = parameters(command=words[0], args=words[1:], env=launch_environment(path, env))
        try:
            async with stdio_client(server, errlog or sys.stderr) as (read, write):
                started = True
                try:
                    yield read, _Ticketed(write, token)
                except BaseException as error:  # noqa: BLE001 - raised again below, not wrapped in a group
                    failure = error
        except Exception as error:
            if not started and isinstance(error, OSError):
                raise StartError(f"cannot run {words[0]}: {error.strerror}; check the command") from error
            if not started and isinstance(error, ValueError):
                raise StartError(f"cannot run {words[0]}: {error}; check the options given") from error
            if not started:
                raise
            if not isinstance(failure, Exception):  # the SDK's writer broke, and cancelled the block
                raise SidecarDiedError(
                    "the memory sidecar closed its pipe; what it acknowledged is saved: launch it again with this run"
                ) from error
    if failure is not None:
        raise failure


@asynccontextmanager
async def memory_session(
    *,
    run: str | None = None,
    command: Sequence[StrPath] | None = None,
    env: Mapping[str, str] | None = None,
    errlog: TextIO | None = None,
    **options: Unpack[LaunchOptions],
) -> AsyncIterator[ClientSession]:
    """Start a sidecar, yield an initialized `ClientSession` with it, and end it.

    `session.instructions` is the run's system text; reading it while a stranger is served raises ExposureRefused.
    Everything else is as `memory_transport` says. The session begins with the handshake, also where the SDK speaks MCP
    2026-07-28: only the handshake opens the run, so that one which is in use elsewhere or cannot be resumed is refused
    here and not at the model's first call. A client over `memory_transport` may speak either.

    Raises:
        ImportError: the SDK is not installed.
        StartError: the sidecar cannot start; the text is the remedy.
        SidecarDiedError: the process has ended, and the client did not notice (1.x).
        TypeError: there is no such option, or a value is of the wrong type.
    """
    _sdk()
    import anyio
    from mcp import ClientSession

    failure: BaseException | None = None
    async with (
        memory_transport(run=run, command=command, env=env, errlog=errlog, **options) as streams,
        ClientSession(*streams) as session,
    ):
        try:
            try:
                with anyio.fail_after(bounds.START_SECONDS):
                    told = await session.initialize()
            except TimeoutError as error:
                raise start_failed() from error
            except Exception as error:  # noqa: BLE001 - the SDK's, whose name differs by version
                raise _cannot_start(error) from None
            _keep_private(session, told.instructions)
            yield session
        except BaseException as error:  # noqa: BLE001 - raised again below, not wrapped in a group
            failure = error
    if failure is not None:
        raise failure


def _keep_private(session: Any, instructions: str | None) -> None:
    """Give the session a class of its own: what the handshake told is given only while no stranger is served.

    In 1.x the SDK keeps no text; there it is added.
    """
    kind = type(session)

    def asked(name: str, plain: Any) -> property:
        def value(self: Any) -> Any:
            ask(f"session.{name}")
            return plain(self)

        return property(value)

    async def initialize(self: Any) -> Any:
        ask("session.initialize")
        return await kind.initialize(self)

    members: dict[str, Any] = {
        "__module__": kind.__module__,
        "__doc__": kind.__doc__,
        # The guards of exposure_policy know by it what would publish this session.
        "__memory_private__": True,
        "instructions": asked("instructions", lambda _: instructions),
        "initialize": initialize,
    }
    if (result := getattr(kind, "initialize_result", None)) is not None:
        members["initialize_result"] = asked("initialize_result", result.__get__)
    session.__class__ = type(kind.__name__, (kind,), members)


def _sdk() -> tuple[Any, Any]:
    """What launches a process and speaks to it, of whichever version of the SDK is installed."""
    try:
        from mcp import StdioServerParameters
        from mcp.client.stdio import stdio_client
    except ImportError as error:
        raise ImportError(
            "memory_sidecar.harness.mcp needs the official MCP SDK, 1.x or 2.x: pip install 'memory-sidecar[mcp]'"
        ) from error
    return stdio_client, StdioServerParameters


def _cannot_start(error: Exception) -> Exception:
    """What the first request's error means. The SDK's has an `error` of JSON-RPC's form; another is passed on."""
    told = getattr(error, "error", None)
    if told is None:
        return error
    if told.message == _CLOSED:
        return start_failed("the memory sidecar ended before it answered")
    return start_refused(told.code, told.message)


class _Ticketed:
    """The SDK's stream to the sidecar: requests present the ticket, and what the sidecar would not read is refused.

    It could not answer a request that is too large under its id, so the wait for that would never end.
    """

    def __init__(self, stream: WriteStream[SessionMessage], token: str) -> None:
        self._stream = stream
        self._capability = {EXTENSION: {"ticket": token}}

    async def send(self, item: SessionMessage) -> None:
        message: Any = getattr(item.message, "root", item.message)  # 1.x wraps it
        if hasattr(message, "method") and hasattr(message, "id"):
            ask(f"MCP request {message.method}")
            self._present(message)
        try:
            frame = item.message.model_dump_json(by_alias=True, exclude_unset=True).encode()
        except ValueError as error:  # the SDK's writer would fail on it for all others too
            raise _refusal(f"the request is no JSON: {error}; send it without that") from None
        if len(frame) > MAX_FRAME:
            raise _refusal(f"the request is longer than {MAX_FRAME} bytes; send less at a time")
        await self._stream.send(item)

    def _present(self, request: Any) -> None:
        """Put the ticket where the revision that the request is of has it."""
        params = request.params or {}
        meta = params.get("_meta") or {}
        if request.method == "initialize":
            request.params = {**params, "capabilities": self._with_ticket(params.get("capabilities"))}
        elif f"{_META}protocolVersion" in meta:
            name = f"{_META}clientCapabilities"
            request.params = {**params, "_meta": {**meta, name: self._with_ticket(meta.get(name))}}

    def _with_ticket(self, capabilities: dict[str, Any] | None) -> dict[str, Any]:
        given = capabilities or {}
        return {**given, "extensions": {**(given.get("extensions") or {}), **self._capability}}

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> _Ticketed:
        await self._stream.__aenter__()
        return self

    async def __aexit__(self, *exception: Any) -> bool | None:
        return await self._stream.__aexit__(*exception)


def _refusal(text: str) -> Exception:
    """The SDK's own error, which its clients know how to handle."""
    from mcp.shared import exceptions

    made: Exception
    if hasattr(exceptions, "MCPError"):
        made = exceptions.MCPError(_INVALID_REQUEST, text)
    else:
        from mcp.types import ErrorData

        made = getattr(exceptions, "McpError")(ErrorData(code=_INVALID_REQUEST, message=text))  # noqa: B009 - of 1.x
    return made

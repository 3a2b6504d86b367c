"""Runs an MCP command for as long as it is audited, and leaves nothing of it behind.

The SDK's own stdio transport trusts the server it launches: it buffers a line of any length, drops what isn't
JSON-RPC and lets stderr through. Here much of any of those is a fault that ends the audit of this target; a banner on
stdout is passed over, as the official clients do. Only the transport is ours; the protocol above it is the SDK's.
"""

import errno
import json
import os
import secrets
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import anyio
import anyio.abc

from .advice import CHECK_COMMAND, MALFORMED, ONLY_FRAMES, OWN_SERVER
from .frames import fault, is_json
from .result import Bounds

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

__all__ = ["TransportError", "launched"]

_MARK: Final = "MEMORY_SIDECAR_AUDIT_CHILD"
# A server that got its end of input may say goodbye; one that doesn't is killed.
_GRACE_SECONDS: Final = 0.5
# A killed process is gone as soon as it is given a processor, which on a busy machine takes a while. The keeper's own
# limit ends before this one, so that it is not killed while it ends the rest.
_KILL_SECONDS: Final = 12.0
_POLL_SECONDS: Final = 0.01
# How often in a row nothing is found before nothing is left: a process that is just being replaced by another program
# shows no environment for a moment.
_SURE: Final = 3
_OUTLIVED: Final = "something that it started is still running; look for it, and end it"
_TAIL: Final = 300
# What a server may print on stdout that is no message: a banner, not a log.
_MAX_BANNER: Final = 64 * 1024
_KEEPER: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "keeper.py")
# As the sidecar says it to whoever starts it without a ticket.
_WHO_MAY_START: Final = b"is not an MCP server for a host to list"


class TransportError(Exception):
    """The server broke the transport's rules, in words. It comes after the messages that came before it."""


@asynccontextmanager
async def launched(
    command: Sequence[str], bounds: Bounds, note: Callable[[str], None], ended: Callable[[str], None]
) -> AsyncIterator[tuple[Any, Any]]:
    """The SDK's pair of streams to `command`; its whole process tree is gone when the context ends.

    A server that breaks the transport's rules makes a `TransportError` the next item of the stream; the caller then
    gives up. `ended` is told why no more can come, before the stream ends; `note` what makes a message ambiguous. The
    child gets the environment that the SDK's own client gives it, not the caller's.

    Raises:
        OSError: the command cannot be started.
    """
    from mcp.client.stdio import get_default_environment

    mark = secrets.token_hex(16)
    environment = get_default_environment() | {_MARK: mark}
    if shutil.which(command[0], path=environment.get("PATH")) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
    lifeline, far_end = os.pipe()
    keeper = [sys.executable, "-I", "-S", _KEEPER, str(lifeline), json.dumps(environment), *command]
    # Cancelled between its start and our knowing it, the process would be left to nobody.
    with anyio.CancelScope(shield=True):
        try:
            process = await anyio.open_process(keeper, start_new_session=True, pass_fds=[lifeline])
        except BaseException:
            os.close(far_end)
            raise
        finally:
            os.close(lifeline)
    incoming, read = anyio.create_memory_object_stream[Any](0)
    write, outgoing = anyio.create_memory_object_stream[Any](0)
    tail, told_all = bytearray(), anyio.Event()
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_read_stdout, process, incoming, bounds, tail, told_all, note, ended)
            tasks.start_soon(_read_stderr, process, incoming, bounds, tail, told_all)
            tasks.start_soon(_write_stdin, process, outgoing)
            try:
                yield read, write
            finally:
                # The way out may be a cancellation; the process must go all the same, so nothing here waits long.
                with anyio.CancelScope(shield=True):
                    if not await _end(process, far_end, mark):
                        note(_OUTLIVED)
                tasks.cancel_scope.cancel()
    finally:
        for stream in (incoming, read, write, outgoing):
            stream.close()
        with anyio.CancelScope(shield=True), anyio.move_on_after(_KILL_SECONDS):
            await process.aclose()
        _close_transport(process)


async def _read_stdout(
    process: anyio.abc.Process,
    incoming: Any,
    bounds: Bounds,
    tail: bytearray,
    told_all: anyio.Event,
    note: Callable[[str], None],
    ended: Callable[[str], None],
) -> None:
    stdout = process.stdout
    assert stdout is not None  # noqa: S101 - opened with pipes, two functions above
    lines = _Lines(bounds, note)
    async with incoming:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for chunk in stdout:
                for message in lines.feed(chunk):
                    await incoming.send(message)
                    if isinstance(message, TransportError):
                        return
            if (half := lines.end()) is not None:
                await incoming.send(half)
                return
            # The end of its output: whoever waits for an answer learns why none comes. Why it ends, a server tells
            # on stderr before or after it closes its output, so that is read to its end.
            with anyio.move_on_after(_GRACE_SECONDS):
                await told_all.wait()
            why = f" (its last words on stderr: {_shown(bytes(tail))})" if tail else lines.banner
            remedy = OWN_SERVER if _WHO_MAY_START in tail else CHECK_COMMAND
            ended(f"it closed its output{why}; {remedy}")


class _Lines:
    """Makes messages of what a command prints; the first fault is the last message."""

    def __init__(self, bounds: Bounds, note: Callable[[str], None]) -> None:
        self._bounds = bounds
        self._note = note
        self._received = 0
        self._parts: list[bytes] = []
        self._passed_over = 0
        self.banner = ""
        """What it printed that is no message, in words that can follow a reason; empty if nothing."""

    def feed(self, chunk: bytes) -> "Iterator[SessionMessage | TransportError]":
        self._received += len(chunk)
        over = self._received - self._bounds.received
        # What came whole before the limit counts, as what came before any other fault does.
        *lines, rest = (chunk[:-over] if over > 0 else chunk).split(b"\n")
        for line in lines:
            whole = b"".join((*self._parts, line))
            self._parts = []
            message = self._message(whole)
            if message is not None:
                yield message
        if over > 0:
            yield TransportError(f"it answered with more than {self._bounds.received} bytes; {MALFORMED}")
        self._parts.append(rest)

    def end(self) -> TransportError | None:
        """What is wrong with what came last, if no line end followed it."""
        rest = b"".join(self._parts)
        if b'"jsonrpc"' not in rest:
            return None
        return TransportError(f"its output ended within a line: {_shown(rest)}; {ONLY_FRAMES}")

    def _message(self, line: bytes) -> "SessionMessage | TransportError | None":
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        if not line.strip():
            return None
        if b'"jsonrpc"' not in line and not is_json(line):  # no client can read a message in it
            return self._pass_over(line)
        if found := fault(line):
            reason, unreadable = found
            if unreadable:
                return TransportError(f"{reason}; {MALFORMED}")
            self._note(f"{reason}; {MALFORMED}")
        try:
            return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
        except ValueError:
            return TransportError(f"it printed something that is not JSON-RPC: {_shown(line)}; {ONLY_FRAMES}")

    def _pass_over(self, line: bytes) -> TransportError | None:
        self._passed_over += len(line)
        self.banner = self.banner or f" (on stdout it printed {_shown(line)})"
        if self._passed_over <= _MAX_BANNER:
            return None
        much = f"it printed more than {_MAX_BANNER} bytes that are not JSON-RPC, first {_shown(line)}"
        return TransportError(f"{much}; {ONLY_FRAMES}")


def _shown(data: bytes) -> str:
    text = data[-_TAIL:].decode("utf-8", "replace")
    return repr(text if len(text) <= 120 else text[:120] + "…")


async def _read_stderr(
    process: anyio.abc.Process, incoming: Any, bounds: Bounds, tail: bytearray, told_all: anyio.Event
) -> None:
    stderr = process.stderr
    assert stderr is not None  # noqa: S101 - opened with pipes
    received = 0
    with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        async for chunk in stderr:
            received += len(chunk)
            tail += chunk
            del tail[:-_TAIL]
            if received > bounds.noise:
                much = f"it wrote more than {bounds.noise} bytes to stderr; make its log less verbose"
                await incoming.send(TransportError(much))
                return
    told_all.set()


async def _write_stdin(process: anyio.abc.Process, outgoing: Any) -> None:
    stdin = process.stdin
    assert stdin is not None  # noqa: S101 - opened with pipes
    async for item in outgoing:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        # A server that closed its input is noticed by its silence or by the end of its output: what it said before
        # is still being read then, so whoever writes must neither fail nor wait.
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            await stdin.send(text.encode() + b"\n")


async def _end(process: anyio.abc.Process, lifeline: int, mark: str) -> bool:
    """End the keeper and all that it keeps. False if something of it is still there."""
    if process.stdin is not None:
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await process.stdin.aclose()
    await _exited(process, _GRACE_SECONDS)
    os.close(lifeline)
    await _exited(process, _KILL_SECONDS)
    if process.returncode == 0:
        return True
    # The keeper was killed, by what it kept most likely. What is left is known by its environment.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    nothing_found = 0
    with anyio.move_on_after(_KILL_SECONDS):
        while process.returncode is None or nothing_found < _SURE:
            nothing_found = 0 if _kill_marked(mark) else nothing_found + 1
            await anyio.sleep(_POLL_SECONDS)
        return True
    return False


async def _exited(process: anyio.abc.Process, seconds: float) -> None:
    """Wait for the exit by polling: `wait` also waits for pipes that a grandchild may hold open."""
    with anyio.move_on_after(seconds):
        while process.returncode is None:
            await anyio.sleep(_POLL_SECONDS)


def _kill_marked(mark: str) -> bool:
    """Kill what carries the mark in its environment. True if there was any, which may still be there for a moment."""
    if not sys.platform.startswith("linux"):
        return False
    wanted = f"{_MARK}={mark}".encode()
    found = False
    for entry in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError):
            with open(f"/proc/{entry}/environ", "rb") as environ:
                marked = wanted in environ.read().split(b"\0")
            if marked:
                found = True
                os.kill(int(entry), signal.SIGKILL)
    return found


def _close_transport(process: anyio.abc.Process) -> None:
    """Close the asyncio transport, which stays open while a survivor holds a pipe; nothing public exposes it."""
    transport = getattr(getattr(process, "_process", None), "_transport", None)
    close = getattr(transport, "close", None)
    if callable(close):
        with suppress(PermissionError, ProcessLookupError):
            close()

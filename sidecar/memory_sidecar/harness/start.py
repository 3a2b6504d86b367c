"""The start of a launch: a process, and the first words with it. Whatever keeps it from starting is a `StartError`."""

from collections.abc import Mapping, Sequence
from typing import Final

from ..version import __version__
from . import bounds
from .command import LaunchOptions, StrPath, command_line
from .connection import Connection
from .errors import (
    RequestRefusedError,
    SidecarDiedError,
    SidecarError,
    start_failed,
    start_refused,
)
from .log import Stderr, destination
from .steps import Steps, Wait, answer
from .ticket import EXTENSION

__all__ = ["start"]

_PROTOCOL_VERSION: Final = "2025-11-25"


def start(
    command: Sequence[StrPath] | None, env: Mapping[str, str] | None, stderr: Stderr, options: LaunchOptions
) -> Steps[Connection]:
    """Launch a sidecar and shake hands with it. Whatever keeps that from being done ends the process.

    Raises:
        StartError: it cannot start; the text is the remedy.
        TypeError: there is no such option, or a value is of the wrong type.
    """
    descriptor, log = destination(stderr, options)
    connection = Connection(command_line(command, options), env, descriptor, log)
    try:
        yield from _initialize(connection)
    except BaseException:
        # It has nothing to save.
        yield Wait(connection.end(bounds.KILL_SECONDS), insistent=True)
        raise
    return connection


def _initialize(connection: Connection) -> Steps[None]:
    params = {
        "protocolVersion": _PROTOCOL_VERSION,
        # Runs are opened by name here, so nobody would use the process's own one, nor read its index.
        "capabilities": {"extensions": {EXTENSION: {"ticket": connection.token, "default_run": False}}},
        "clientInfo": {"name": "memory_sidecar.harness", "version": __version__},
    }
    request = connection.request("initialize", params, seconds=bounds.START_SECONDS)
    try:
        yield from answer(request)
    except RequestRefusedError as error:
        raise start_refused(error.code, str(error)) from None
    except SidecarDiedError as error:
        raise start_failed(connection.how) from error
    except SidecarError as error:  # it could not read what every sidecar can
        raise start_failed("what was launched does not speak as a memory sidecar does") from error
    except TimeoutError as error:
        connection.kill()
        raise start_failed() from error
    connection.notify("notifications/initialized")

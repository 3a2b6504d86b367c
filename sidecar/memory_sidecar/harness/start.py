"""The start of a launch: a process, and its first answer. Whatever keeps it from starting is a `StartError`."""

from collections.abc import Mapping, Sequence

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

__all__ = ["start"]


def start(
    command: Sequence[StrPath] | None, env: Mapping[str, str] | None, stderr: Stderr, options: LaunchOptions
) -> Steps[Connection]:
    """Launch a sidecar and hear from it. Whatever keeps that from being done ends the process.

    Raises:
        StartError: it cannot start; the text is the remedy.
        TypeError: there is no such option, or a value is of the wrong type.
    """
    descriptor, log = destination(stderr, options)
    connection = Connection(command_line(command, options), env, descriptor, log)
    try:
        yield from _greet(connection)
    except BaseException:
        # It has nothing to save.
        yield Wait(connection.end(bounds.KILL_SECONDS), insistent=True)
        raise
    return connection


def _greet(connection: Connection) -> Steps[None]:
    """Ask for something cheap, so that what cannot start is known now. It also uses the launch's ticket up."""
    try:
        yield from answer(connection.request("tools/list", {}, seconds=bounds.START_SECONDS))
    except RequestRefusedError as error:
        raise start_refused(error.code, str(error)) from None
    except SidecarDiedError as error:
        raise start_failed(connection.how) from error
    except SidecarError as error:  # it could not read what every sidecar can
        raise start_failed("what was launched does not speak as a memory sidecar does") from error
    except TimeoutError as error:
        connection.kill()
        raise start_failed() from error

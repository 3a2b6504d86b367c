"""The launching side of the ticket: a fresh token in a new private file, used up by the sidecar at its start."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final

from .errors import StartError, remedy_of

__all__ = ["EXTENSION", "launch_environment", "new_ticket", "ticket"]

_TICKET: Final = "MEMORY_SIDECAR_TICKET"
"""The environment variable that carries the ticket's path to the sidecar."""

_PARENT: Final = "MEMORY_SIDECAR_PARENT"
"""The one that says whose child the sidecar is: should this process die before it has looked, it ends all the same."""

_SEARCHED: Final = "PYTHONPATH"
"""Where Python looks for modules first, `sitecustomize` at its start among them."""

EXTENSION: Final = "memory-sidecar/harness"
"""The capability under which a request presents the token: `{"ticket": token}`."""


def new_ticket() -> tuple[str, str]:
    """A ticket for one launch: the path of its file, which is new and private, and its token.

    Raises:
        StartError: there is no place to write it.
    """
    from base64 import urlsafe_b64encode

    token = urlsafe_b64encode(os.urandom(32)).rstrip(b"=")
    try:
        descriptor, path = tempfile.mkstemp(prefix="memory-sidecar-", suffix=".ticket")
    except OSError as error:
        raise _unwritable(error) from error
    try:
        os.fchmod(descriptor, 0o600)  # an umask may have taken the owner's own rights
        os.write(descriptor, token)
    except OSError as error:
        with suppress(OSError):
            os.unlink(path)
        raise _unwritable(error) from error
    finally:
        os.close(descriptor)
    return path, token.decode()


@contextmanager
def ticket() -> Iterator[tuple[str, str]]:
    """A ticket for the block, as `new_ticket` makes it. What the sidecar did not use up is removed."""
    path, token = new_ticket()
    try:
        yield path, token
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


def launch_environment(path: str, env: Mapping[str, str] | None) -> dict[str, str]:
    """The environment of a sidecar that is to use the ticket at `path`: beside that, `env` or this process's own.

    Of PYTHONPATH only absolute elements are kept. An empty one, as in `PYTHONPATH=$PYTHONPATH:/opt/lib`, means the
    working directory: Python would import a `sitecustomize.py` or `memory_sidecar` from there before the sidecar has
    given up any right. A relative one means a place below it.
    """
    surroundings = {**(os.environ if env is None else env), _TICKET: path}
    surroundings.pop(_PARENT, None)  # whoever launched this process is not the one to watch
    searched = surroundings.pop(_SEARCHED, "").split(os.pathsep)
    if kept := [element for element in searched if os.path.isabs(element)]:
        surroundings[_SEARCHED] = os.pathsep.join(kept)
    with suppress(OSError):  # where the system has no such names, nothing is said
        surroundings[_PARENT] = f"{os.getpid()}@{os.readlink('/proc/self/ns/pid')}"
    return surroundings


def _unwritable(error: OSError) -> StartError:
    where = f" in {tempfile.tempdir}" if tempfile.tempdir else ""
    remedy = remedy_of(error, "let TMPDIR name a directory that this user may write to")
    return StartError(f"cannot write the launch ticket{where}: {error.strerror}; {remedy}")

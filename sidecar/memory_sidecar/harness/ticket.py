"""The launching side of the ticket: a fresh token in a new private file, used up by the sidecar at its start."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from .errors import StartError

__all__ = ["EXTENSION", "VARIABLE", "ticket"]

VARIABLE: Final = "MEMORY_SIDECAR_TICKET"
"""The environment variable that carries the ticket's path to the sidecar."""

EXTENSION: Final = "memory-sidecar/harness"
"""The capability under which `initialize` presents the token: `{"ticket": token}`."""


@contextmanager
def ticket() -> Iterator[tuple[str, str]]:
    """A ticket for one launch: its path and its token. What the sidecar did not use up is removed.

    Raises:
        StartError: there is no place to write it.
    """
    from base64 import urlsafe_b64encode

    token = urlsafe_b64encode(os.urandom(32)).rstrip(b"=")
    try:
        descriptor, path = tempfile.mkstemp(prefix="memory-sidecar-", suffix=".ticket")  # mode 0600
    except OSError as error:
        raise _unwritable(error) from error
    try:
        try:
            os.write(descriptor, token)
        except OSError as error:
            raise _unwritable(error) from error
        finally:
            os.close(descriptor)
        yield path, token.decode()
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


def _unwritable(error: OSError) -> StartError:
    where = f" in {tempfile.tempdir}" if tempfile.tempdir else ""
    return StartError(
        f"cannot write the launch ticket{where}: {error.strerror}; let TMPDIR name a directory "
        "that this user may write to"
    )

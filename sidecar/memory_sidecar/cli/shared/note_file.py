"""Files that hold exported notes: read whole and checked, and written whole. What is in them is `store.portable`'s."""

import os
import stat
import sys
from collections.abc import Iterable

from ...exits import EX_USAGE
from ...store.errors import InvalidError
from ...store.portable import Portable, PortableError, decode
from ...store.rules import validate_key
from ...system import files, staging
from .failure import Failure
from .remedy import quoted

__all__ = ["load", "save"]


def load(path: str) -> Portable:
    """The notes in the file at `path`, all of legal keys.

    A note may still be one that no memory takes, as a note that another program stored may be: `transfer.put` refuses
    it by name, and it hides no other.

    Raises:
        Failure: it cannot be read, is not a whole export, or holds an illegal key.
    """
    try:
        if path == "-":
            if sys.stdin is None:
                raise Failure("stdin is closed", "send the file to it, or name the file", status=EX_USAGE)
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}", "check the name") from error
    try:
        found = decode(data)
    except PortableError as error:
        raise Failure(f"{path}: {error.problem}", error.remedy) from error
    keys = [note.key for note in found.notes] if found.raw is None else [found.raw.key]
    for number, key in enumerate(keys, 2 if found.header and found.raw is None else 1):
        try:
            validate_key(key)
        except InvalidError as error:
            raise Failure(f"{path}: line {number}: {error}") from error
    return found


def save(path: str, parts: Iterable[bytes], *, overwrite: bool) -> None:
    """Write the file at `path` from its parts, mode 0600, whole and on disk when this returns.

    Raises:
        Failure: the file exists, or its directory does not.
        OSError: it cannot be written.
    """
    directory, name = os.path.split(os.path.abspath(path))
    if os.path.isdir(path):
        raise Failure(f"{path} is a directory", "name a file in it")
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
        # A device, a FIFO or a link (/dev/stdout is one) would be replaced by a file, not written to.
        raise Failure(f"{path} is not an ordinary file", "name another one, or leave --to out and redirect stdout")
    try:
        with files.open_directory(directory) as opened_directory:
            with staging.staged(opened_directory, b"", parts) as stage:
                publish = staging.publish_over if overwrite else staging.publish_new
                publish(opened_directory, stage, name)
            files.flush(opened_directory)
    except FileNotFoundError as error:
        raise Failure(f"there is no directory {directory}", f"make it first: mkdir -p {quoted(directory)}") from error
    except FileExistsError as error:
        raise Failure(f"{path} exists", "choose another name, or replace it with --overwrite") from error
    except OSError as error:
        raise Failure(f"cannot write {path}: {error.strerror}", "choose another place") from error

"""Files that hold exported notes: checked whole, read note by note, and written whole.

What is in them is `store.portable`'s.
"""

import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, NamedTuple

from ...exits import EX_USAGE
from ...store.errors import InvalidError
from ...store.portable import MAX_LINE, Checked, Lines, Note, PortableError, check, notes
from ...store.rules import validate_key
from ...system import files, staging
from .failure import Failure
from .remedy import quoted

__all__ = ["NoteFile", "opened_file", "save"]


class NoteFile(NamedTuple):
    """A file of notes that is open, and was checked whole. `about` has all but the notes."""

    path: str
    about: Checked
    lines: Lines

    def notes(self) -> Iterator[Note]:
        """Its notes, one in memory at a time.

        Raises:
            Failure: somebody changes the file meanwhile.
        """
        with _named(self.path):
            yield from notes(self.lines, self.about)


@contextmanager
def opened_file(path: str) -> Iterator[NoteFile]:
    """The file of notes at `path`, or stdin for `-`, with legal keys alone.

    What can be read only once, as a pipe, is copied to a file first.

    A note may still be one that no memory takes, as a note that another program stored may be: `transfer.put` refuses
    it by name, and it hides no other.

    Raises:
        Failure: it cannot be read, is not a whole export, or holds an illegal key.
    """
    with _opened(path) as file:
        with _named(path):
            start = file.tell()

        def lines() -> Iterator[bytes]:
            file.seek(start)
            return iter(lambda: file.readline(MAX_LINE + 1), b"")

        with _named(path):
            about = check(lines)
        for key, number in about.keys.items() if about.raw is None else [(about.raw.key, 1)]:
            try:
                validate_key(key)
            except InvalidError as error:
                raise Failure(f"{path}: line {number}: {error}") from error
        yield NoteFile(path, about, lines)


@contextmanager
def _named(path: str) -> Iterator[None]:
    """What goes wrong while the file is read, told with its name."""
    try:
        yield
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}", "check the name") from error
    except PortableError as error:
        raise Failure(f"{path}: {error.problem}", error.remedy) from error


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    """The file, and if it can be read only once a copy, which nobody else can open."""
    with ExitStack() as held:
        if path != "-":
            with _named(path):
                file: BinaryIO = held.enter_context(open(path, "rb"))
        elif sys.stdin is None:
            raise Failure("stdin is closed", "send the file to it, or name the file", status=EX_USAGE)
        else:
            file = sys.stdin.buffer
        yield file if file.seekable() else held.enter_context(_copy(path, file))


def _copy(path: str, file: BinaryIO) -> BinaryIO:
    import tempfile

    with _named(path):
        parts = iter(lambda: file.read(1 << 20), b"")
        try:
            copy: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115 - whoever asks closes it
        except OSError as error:
            raise _no_room(error) from error
        for part in parts:
            try:
                copy.write(part)
                copy.flush()
            except OSError as error:
                copy.close()
                raise _no_room(error) from error
    copy.seek(0)
    return copy


def _no_room(error: OSError) -> Failure:
    problem = f"what comes by a pipe is checked whole before it is used, and cannot be kept meanwhile: {error.strerror}"
    return Failure(problem, "set TMPDIR to a directory with room for it, or give a file")


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

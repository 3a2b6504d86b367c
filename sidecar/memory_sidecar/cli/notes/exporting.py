"""Write a whole memory to one file, for a backup, another machine or another program.

The file is JSON lines in ASCII: a first line that tells what it is, one line a note with its key, description and
content, exact, and a last line with a SHA-256 digest. memory-sidecar import reads it. Without --to it goes to stdout.
A note that cannot be read is named and left out; the rest is exported.

Exit statuses: 0 done; 1 a note could not be read, or the file not written; 64 wrong usage; 78 the configuration or the
memory cannot be used.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from typing import IO, Final

from ...exits import EX_FOUND, EX_USAGE
from ...run.records import timestamp
from ...store.errors import KeyNotFoundError, UnreadableError
from ...store.portable import Note, encode_note, framed
from ..shared.failure import Failure, complain
from ..shared.memory import Memory, opened, unreadable
from ..shared.note_file import save
from ..shared.places import PLACES, add_options, places
from ..shared.report import counted, print_json, progress

__all__ = ["configure", "run"]

_IN_MEMORY: Final = 1 << 20
"""Bytes of notes that are put together in memory."""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--to", metavar="FILE", default="-", help="the file to write, mode 0600; - is stdout (default)")
    parser.add_argument("--overwrite", action="store_true", help="replace FILE if it exists, at once and whole")
    add_options(parser, PLACES)
    parser.add_argument(
        "--json", action="store_true", help="with --to FILE: print what was done as one JSON object instead"
    )


def run(arguments: argparse.Namespace) -> int:
    if not arguments.to:
        raise Failure("--to is empty, which names nothing", "name a file, or leave it out for stdout", status=EX_USAGE)
    to_file = arguments.to != "-"
    if not to_file and arguments.json:
        raise Failure(
            "--json tells about the export, and stdout is the export itself", "add --to FILE", status=EX_USAGE
        )
    if to_file and not arguments.overwrite and os.path.lexists(arguments.to):
        raise Failure(f"{arguments.to} exists", "choose another name, or replace it with --overwrite")
    with _spool(arguments.to if to_file else None) as lines:
        with opened(places(vars(arguments))) as memory:
            count, problems = _read(memory, lines, arguments.to if to_file else None)
        header = {"created": timestamp(), "identity": memory.identity, "backend": memory.backend}
        lines.seek(0)
        size = 0

        def parts() -> Iterator[bytes]:
            nonlocal size
            for part in framed(header, count, lines):
                size += len(part)
                yield part

        if to_file:
            save(arguments.to, parts(), overwrite=arguments.overwrite)
        else:
            for part in parts():
                sys.stdout.buffer.write(part)
    if to_file and arguments.json:
        print_json({"file": arguments.to, "notes": count, "bytes": size, "left_out": list(problems)})
    elif to_file:
        print(f"{counted(count, 'note')}, {size} bytes in {arguments.to}")
    for problem, remedy in problems.values():
        complain(f"left out: {problem}; {remedy}" if remedy else f"left out: {problem}")
    return EX_FOUND if problems else 0


def _spool(path: str | None) -> IO[bytes]:
    """For the notes, as the first line counts them: in memory at first, then a file without a name, as there may be
    more than this process can hold."""
    directory = os.path.dirname(os.path.abspath(path)) if path is not None else None
    if directory is not None and not os.path.isdir(directory):
        directory = None  # told when the file is saved
    return tempfile.SpooledTemporaryFile(_IN_MEMORY, dir=directory)


def _read(memory: Memory, lines: IO[bytes], to: str | None) -> tuple[int, dict[str, tuple[str, str]]]:
    """Write each note's line to `lines`, beside the file `to`; how many those are, and which notes cannot be read."""
    count = 0
    problems: dict[str, tuple[str, str]] = {}
    items = memory.list()
    try:
        with progress("export", len(items)) as bar:
            for item in items:
                try:
                    _put(lines, encode_note(Note(item.key, memory.read(item.key))), to)
                    count += 1
                except KeyNotFoundError:
                    pass  # deleted since it was listed: the export is of a moment when it was gone
                except UnreadableError as error:
                    problems[item.key] = unreadable(memory, item.key, error)
                bar.advance()
    except KeyboardInterrupt:
        stopped = f"stopped after {count} of {counted(len(items), 'note')}"
        complain(f"\n{stopped}; nothing was written: run the same command again")
        raise
    return count, problems


def _put(lines: IO[bytes], line: bytes, to: str | None) -> None:
    try:
        lines.write(line)
    except OSError as error:
        if to is not None:
            raise Failure(f"cannot write {to}: {error.strerror}", "make room there, or choose another place") from error
        raise Failure(
            f"there is no room to put the notes together: {error.strerror}",
            "make room in the directory that TMPDIR names, or give --to FILE",
        ) from error

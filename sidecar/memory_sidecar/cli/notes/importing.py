"""Read notes from a file that memory-sidecar export wrote, or from JSON lines of notes alone.

The whole file is checked before the first note is stored: a file that is damaged, cut short or holds an illegal note
changes nothing. A key that holds another note is reported and left as it is, unless --overwrite is given; a note that
is there already, the same, is skipped. So after an interruption the same command goes on.

Exit statuses: 0 every note of the file is stored; 1 the file cannot be used, or some notes collided or were refused;
64 wrong usage; 78 the configuration or the memory cannot be used.
"""

import argparse
import sys

from ...exits import EX_USAGE
from ...store.errors import InvalidError
from ...store.portable import Note, Portable, PortableError, decode
from ...store.rules import validate_write
from ..shared.failure import Failure, complain
from ..shared.places import PLACES, add_options, places
from ..shared.report import add_json, progress
from .memory import opened
from .transfer import form, print_report, transfer

__all__ = ["configure", "load", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file to read; - is stdin")
    parser.add_argument("--overwrite", action="store_true", help="replace notes that differ from those in FILE")
    parser.add_argument("--dry-run", action="store_true", help="tell what would happen; change nothing")
    add_options(parser, PLACES)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    notes = load(arguments.file).notes
    with (
        opened(
            places(vars(arguments)), write=not arguments.dry_run, make=not arguments.dry_run, empty=arguments.dry_run
        ) as memory,
        progress("import", len(notes)) as bar,
    ):
        report = transfer(
            [lambda note=note: note for note in notes],  # type: ignore[misc]
            len(notes),
            memory,
            overwrite=arguments.overwrite,
            dry_run=arguments.dry_run,
            advance=bar.advance,
        )
    if memory.unused:
        complain(memory.unused)
    return print_report(report, dry_run=arguments.dry_run, as_json=arguments.json)


def load(path: str) -> Portable:
    """The notes in the file at `path`, all of them legal.

    Raises:
        Failure: it cannot be read, is not a whole export, or holds an illegal note.
    """
    try:
        if path == "-":
            if sys.stdin is None:
                raise Failure("stdin is closed; send the file to it, or name the file", EX_USAGE)
            data = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                data = file.read()
    except OSError as error:
        raise Failure(f"cannot read {path}: {error.strerror}; check the name") from error
    try:
        found = decode(data)
    except PortableError as error:
        raise Failure(f"{path}: {error}; nothing was imported") from error
    for number, note in enumerate(found.notes, 2 if found.header else 1):
        _check(path, number, note)
    return found


def _check(path: str, number: int, note: Note) -> None:
    try:
        validate_write(note.key, *form(note.entry))
    except InvalidError as error:
        raise Failure(f"{path}: line {number}: {error}\nnothing was imported") from error

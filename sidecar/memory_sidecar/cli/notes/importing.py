"""Read notes from a file that memory-sidecar export wrote, or from JSON lines of notes alone.

The whole file is checked before the first note is stored: a file that is damaged, cut short or holds an illegal key
changes nothing. It is read note by note, so its size does not matter; what comes by a pipe is kept in TMPDIR meanwhile.
A note that no memory takes (its description is too long, say, or its header is one that cannot be kept) is refused by
name, and the others are stored. A file of the quarantine that keeps something byte for byte puts just that back. A key
that holds another note is reported and left as it is, unless --overwrite is given; a note that is there already, the
same, is skipped. So after an interruption the same command goes on.

Exit statuses: 0 every note of the file is stored; 1 the file cannot be used, or some notes collided or were refused;
64 wrong usage; 78 the configuration or the memory cannot be used.
"""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack

from ..shared.failure import Failure, complain
from ..shared.memory import opened
from ..shared.note_file import NoteFile, opened_file
from ..shared.places import PLACES, add_options, places
from ..shared.report import add_json, progress
from ..shared.transfer import Source, print_report, transfer

__all__ = ["configure", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file to read; - is stdin")
    parser.add_argument("--overwrite", action="store_true", help="replace notes that differ from those in FILE")
    parser.add_argument("--dry-run", action="store_true", help="tell what would happen; change nothing")
    add_options(parser, PLACES)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    with ExitStack() as held:
        try:
            found = held.enter_context(opened_file(arguments.file))
        except Failure as error:
            raise Failure(f"nothing was imported: {error.problem}", error.remedy, status=error.status) from error
        write = not arguments.dry_run
        memory = held.enter_context(
            opened(places(vars(arguments)), write=write, make=write, empty=arguments.dry_run),
        )
        total = len(found.about.keys) + (found.about.raw is not None)
        bar = held.enter_context(progress("import", total))
        report = transfer(
            _sources(found),
            total,
            memory,
            overwrite=arguments.overwrite,
            dry_run=arguments.dry_run,
            advance=bar.advance,
        )
    if memory.unused:
        complain(memory.unused)
    return print_report(report, dry_run=arguments.dry_run, as_json=arguments.json)


def _sources(found: NoteFile) -> Iterator[Source]:
    for note in found.notes():
        yield lambda note=note: note  # type: ignore[misc]
    if (raw := found.about.raw) is not None:
        yield lambda: (raw.key, raw.document)

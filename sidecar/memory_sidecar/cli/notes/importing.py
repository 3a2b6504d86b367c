"""Read notes from a file that memory-sidecar export wrote, or from JSON lines of notes alone.

The whole file is checked before the first note is stored: a file that is damaged, cut short or holds an illegal key
changes nothing. A note that no memory takes (its description is too long, say, or its header is one that cannot be
kept) is refused by name, and the others are stored. A file of the quarantine that keeps something byte for byte puts
just that back. A key that holds another note is reported and left as it is, unless
--overwrite is given; a note that is there already, the same, is skipped. So after an interruption the same command goes
on.

Exit statuses: 0 every note of the file is stored; 1 the file cannot be used, or some notes collided or were refused;
64 wrong usage; 78 the configuration or the memory cannot be used.
"""

import argparse

from ...store.portable import Portable
from ..shared.failure import Failure, complain
from ..shared.memory import opened
from ..shared.note_file import load
from ..shared.places import PLACES, add_options, places
from ..shared.report import add_json, progress
from ..shared.transfer import Source, print_report, transfer

__all__ = ["configure", "load", "run"]


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="the file to read; - is stdin")
    parser.add_argument("--overwrite", action="store_true", help="replace notes that differ from those in FILE")
    parser.add_argument("--dry-run", action="store_true", help="tell what would happen; change nothing")
    add_options(parser, PLACES)
    add_json(parser)


def run(arguments: argparse.Namespace) -> int:
    try:
        found = load(arguments.file)
    except Failure as error:
        raise Failure(f"nothing was imported: {error.problem}", error.remedy, status=error.status) from error
    sources = _sources(found)
    with (
        opened(
            places(vars(arguments)), write=not arguments.dry_run, make=not arguments.dry_run, empty=arguments.dry_run
        ) as memory,
        progress("import", len(sources)) as bar,
    ):
        report = transfer(
            sources,
            len(sources),
            memory,
            overwrite=arguments.overwrite,
            dry_run=arguments.dry_run,
            advance=bar.advance,
        )
    if memory.unused:
        complain(memory.unused)
    return print_report(report, dry_run=arguments.dry_run, as_json=arguments.json)


def _sources(found: Portable) -> list[Source]:
    sources: list[Source] = [lambda note=note: note for note in found.notes]  # type: ignore[misc]
    if found.raw is not None:
        key, document = found.raw.key, found.raw.document
        sources.append(lambda: (key, document))
    return sources

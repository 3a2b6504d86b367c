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

from ...exits import EX_FOUND, EX_USAGE
from ...run.records import timestamp
from ...store.errors import KeyNotFoundError, UnreadableError
from ...store.portable import Note, encode
from ..shared.failure import Failure, complain
from ..shared.memory import Memory, opened, unreadable
from ..shared.note_file import save
from ..shared.places import PLACES, add_options, places
from ..shared.report import print_json, progress

__all__ = ["configure", "run"]


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
    with opened(places(vars(arguments))) as memory:
        notes, problems = _read(memory)
    header = {"created": timestamp(), "identity": memory.identity, "backend": memory.backend}
    data = encode(header, notes)
    if to_file:
        save(arguments.to, data, overwrite=arguments.overwrite)
        if arguments.json:
            print_json({"file": arguments.to, "notes": len(notes), "bytes": len(data), "left_out": list(problems)})
        else:
            print(f"{len(notes)} notes, {len(data)} bytes in {arguments.to}")
    else:
        sys.stdout.buffer.write(data)
    for problem, remedy in problems.values():
        complain(f"left out: {problem}; {remedy}" if remedy else f"left out: {problem}")
    return EX_FOUND if problems else 0


def _read(memory: Memory) -> tuple[list[Note], dict[str, tuple[str, str]]]:
    notes: list[Note] = []
    problems: dict[str, tuple[str, str]] = {}
    items = memory.list()
    try:
        with progress("export", len(items)) as bar:
            for item in items:
                try:
                    notes.append(Note(item.key, memory.read(item.key)))
                except KeyNotFoundError:
                    pass  # deleted since it was listed: the export is of a moment when it was gone
                except UnreadableError as error:
                    problems[item.key] = unreadable(memory, item.key, error)
                bar.advance()
    except KeyboardInterrupt:
        complain(f"\nstopped after {len(notes)} of {len(items)} notes; nothing was written: run the same command again")
        raise
    return notes, problems

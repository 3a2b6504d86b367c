"""List runs, show what one did, prune old ones, export what they did, and tell which runs saw a note.

  memory-sidecar runs                         all runs whose journals are in the journal directory
  memory-sidecar runs show RUN                what it read, wrote and was refused, when
  memory-sidecar runs prune --older-than 30d  remove journals, never one that is open
  memory-sidecar runs export                  all records of all runs as JSON lines, for a log store
  memory-sidecar runs --saw KEY[@REV]         which runs met the note, at which revision

They are the runs of every identity; with --identity or --config of that one. --journal-dir may be given several times.

States: open (a living process has it), suspended, completed, error, budget, max_iterations (how it ended),
interrupted (its process died; it can be resumed). Of journals that cannot be used, which are named with what to do:
damaged, empty (no record in it is whole), newer (a newer version wrote it), misplaced (it is of another run or
identity: a copy), foreign (it is no journal), blocked (it is no file), unreadable, aside (it has
a name that no journal has, as log rotation, a copy or a synchroniser leaves it).

--saw answers the question after a poisoned note was found, in two tables. First the runs that met this very note: read,
created, updated, deleted it; were shown its description as creating what exists was refused; were refused it (an
overwrite, or what the run knew was void); wrote or deleted it with an outcome that is unknown; or held authority that
their harness handed in. Then the runs that were shown all descriptions at once, by the index at their start or by
memory_list, from when to when: whoever listed while the note was stored has seen its description. Both are of every
memory whose runs lie in these journal directories; with --identity or --config, of that one alone, if it is in files.
Of a bucket, which is not asked, they may also have runs of other prefixes; quarantine tells those apart.
Runs on other hosts have journals of their own: collect their journal directories, and name each with --journal-dir.

The journal of a run with a very long history keeps the newest of it. What an answer leaves out is named, and makes it
incomplete: journals that cannot be used, that may have told of the note in what they do not keep, or that are of
another store and mention the key or are of an agent that has been in this memory.

Exit statuses: 0 done; 1 a journal cannot be used or is not kept whole, so that the answer may lack a run, there is no
such run, or for --saw no journal at all; 64 wrong usage; 78 the journal directory or the configuration cannot be used,
or there is no such identity.
"""

import argparse
from collections.abc import Callable
from importlib import import_module
from typing import Final

from ...exits import EX_USAGE
from ...options import OptionsError, age
from ...run.saw import Sought, is_revision
from ...run.terms import REASONS
from ...store.rules import is_key
from ..shared.failure import Failure
from ..shared.places import add_places
from ..shared.report import add_json

__all__ = ["configure", "run"]

_STATES: Final = (*REASONS, "interrupted", "empty", "damaged", "newer", "misplaced")


def configure(parser: argparse.ArgumentParser) -> None:
    add_places(parser, "journal-dir")
    add_json(parser)
    parser.add_argument(
        "--saw", metavar="KEY[@REV]", type=_sought, help="which runs met this note, or were shown all descriptions"
    )
    parser.set_defaults(action=None)
    actions = parser.add_subparsers(metavar="show | prune | export")
    show = actions.add_parser("show", help="what one run did", description="Show what one run did, oldest first.")
    show.add_argument("id", metavar="RUN")
    show.set_defaults(action="show")
    prune = actions.add_parser(
        "prune",
        help="remove journals of runs that are over",
        description="Remove journals: with them goes the authority to resume, and what the ledger tells of their runs. "
        "Never one that is open. Both conditions, if given, must hold; those of suspended and interrupted runs, which "
        "may go on, damaged and misplaced ones, and those of a newer version, go only by their --state. What is no "
        "journal stays.",
    )
    prune.add_argument("--older-than", metavar="AGE", type=_age, help="unused for so long: 45m, 12h, 30d, 4w")
    prune.add_argument("--state", choices=_STATES, action="append", help="in this state; may be repeated")
    prune.add_argument("--dry-run", action="store_true", help="tell what would go; remove nothing")
    prune.set_defaults(action="prune")
    export = actions.add_parser(
        "export",
        help="all records as JSON lines",
        description="Write every record of every run as a line of JSON: run, identity, and the record as it is in the "
        "journal. The schema of a record is journal.schema.json, in the package.",
    )
    export.set_defaults(action="export")
    for action in (show, prune, export):
        add_places(action, "journal-dir")
        if action is not export:
            add_json(action)
        for option in action._actions:  # noqa: SLF001 - or an option before the action would be forgotten
            if option.dest in ("config", "identity", "store_dir", "journal_dir", "json"):
                option.default = argparse.SUPPRESS


def _sought(text: str) -> Sought:
    key, at, revision = text.partition("@")
    if not is_key(key):
        raise argparse.ArgumentTypeError("it takes KEY or KEY@REV, as memory-sidecar show prints them")
    if at and not is_revision(revision):
        # "No run met it" must never be the answer to a revision that no note can have.
        raise argparse.ArgumentTypeError(
            "after @ comes a revision as memory-sidecar show prints it: of a file 8 to 32 of 0-9 a-f, "
            "of a bucket NUMBER or NUMBER@MARK"
        )
    return Sought(key, revision if at else None)


def _age(text: str) -> float:
    try:
        return age(text, "an age:")
    except OptionsError as error:
        raise argparse.ArgumentTypeError("an age is a number and m, h, d or w, as in 30d") from error


def run(arguments: argparse.Namespace) -> int:
    if arguments.action is not None and arguments.saw is not None:
        raise Failure(f"--saw does not go with {arguments.action}", "ask one after the other", status=EX_USAGE)
    action = arguments.action or ("listing" if arguments.saw is None else "saw")
    command: Callable[[argparse.Namespace], int] = import_module(f".{action}", __package__).run
    return command(arguments)

"""`runs --saw KEY[@REV]`: which runs met a note."""

import argparse
import os

from ...assemble import settle
from ...backend.choose import describe, row_of
from ...backend.opened import BackendError
from ...exits import EX_CONFIG, EX_FOUND
from ...run.saw import ANYWHERE, Where, saw
from ..shared.failure import Failure, complain
from ..shared.journals import directories, watched
from ..shared.memory import opened
from ..shared.places import places
from ..shared.report import print_json
from ..shared.sights import as_json, print_answer

__all__ = ["run"]


def run(arguments: argparse.Namespace) -> int:
    where = directories(vars(arguments))
    for directory in where:
        if not os.path.isdir(directory):
            # "Nobody saw it" must never be the answer to a misspelt directory.
            raise Failure(
                f"there is no journal directory {directory}", "check --journal-dir and --store-dir", status=EX_CONFIG
            )
    sought = arguments.saw
    # Of every identity: a memory may be shared, and a poisoned note is not its author's matter alone.
    answer = saw(watched(where), sought, _where(arguments))
    if arguments.json:
        print_json({"key": sought.key, "revision": sought.revision, "journal_dirs": where, **as_json(answer)})
    else:
        print_answer(answer, sought, vars(arguments))
    if not answer.read:
        complain("there is no journal to answer from; check --store-dir, --journal-dir and --identity")
    return 0 if answer.read and answer.complete else EX_FOUND


def _where(arguments: argparse.Namespace) -> Where:
    """The memory that the options name; any, if they name none, or none whose store can be told offline."""
    given = places(vars(arguments) | {"journal_dir": None})
    if given.identity is None and given.config is None:
        return ANYWHERE
    try:
        config, identity = settle(given)
        if row_of(config).connects:
            return Where(prefix=describe(config, identity, given.store_dir).prefix)
        with opened(given) as memory:
            return memory.where(arguments.saw.key)
    except (Failure, BackendError):
        return ANYWHERE

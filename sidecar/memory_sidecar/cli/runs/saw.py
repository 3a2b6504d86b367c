"""`runs --saw KEY[@REV]`: which runs met a note."""

import argparse
import os
from collections.abc import Sequence

from ...assemble import settle
from ...backend.choose import describe, row_of
from ...backend.opened import BackendError
from ...exits import EX_CONFIG, EX_FOUND
from ...run.directory import identity_directory
from ...run.saw import ANYWHERE, Where, saw
from ..shared.failure import Failure, complain
from ..shared.journals import directories, watched
from ..shared.memory import opened
from ..shared.places import places
from ..shared.report import print_json
from ..shared.sights import NO_JOURNAL, as_json, print_answer

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
    answer = saw(watched(where), sought, _where(arguments, where))
    if arguments.json:
        print_json({"key": sought.key, "revision": sought.revision, "journal_dirs": where, **as_json(answer)})
    else:
        print_answer(answer, sought, vars(arguments))
    if not answer.read:
        complain(NO_JOURNAL)
    return 0 if answer.complete else EX_FOUND


def _where(arguments: argparse.Namespace, journal_dirs: Sequence[str]) -> Where:
    """The memory that the options name; any, if they name none, or (told on stderr) none that can be told offline.

    Raises:
        StartError: the configuration cannot be used.
        Failure: the identity has no memory and no run in `journal_dirs`: a misspelt one is never answered.
    """
    given = places(vars(arguments) | {"journal_dir": None})
    if given.identity is None and given.config is None:
        return ANYWHERE
    config, identity = settle(given)
    try:
        if row_of(config).connects:
            return Where(prefix=describe(config, identity, given.store_dir).prefix)
        with opened(given) as memory:
            return memory.where(arguments.saw.key)
    except (Failure, BackendError) as error:
        if identity is not None and not any(os.path.isdir(identity_directory(one, identity)) for one in journal_dirs):
            raise Failure(
                f"{identity} has no memory that can be read, and no run in {', '.join(journal_dirs)}",
                "check --identity, --config and --store-dir; without --identity and --config, all runs are asked",
                status=EX_CONFIG,
            ) from error
        complain(f"note: {error.problem}; so the answer is of the runs of every memory")
        return ANYWHERE

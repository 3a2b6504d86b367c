"""Whose runs a `runs` command is about, and where their journals are."""

import argparse
import os
from collections.abc import Sequence

from ...assemble import settle
from ...exits import EX_CONFIG
from ...run.directory import identities, run_names
from ...system import files
from ..shared.failure import Failure, complain
from ..shared.journals import cannot_read
from ..shared.places import place, places
from ..shared.report import on_terminal

__all__ = ["identity_of", "told_identity"]


def identity_of(arguments: argparse.Namespace) -> str | None:
    """The identity that --identity or the configuration names; None means the runs of all.

    Raises:
        StartError: the configuration cannot be used.
    """
    given = vars(arguments) | {"journal_dir": None}  # several, perhaps, and not asked here
    _, identity = settle(places(given))
    return identity


def told_identity(arguments: argparse.Namespace, where: Sequence[str]) -> str | None:
    """As `identity_of`. That a configuration leaves out runs in the directories `where`, or that the identity has none
    there, is told on stderr.

    Raises:
        StartError: the configuration cannot be used.
        Failure: a directory cannot be read, or one that was named is not there.
    """
    check_named(arguments)
    identity = identity_of(arguments)
    if identity is None:
        return None
    names: list[str] = []
    older = False
    for directory in where:
        try:
            names += identities(directory)
            older = older or bool(run_names(directory))
        except OSError as error:
            raise cannot_read(directory, error) from error
    if arguments.identity is None and set(names) - {identity}:
        complain(f"note: only the runs of {identity}, whom --config names; for those of all agents, leave it out")
    elif identity not in names and not older and not on_terminal():
        complain(f"note: there are no runs of {identity} in {', '.join(where)}")
    return identity


def check_named(arguments: argparse.Namespace) -> None:
    """Do nothing if the directories that the options name are there: "no run" is no answer to a misspelt one.

    Raises:
        Failure: one is not.
    """
    for one in arguments.journal_dir or ([] if arguments.store_dir is None else [arguments.store_dir]):
        option = "--journal-dir" if arguments.journal_dir else "--store-dir"
        path = place(option, one)
        if path is not None and not os.path.lexists(path):
            raise Failure(f"there is no directory {files.absolute(path)}", f"check {option}", status=EX_CONFIG)

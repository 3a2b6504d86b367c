"""Whose runs a `runs` command is about, and where their journals are."""

import argparse
from collections.abc import Sequence

from ...assemble import settle
from ...run.directory import identities
from ..shared.failure import complain
from ..shared.journals import cannot_read
from ..shared.places import places

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
    """As `identity_of`. That a configuration leaves out runs in the directories `where` is told on stderr.

    Raises:
        StartError: the configuration cannot be used.
        Failure: a directory cannot be read.
    """
    identity = identity_of(arguments)
    if identity is None or arguments.identity is not None:
        return identity
    for directory in where:
        try:
            others = [name for name in identities(directory) if name != identity]
        except OSError as error:
            raise cannot_read(directory, error) from error
        if others:
            complain(f"note: only the runs of {identity}, whom --config names; for those of all agents, leave it out")
            break
    return identity

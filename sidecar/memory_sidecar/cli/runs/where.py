"""Whose runs a `runs` command is about, and where their journals are."""

import argparse

from ...assemble import settle
from ..shared.places import places

__all__ = ["identity_of"]


def identity_of(arguments: argparse.Namespace) -> str | None:
    """The identity that --identity or the configuration names; None means the runs of all.

    Raises:
        StartError: the configuration cannot be used.
    """
    given = vars(arguments) | {"journal_dir": None}  # several, perhaps, and not asked here
    _, identity = settle(places(given))
    return identity

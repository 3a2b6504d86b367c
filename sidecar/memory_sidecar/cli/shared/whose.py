"""Whose memory a command is about. An operator's shell is nobody's harness: its name is never taken for an agent's."""

from contextlib import suppress

from ...assemble import Arguments, default_journal_dir
from ...backend.description import Description
from ...exits import EX_CONFIG, StartError
from ...run.directory import identities
from .failure import Failure

__all__ = ["check_named", "memories_there"]


def check_named(where: Description, arguments: Arguments) -> None:
    """Do nothing if it is known whose memory is meant.

    Raises:
        Failure: it is not. The text names the memories that are there.
    """
    if where.named:
        return
    there = memories_there(where, arguments)
    raise Failure(
        "whose memory?" + (f" There are those of {', '.join(there)}" if there else ""),
        f"name the agent with {arguments.option('identity')} NAME, "
        f"or give the {arguments.option('config')} FILE that its harness uses",
        status=EX_CONFIG,
    )


def memories_there(where: Description, arguments: Arguments) -> list[str]:
    """The identities that have a memory in files under the store base, or else journals here; sorted."""
    with suppress(OSError, StartError):
        if where.directory is not None:
            # The names in a directory are judged by the same rule, whatever lies in it.
            return identities(where.directory.parent)
        return identities(arguments.journal_dir or default_journal_dir(arguments.store_dir))
    return []

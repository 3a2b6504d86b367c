"""Whose memory a command is about. An operator's shell is nobody's harness: its name is never taken for an agent's."""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ...assemble import Arguments, default_journal_dir
from ...exits import EX_CONFIG, StartError
from ...run.directory import identities
from .failure import Failure

__all__ = ["check_named", "is_named", "memories_there"]


def is_named(where: Mapping[str, Any]) -> bool:
    """Whether the place of a memory is known, as `backend.choose.describe` tells of it."""
    return where.get("directory", "") is not None and where.get("prefix", "") is not None


def check_named(where: Mapping[str, Any], arguments: Arguments) -> None:
    """Do nothing if it is known whose memory is meant.

    Raises:
        Failure: it is not. The text names the memories that are there.
    """
    if is_named(where):
        return
    there = memories_there(where, arguments)
    raise Failure(
        "whose memory?" + (f" There are those of {', '.join(there)}" if there else ""),
        f"name the agent with {arguments.option('identity')} NAME, "
        f"or give the {arguments.option('config')} FILE that its harness uses",
        status=EX_CONFIG,
    )


def memories_there(where: Mapping[str, Any], arguments: Arguments) -> list[str]:
    """The identities that have a memory in files under the store base, or else journals here; sorted."""
    with suppress(OSError, StartError):
        if "directory" in where:
            # The names in a directory are judged by the same rule, whatever lies in it.
            return identities(os.path.join(arguments.store_dir or "", "memory"))
        return identities(arguments.journal_dir or default_journal_dir(arguments.store_dir))
    return []

"""Where journals lie, and that no directory is taken for two purposes. Nothing is decided here of whose they are."""

import errno
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache

from .exits import StartError
from .run.directory import adopt, identities, identity_directory
from .store.rules import is_key
from .system import disk, files

__all__ = ["default_journal_dir", "keep_apart", "make_journal_dir", "neighbours"]


def default_journal_dir(store_dir: str | None) -> str:
    """Where journals go unless `--journal-dir` says: under the store base, else the user's state directory.

    Never the working directory: a run's authority is not part of whatever project it runs in.

    Raises:
        StartError: neither a store base nor a home directory is known.
    """
    if store_dir is not None:
        return os.path.join(store_dir, "runs")
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # the XDG specification: a relative path is to be ignored
        home = os.path.expanduser("~")
        if not os.path.isabs(home):
            raise StartError("there is no home directory to keep journals in", "set --journal-dir")
        state = os.path.join(home, ".local", "state")
    return os.path.join(state, "memory-sidecar", "runs")


def make_journal_dir(directory: str, identity: str | None) -> str:
    """Make the directory for the journals of `identity`, and move there what an older version left of them.

    For many identities it is the one in which each gets its own, and what is left of any is moved to its own: later
    that could not be done, as no right is kept to give a file a name in another directory.

    Returns where it is. Before the process gives up its rights: afterwards it may write there and nowhere above.

    Raises:
        StartError: it cannot be used.
    """
    own = directory if identity is None else identity_directory(directory, identity)
    try:
        files.make_private_directory(own)
        if not files.is_permitted(own):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        refused = disk.refusal(directory, disk.inspect(own))
        if refused is not None:
            raise StartError(refused.problem, f"{refused.remedy}, or set --journal-dir")
        with suppress(PermissionError):  # who may use that directory alone has left nothing beside it
            adopt(directory, _place_of_any(directory) if identity is None else {identity: own}.get)
    except OSError as error:
        if disk.is_read_only(own):
            raise StartError(
                f"cannot use the journal directory {directory}: its disk is read-only",
                "mount it writable, or set --journal-dir",
            ) from error
        raise StartError(
            f"cannot use the journal directory {directory}: {error.strerror}",
            "make it a directory that this user can read and write, or set --journal-dir",
        ) from error
    return own


def _place_of_any(directory: str) -> Callable[[str], str | None]:
    """The directory for the journals of an identity, made; None if it cannot have one of its own there."""

    @cache
    def place(identity: str) -> str | None:
        from .backend.apart import check_apart
        from .backend.opened import BackendError

        if not is_key(identity):
            return None
        own = identity_directory(directory, identity)
        try:
            check_apart(directory, identity)
            files.make_private_directory(own)
        except (BackendError, OSError):
            return None
        return own

    return place


def keep_apart(only_read: Sequence[str], journal_dir: str) -> None:
    """Where journals are written, the kernel lets files be written: a memory that is only read may not be there.

    Raises:
        StartError: one of the directories is the journal's, holds it or lies in it.
    """
    for directory in only_read:
        if _holds(directory, journal_dir) or _holds(journal_dir, directory):
            raise StartError(
                f"journals would be written to {journal_dir}, where memory is read_only",
                "set --journal-dir to a directory apart from the memory's",
            )


def _holds(directory: str, other: str) -> bool:
    """Whether `other` is `directory` or lies in it, by whatever links and mounts one gets there."""
    if not os.path.exists(directory):
        return False
    path, last = os.path.realpath(other), ""
    while path != last:
        if os.path.exists(path) and os.path.samefile(path, directory):
            return True
        path, last = os.path.dirname(path), path
    return False


def neighbours(own: str) -> list[str]:
    """The identities whose journals lie beside `own`, the directory of one; none if that cannot be seen."""
    with suppress(OSError):
        return identities(os.path.dirname(own))
    return []

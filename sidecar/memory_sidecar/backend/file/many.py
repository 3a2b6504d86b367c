"""Many identities in one process, in files: each has `memory/<identity>`, as in a process of its own."""

import errno
import os

from ...remedy import RemedyError
from ...store.authority import Store
from ...store.contract import Info
from ...store.nowhere import Nowhere
from ...system import files
from ..apart import check_apart
from ..opened import BackendError, Opened, Running
from ..row import Place
from .opening import FileOptions, accept_disk, open_file

__all__ = ["check_many", "open_many"]


def check_many(options: FileOptions) -> None:
    """Raise `BackendError` if the options name one directory for all identities."""
    if options.directory is not None:
        raise BackendError(
            "harness.memory.options.directory is one directory, which many identities would share",
            "leave it out: each identity has memory/<identity> under --store-dir",
        )


def open_many(options: FileOptions, place: Place) -> Running:
    """The directory `memory` under the store base, in which every identity has its own.

    Raises:
        BackendError: it cannot be used.
    """
    base, read_only = place.base, place.read_only
    try:
        shared = files.absolute(os.path.join(base or "", "memory"))
        files.make_private_directory(shared)
        if not files.is_permitted(shared, change=not read_only):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if not read_only:
            accept_disk(shared, options)
    except RemedyError as error:
        raise BackendError(f"the memory directory {error.problem}", error.remedy) from error
    except OSError as error:
        raise BackendError(
            f"cannot use the memory directory {shared}: {error.strerror}",
            "make it a directory that this user can use, or set --store-dir",
        ) from error

    def open_for(identity: str) -> Opened:
        check_apart(shared, identity)
        if read_only and not os.path.isdir(os.path.join(shared, identity)):
            empty = Nowhere("This memory is empty and may only be read.", Info("file", ""))
            return Opened(Store(empty, guard=options.require_read_before_update), "none")
        return open_file(options, identity, base, read_only=read_only, follow=False)

    nobodys = Store(Nowhere("No identity is named.", Info("file", "")), guard=options.require_read_before_update)
    written, read = ((), (shared,)) if read_only else ((shared,), ())
    return Running(Opened(nobodys, "none"), directories=written, only_read=read, open_for=open_for)

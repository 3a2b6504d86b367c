"""The options of the file backend, where its notes are, and what is checked before one of them is touched."""

import errno
import os

from ...hints import Annotated
from ...named_tuple import NamedTuple
from ...observe import log
from ...remedy import RemedyError
from ...store.authority import Store
from ...store.rules import is_key
from ...system import disk, files, staging
from ..opened import BackendError, Opened
from . import swap
from .notes import FileBackend
from .store_id import kept_id, make_id

__all__ = ["FileOptions", "accept_disk", "open_file", "refuse_disk", "resolve_directory", "vouching"]


class FileOptions(NamedTuple):
    """`harness.memory.options` of the file backend."""

    directory: Annotated[str | None, {"pattern": r"^(?!~[^/])[^\u0000]+$"}] = None
    """Where notes are kept; `memory/<identity>` if omitted. A leading `~` is this user's home directory."""
    require_read_before_update: bool = False
    """Refuse an overwrite of what this run has not read, or what has changed since."""
    single_machine: bool = False
    """The operator's word that one machine alone writes there: with it the guard may be on a network file system, whose
    locks other machines may not see."""


def resolve_directory(options: FileOptions, identity: str | None, base: str | None) -> str:
    """The directory of the notes: relative ones are under the store base, else the working directory.

    Raises:
        BackendError: the directory is not one, or has to be named after an identity that is not a legal key.
    """
    if options.directory is not None:
        if not options.directory:
            raise BackendError("harness.memory.options.directory is empty", "name a directory or leave the option out")
        if "\0" in options.directory:
            raise BackendError("harness.memory.options.directory holds a NUL character, which no name can", "remove it")
        try:
            relative = files.at_home(options.directory)
        except RemedyError as error:
            raise BackendError(f"harness.memory.options.directory {error.problem}", error.remedy) from error
    else:
        if identity is None or not is_key(identity):
            raise BackendError(
                f"the identity {identity!r} cannot name a directory",
                "set identity to letters, digits and . _ = - or set harness.memory.options.directory",
            )
        relative = os.path.join("memory", identity)
    try:
        return files.absolute(os.path.join(base or "", relative))
    except RemedyError as error:
        raise BackendError(f"the memory directory {error.problem}", error.remedy) from error


def open_file(
    options: FileOptions, identity: str, base: str | None, *, read_only: bool = False, follow: bool = True
) -> Opened:
    """Make the directory if needed, sweep what dead writers left, and return the store.

    With `read_only` a directory that is there is left as it is: it only has to be readable, and nothing of this store
    but its reading methods may be used. `follow`: the directory may be reached through a link.

    Raises:
        BackendError: the directory cannot be made, read or (unless `read_only`) written.
    """
    directory = resolve_directory(options, identity, base)
    try:
        files.make_private_directory(directory)
        _check_spelling(options, directory, identity)
        with files.open_directory(directory) as opened:
            if not files.is_permitted(directory, change=not read_only):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            if not read_only:
                staging.sweep(opened)
                kept = swap.sweep(opened)
                if kept:
                    log.warning("saves that were displaced are kept in the memory directory", count=len(kept))
        if not read_only:
            accept_disk(directory, options)
        found = kept_id(directory) if read_only else make_id(directory)
    except OSError as error:
        if not read_only and disk.is_read_only(directory):
            raise BackendError(
                f"cannot use the memory directory {directory}: its disk is read-only",
                "mount it writable, or set harness.memory.options.directory",
            ) from error
        raise BackendError(
            f"cannot use the memory directory {directory}: {error.strerror}",
            f"make it a directory that this user can {'read' if read_only else 'read and write'}, "
            "or set harness.memory.options.directory",
        ) from error
    if found.why_not and not read_only:
        log.warning(
            "the memory directory keeps no id, so moving it would end the authority of runs", reason=found.why_not
        )
    store = Store(FileBackend(directory, follow=follow), guard=options.require_read_before_update)
    return Opened(store, f"file:{found.text}", of=lambda other: _beside(options, other, base))


def _check_spelling(options: FileOptions, directory: str, identity: str) -> None:
    """Once the directory is there: of two that are made at one moment under names of the same letters, one is found."""
    parent = os.path.dirname(directory)
    # Otherwise there is no identity of these letters, and the disk tells them apart or has no other.
    if options.directory is None and os.path.isdir(os.path.join(parent, identity.swapcase())):
        from ..apart import check_spelling

        check_spelling(parent, identity)


def _beside(options: FileOptions, identity: str, base: str | None) -> str | None:
    """The fingerprint of the memory that another identity has under the same base."""
    if options.directory is not None or not is_key(identity):
        return None
    try:
        return f"file:{kept_id(resolve_directory(options, identity, base)).text}"
    except (OSError, BackendError):
        return None  # there is none, or none that this user may see


def refuse_disk(directory: str, found: disk.Disk, options: FileOptions) -> RemedyError | None:
    """Why notes cannot be written in `directory`, whatever its owner and mode; None if they can."""
    return disk.refusal(directory, found, vouch=vouching(options))


def vouching(options: FileOptions) -> str:
    """The setting that lets the guard rely on locks which other machines may not see; "" where nothing relies on it."""
    needed = options.require_read_before_update and not options.single_machine
    return "harness.memory.options.single_machine: true" if needed else ""


def accept_disk(directory: str, options: FileOptions) -> None:
    """Return if notes can be written in `directory`, as far as its disk is concerned; tell what that cannot do.

    Raises:
        BackendError: they cannot.
    """
    found = disk.inspect(directory)
    refused = refuse_disk(directory, found, options)
    if refused is not None:
        raise BackendError(refused.problem, refused.remedy)
    if not found.flushes:
        log.warning("the memory directory cannot be flushed", reason=disk.CANNOT_FLUSH)

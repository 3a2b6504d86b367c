"""The id that a directory of notes keeps in itself, so that it is the same memory wherever it is moved or mounted.

The id is made at the first start that may write there. A directory that holds notes by then was used by a version that
told directories apart by their paths: its id is the digest of its path, so that no journal loses its authority. An
empty one gets a random id, so that a directory made anew under an old name is another memory.

What it cannot tell: a copy (`cp -r`, a restored backup) has the id of its original. That gives no run authority over
text that it has not seen, since revisions are digests of the notes.
"""

import os

from ...hints import Final
from ...named_tuple import NamedTuple
from ...system import files, staging
from ...system.digest import digest

__all__ = ["FILE_NAME", "NOT_YET", "StoreId", "kept_id", "make_id"]

FILE_NAME: Final = ".memory-sidecar-id"
"""No note has this name, and no listing shows it."""

NOT_YET: Final = "no start has made one yet"
"""So it stays where all starts are read_only, which write nothing there."""


class StoreId(NamedTuple):
    """The `text` that tells a directory from others. `why_not` says why it is not kept there; "" if it is.

    If not, the text is a digest of the path: then a moved directory counts as another memory.
    """

    text: str
    why_not: str = ""


def kept_id(directory: str) -> StoreId:
    """The id of the directory, as it is found: nothing is made.

    Raises:
        OSError: the directory cannot be opened.
    """
    with files.open_directory(directory) as opened:
        return _kept(opened, directory) or StoreId(_path_digest(directory), NOT_YET)


def make_id(directory: str) -> StoreId:
    """The id of the directory, made if there is none. On disk when this returns, or else the digest of the path.

    Raises:
        OSError: the directory cannot be opened.
    """
    with files.open_directory(directory) as opened:
        found = _kept(opened, directory)
        if found is not None:
            return found
        try:
            with files.locked(opened):
                found = _kept(opened, directory)
                return found or _make(opened, directory)
        except OSError as error:
            # A full disk, most likely. What has the path's digest now gets it as its id later, if notes are written.
            return StoreId(_path_digest(directory), f"it cannot be written ({error.strerror})")


def _kept(opened: int, directory: str) -> StoreId | None:
    try:
        os.stat(FILE_NAME, dir_fd=opened, follow_symlinks=False)
    except FileNotFoundError:
        return None
    try:
        descriptor = files.open_regular(FILE_NAME, opened)
        content = b"" if descriptor is None else files.read_up_to(descriptor, 64)
        if descriptor is not None:
            files.close(descriptor)
    except OSError as error:
        return StoreId(_path_digest(directory), f"{FILE_NAME} cannot be read ({error.strerror})")
    if len(content) != 33 or content[-1:] != b"\n" or content[:-1].strip(b"0123456789abcdef"):
        return StoreId(_path_digest(directory), f"{FILE_NAME} holds something else; remove it")
    return StoreId(content[:-1].decode())


def _make(opened: int, directory: str) -> StoreId:
    """Make the id. The caller holds the directory's lock."""
    with os.scandir(opened) as entries:
        is_used = any(entry.name.endswith(".md") for entry in entries)
    text = _path_digest(directory) if is_used else os.urandom(16).hex()
    with staging.staged(opened, text.encode() + b"\n") as stage:
        staging.publish_new(opened, stage, FILE_NAME)
    files.flush(opened)
    return StoreId(text)


def _path_digest(directory: str) -> str:
    return digest(os.fsencode(os.path.realpath(directory)))

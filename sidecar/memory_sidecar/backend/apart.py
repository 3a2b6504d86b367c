"""What keeps the directories of many identities apart below one directory, whatever the disk takes for one name."""

import os

from .opened import BackendError

__all__ = ["check_apart", "check_spelling"]


def check_apart(directory: str, identity: str) -> None:
    """Return if what `directory` holds under this identity's name is a directory of its own, or nothing yet.

    Raises:
        BackendError: it is a link, or the disk takes another name for this one.
    """
    path = os.path.join(directory, identity)
    if os.path.islink(path):
        raise BackendError(
            f"{path} is a link, and identities that share a process must not share a directory",
            "put a directory in its place, or serve that identity by a process of its own",
        )
    check_spelling(directory, identity)


def check_spelling(directory: str, identity: str) -> None:
    """Return if what `directory` holds under this identity's name is spelt so, or nothing is there yet.

    Raises:
        BackendError: the disk takes another name for this one.
    """
    path, other = os.path.join(directory, identity), os.path.join(directory, identity.swapcase())
    # Only where two spellings find one directory is it worth looking which of them was meant.
    if other != path and os.path.isdir(path) and os.path.isdir(other) and os.path.samefile(path, other):
        with os.scandir(directory) as entries:
            if not any(entry.name == identity for entry in entries):
                raise BackendError(
                    f"the disk does not tell {path} from an identity's of the same letters in another case",
                    "name identities that differ in more than case",
                )

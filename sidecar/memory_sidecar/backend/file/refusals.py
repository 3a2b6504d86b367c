"""What a model reads when the disk refuses: one sentence of what is wrong, one of what to do, never a path."""

import errno

from ...hints import Final
from ...store.errors import UnreadableError

__all__ = ["REPLACED", "TOO_LONG", "closed", "explained", "occupied"]


def occupied() -> UnreadableError:
    return UnreadableError(
        "This key is taken by something that is not a memory. To save what you have, use another key."
    )


def closed() -> UnreadableError:
    return UnreadableError(
        "This memory is stored, but reading it is not permitted. Leave it; its operator must repair it."
    )


def explained(error: OSError) -> str:
    """What the system's error means to somebody who reads and writes notes. Nothing was changed."""
    return _EXPLANATIONS.get(error.errno or 0, _UNEXPLAINED)


_UNEXPLAINED: Final = (
    "The memory store failed. Nothing was changed; try again, and go on without memory if it persists."
)
TOO_LONG: Final = (
    "This key is too long for the file system that the memory is kept on. Nothing was changed; use a shorter key."
)
_NO_SPACE: Final = "The memory store has no space left. Nothing was changed; its operator must free space."
_NO_PERMISSION: Final = "The memory store refused access. Nothing was changed; its operator must permit it."
_MISSING: Final = (
    "The memory store is missing. Nothing was changed; its operator must put it back, and restart the sidecar "
    "if it was made anew."
)
REPLACED: Final = (
    "The memory store was replaced while in use, and this sidecar may not change the new one. Nothing was changed; "
    "its operator must restart the sidecar."
)
_TOO_MANY_FILES: Final = (
    "The memory store could not be opened: too many files are open. Nothing was changed; end other runs, or its "
    "operator must raise the limit of open files (ulimit -n)."
)
_EXPLANATIONS: Final = {
    errno.EMFILE: _TOO_MANY_FILES,
    errno.ENFILE: _TOO_MANY_FILES,
    errno.ENOSPC: _NO_SPACE,
    errno.EDQUOT: _NO_SPACE,
    errno.EFBIG: _NO_SPACE,
    errno.EACCES: _NO_PERMISSION,
    errno.EPERM: _NO_PERMISSION,
    errno.EROFS: _NO_PERMISSION,
    errno.ENOENT: _MISSING,
    errno.EBUSY: "The memory store is busy: another program holds it. Nothing was changed; try again later.",
}

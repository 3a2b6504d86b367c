"""What tests mount is theirs alone: no other program sees it, and none of it outlives a run that is killed."""

import ctypes
import os
import sys
from typing import Final

__all__ = ["keep_to_this_process"]

_CLONE_NEWNS: Final = 0x20000
_MS_REC_PRIVATE: Final = 0x44000


def keep_to_this_process() -> None:
    """Give this thread, and all that it starts from now on, a mount namespace of its own (Linux, root).

    To be called before anything is started that has to see what is mounted later. Where it is not permitted, nothing
    changes.
    """
    if sys.platform == "linux" and os.geteuid() == 0:
        libc = ctypes.CDLL(None)
        if libc.unshare(_CLONE_NEWNS) == 0:
            libc.mount(None, b"/", None, _MS_REC_PRIVATE, None)

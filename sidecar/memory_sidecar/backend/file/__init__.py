"""The file backend.

`opening` makes and checks the directory; `notes` is the backend; `entry` tells what one name holds; `listing` tells
which notes there are; `refusals` has the words for what a disk refuses.
"""

from .notes import FileBackend
from .opening import FileOptions, open_file, refuse_disk, resolve_directory

__all__ = ["FileBackend", "FileOptions", "open_file", "refuse_disk", "resolve_directory"]

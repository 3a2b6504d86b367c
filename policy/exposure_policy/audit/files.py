"""Reads a file that was named for the audit: regular files only, up to a size, without ever blocking on a FIFO."""

import json
import os
import stat
from typing import Any, Final

__all__ = ["ambiguous", "line_of", "read_text", "told", "told_twice"]

_MAX_FILE: Final = 8 * 1024 * 1024


def read_text(path: str) -> str:
    """The text of a file, whatever byte order mark it has.

    Raises:
        OSError: it cannot be opened or read.
        ValueError: it is not a regular file, too large, or not UTF-8.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("it is not a regular file")
        data = file.read(_MAX_FILE + 1)
    if len(data) > _MAX_FILE:
        raise ValueError(f"it is larger than {_MAX_FILE} bytes")
    return data.decode("utf-8-sig")


def ambiguous(text: str | bytes) -> str | None:
    """What makes readers of a JSON text see different things, in words: a key that stands twice. None if nothing does.

    A text that is no JSON is not ambiguous; whoever parses it says so.
    """
    twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        for key, _ in items:
            if key in seen:
                twice.append(key)
            seen.add(key)

    try:
        json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError):
        return None
    return told_twice(twice[0]) if twice else None


def told_twice(key: str) -> str:
    """That a key stands twice, in words."""
    return f"it gives the key {key[:80]!r} twice in one object, and readers differ in which counts"


def told(error: BaseException) -> str:
    """An error of reading or parsing, in one line."""
    text = error.strerror if isinstance(error, OSError) else str(error)
    return text.splitlines()[0] if text else type(error).__name__


def line_of(text: str, name: str) -> int:
    """The line on which a JSON text first has `name` as a string, or 1."""
    at = text.find(json.dumps(name, ensure_ascii=False))
    if at < 0:
        at = text.find(json.dumps(name))
    return text.count("\n", 0, at) + 1 if at >= 0 else 1

"""Lines for the operator on stderr: one event a line, never content, never a wait.

A harness may not read the sidecar's stderr at all. A line that the pipe has no room for is dropped and counted; no
call ever waits for a reader of logs.
"""

import os
import select
import time
from typing import Final

__all__ = ["log"]

_MAX_LINE: Final = 2000
"""Below the 4096 bytes that a pipe with any room takes whole (POSIX guarantees 512, Linux and macOS 4096)."""

_dropped = 0


def log(event: str, **fields: object) -> None:
    """Write one line: time, `event`, and `fields` as key=value. Fields hold ids and codes, never content."""
    global _dropped  # noqa: PLW0603 - there is one stderr
    parts = [time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "memory-sidecar:", event]
    parts += [f"{name}={value}" for name, value in fields.items() if value is not None]
    if _dropped:
        parts.append(f"(lines dropped before this one: {_dropped})")
    line = " ".join(parts).encode("utf-8", "backslashreplace").replace(b"\n", b" ")[:_MAX_LINE] + b"\n"
    try:
        writable = select.poll()
        writable.register(2, select.POLLOUT)
        if any(state & select.POLLOUT for _, state in writable.poll(0)):
            os.write(2, line)
            _dropped = 0
        else:
            _dropped += 1
    except OSError:
        _dropped += 1

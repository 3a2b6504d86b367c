"""Where the sidecar's stderr goes: into a descriptor by itself, or through the library to an object or a logger."""

import io
import json
import logging
import os
import subprocess
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, Final

from .command import LaunchOptions

__all__ = ["Stderr", "copying", "destination"]

Stderr = int | IO[Any] | logging.Logger | None

_MAX_LINE: Final = 65536
"""Bytes of a line that are handed on; the sidecar's own lines are far shorter."""

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}


def destination(stderr: Stderr, options: LaunchOptions) -> tuple[int | None, Callable[[bytes], None] | None]:
    """A descriptor for the process, or what takes the bytes that it writes; for a logger, `options` are filled in.

    Raises:
        TypeError: nothing can be written there.
    """
    if stderr is None or (isinstance(stderr, int) and stderr >= 0) or stderr == subprocess.DEVNULL:
        return stderr, None
    if isinstance(stderr, logging.Logger):
        if options.get("log_format") is None:
            options["log_format"] = "json"
        if options.get("log_level") is None:
            options["log_level"] = _level(stderr)
        return None, _lines(lambda line: _tell(stderr, line))
    with suppress(AttributeError, OSError, ValueError, TypeError):
        descriptor = stderr.fileno()  # type: ignore[union-attr]
        if isinstance(descriptor, int) and descriptor >= 0:
            return descriptor, None
    write = getattr(stderr, "write", None)
    if not callable(write):
        raise TypeError(
            "stderr is where the sidecar's log goes: a file, a descriptor, subprocess.DEVNULL, an object with a write "
            "method, or a logging.Logger; leave it out for this process's own stderr"
        )
    if isinstance(stderr, io.RawIOBase | io.BufferedIOBase):
        return None, _lines(write)
    return None, _lines(lambda line: write(line.decode("utf-8", "replace")))


def copying(descriptor: int, take: Callable[[bytes], None]) -> threading.Thread:
    """A started thread that hands what arrives at `descriptor` to `take`, and nothing at last; then closes it.

    It is a thread of its own, because an object of the harness's may block, and calls must not wait for that.
    """

    def copy() -> None:
        with open(descriptor, "rb", buffering=0) as source:
            while data := source.read(65536):
                take(data)
        take(b"")

    thread = threading.Thread(target=copy, name="memory-sidecar log", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        os.close(descriptor)
        raise
    return thread


def _lines(write: Callable[[bytes], object]) -> Callable[[bytes], None]:
    """What hands whole lines to `write`. One that raises is not asked again: a log must not end a session."""
    kept = bytearray()
    broken = False

    def take(data: bytes) -> None:
        nonlocal broken
        if broken:
            return
        kept.extend(data)
        *lines, rest = bytes(kept).split(b"\n")
        if rest and (not data or len(rest) > _MAX_LINE):
            lines, rest = [*lines, rest], b""
        kept[:] = rest
        try:
            for line in lines:
                write(line + b"\n")
        except Exception:  # noqa: BLE001 - whatever a stranger's object raises
            broken = True

    return take


def _level(logger: logging.Logger) -> Any:
    """What the sidecar has to tell, for this logger to have what it shows."""
    effective = logger.getEffectiveLevel()
    return next((name for name, level in _LEVELS.items() if level >= effective), "error")


def _tell(logger: logging.Logger, line: bytes) -> None:
    """A line of the log as a record: the sidecar's level and event, all that it says in `record.memory_sidecar`."""
    try:
        said = json.loads(line)
        level = _LEVELS[said["level"]]
        event = said["event"]
    except (ValueError, LookupError, TypeError, RecursionError):
        logger.warning("%s", line.decode("utf-8", "replace").rstrip("\n"))
        return
    rest = {name: value for name, value in said.items() if name not in ("level", "event", "time")}
    text = " ".join([str(event), *(f"{name}={value}" for name, value in rest.items())])
    logger.log(level, "%s", text, extra={"memory_sidecar": said})

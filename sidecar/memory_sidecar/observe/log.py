"""Lines for the operator on stderr: one event a line, never content, never a wait.

Fields hold ids, codes, counts and the operator's own settings; never a note's key, description or content, a token
or a tool's arguments. Whatever a field holds, it cannot end its line, begin another or pass for another field.

A harness may not read the sidecar's stderr at all. A line that the pipe has no room for is dropped and counted; no
call ever waits for a reader of logs.
"""

import os
import select
import stat
import threading
import time
from collections.abc import Iterator

from .. import jsontext
from ..hints import Final, Literal

__all__ = [
    "FORMATS",
    "LEVELS",
    "Level",
    "configure",
    "debug",
    "enabled",
    "error",
    "identify",
    "info",
    "problem",
    "warning",
]

Level = Literal["error", "warning", "info", "debug"]
LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "info", "debug")
"""From the fewest lines to the most; each includes those before it."""

FORMATS: Final = ("text", "json")

_MAX_VALUE: Final = 300
"""Characters of a field. What is longer is somebody's attempt to fill the log."""

_MAX_LINE: Final = 4000
"""Bytes. A pipe with any room takes up to 4096 whole, never a part (Linux and macOS; see PIPE_BUF)."""

_PLAIN: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:/@+-"
"""What values are made of that need no quotes in a text line."""


class _Sink:
    """Where lines go, and how many did not. There is one stderr."""

    def __init__(self) -> None:
        self.level: Level = "warning"
        self.json = False
        self.descriptor = 2
        self.identity: str | None = None
        """Whose memory this process serves, once that is known."""
        self.dropped = 0
        self.torn = False
        """Whether the last write left half a line, as a terminal's may."""
        self.lock = threading.Lock()


_sink = _Sink()
_encode: Final = jsontext.encoder()


def configure(level: Level = "warning", log_format: str = "text") -> None:
    """Say which lines are written, and how. Called once, before the process gives up its rights.

    Opening the pipe behind stderr anew gives this process a description of its own, which can be non-blocking
    without changing that of the others who write there.
    """
    _sink.level = level
    _sink.json = log_format == "json"
    if _sink.descriptor == 2 and _may_fill_up(2):
        try:
            _sink.descriptor = os.open("/proc/self/fd/2", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:  # no /proc, or another user's pipe: `_write` asks before it writes
            _sink.descriptor = 2


def identify(identity: str) -> None:
    """Name whose memory this process serves, on every line from now on: a fleet's lines meet in one place."""
    _sink.identity = identity


def _may_fill_up(descriptor: int) -> bool:
    """Whether it is a pipe or a terminal. A file opened anew would lose its position, and a socket can't be."""
    try:
        mode = os.fstat(descriptor).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def enabled(level: Level) -> bool:
    """Whether lines of this level are written: for callers whose fields cost something."""
    return LEVELS.index(level) <= LEVELS.index(_sink.level)


def error(event: str, **fields: object) -> None:
    """Something failed that should not have, or the process can't serve."""
    _log("error", event, fields)


def warning(event: str, **fields: object) -> None:
    """Memory works, but not as the operator wants it to."""
    _log("warning", event, fields)


def info(event: str, **fields: object) -> None:
    """What an operator follows a healthy process by: it starts, runs open and end."""
    _log("info", event, fields)


def debug(event: str, **fields: object) -> None:
    """Every call."""
    _log("debug", event, fields)


def problem(failure: BaseException) -> str:
    """What failed and where, for a line of the log: kinds, system errors and places in the code.

    An exception whose text is known to be fit for a log has it as `for_log`. No other exception's own text is told:
    whatever could not be handled may be quoted there, a note, a path that ends in a key, a setting.
    """
    parts = []
    for one in _chain(failure):
        where = _place(one)
        words = one.strerror if isinstance(one, OSError) else getattr(one, "for_log", "")
        said = f" ({words})" if words else ""
        parts.append(f"{type(one).__name__}{said}{f' at {where}' if where else ''}")
    return ", from ".join(parts)


def _chain(failure: BaseException) -> Iterator[BaseException]:
    one: BaseException | None = failure
    for _ in range(5):
        if one is None:
            return
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)


def _place(failure: BaseException) -> str:
    trace = failure.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    return f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}"


def _log(level: Level, event: str, fields: dict[str, object]) -> None:
    if not enabled(level):
        return
    whose = {"identity": _sink.identity, "pid": os.getpid()}
    shown = {name: _shortened(value) for name, value in {**whose, **fields}.items() if value is not None}
    now = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now * 1000) % 1000:03d}Z"
    with _sink.lock:
        if _sink.dropped:
            shown["dropped"] = _sink.dropped
        line = _json_line(stamp, level, event, shown) if _sink.json else _text_line(stamp, level, event, shown)
        if _write(line):
            _sink.dropped = 0
        else:
            _sink.dropped += 1


def _shortened(value: object) -> str | int | float | bool:
    if isinstance(value, bool | int | float):
        return value
    text = str(value)
    return text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + "..."


def _json_line(stamp: str, level: Level, event: str, fields: dict[str, str | int | float | bool]) -> bytes:
    whole = {"time": stamp, "level": level, "event": event, **fields}
    line = _encode(whole).encode() + b"\n"
    if len(line) > _MAX_LINE:  # a cut line would be no JSON: only its head is kept
        head = {"time": stamp, "level": level, "event": event, "pid": os.getpid(), "cut": True}
        line = _encode(head).encode() + b"\n"
    return line


def _text_line(stamp: str, level: Level, event: str, fields: dict[str, str | int | float | bool]) -> bytes:
    parts = [stamp, "memory-sidecar", f"{level}:", event]
    parts += [f"{name}={_quoted(value)}" for name, value in fields.items()]
    return " ".join(parts).encode("ascii", "backslashreplace")[: _MAX_LINE - 1] + b"\n"


def _quoted(value: str | int | float | bool) -> str:
    if isinstance(value, str) and value and value.isascii() and not value.encode().translate(None, _PLAIN):
        return value
    # As JSON in ASCII: quotes, controls, line ends of every kind and letters that imitate others are escaped.
    return _encode(value)


def _write(line: bytes) -> bool:
    """Whether the line was taken. It waits for nobody."""
    try:
        if not _has_room(_sink.descriptor):
            return False
        whole = b"\n" + line if _sink.torn else line
        _sink.torn = os.write(_sink.descriptor, whole) != len(whole)
    except OSError:
        return False
    return not _sink.torn


def _has_room(descriptor: int) -> bool:
    """Whether a write would not wait. Asked of a non-blocking descriptor too: it may have been unavoidable."""
    writable = select.poll()
    writable.register(descriptor, select.POLLOUT)
    return any(state & select.POLLOUT for _, state in writable.poll(0))

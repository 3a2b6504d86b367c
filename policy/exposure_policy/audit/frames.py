"""What one message may look like on the wire, however it is framed. Pure: bytes in, messages and reasons out.

A message is judged as bytes before anybody parses it: a parser keeps one of two equal keys and doesn't say which, and
some kilobytes of brackets are megabytes once they are parsed.
"""

import json
import re
from collections.abc import Iterator
from typing import Final

from .files import ambiguous

__all__ = ["EventData", "fault", "is_json"]

MAX_PARTS: Final = 500_000
"""Of one message: its objects, lists, keys and values, roughly. A listing of 10,000 real tools has fewer."""
_PARTS: Final = (b"{", b"[", b",", b":")
_LINE_END: Final = re.compile(rb"\r\n|\n|\r")


def fault(message: bytes) -> tuple[str, bool] | None:
    """What is wrong with a message, in words, and whether it must not be parsed at all. None if nothing is."""
    if sum(map(message.count, _PARTS)) > MAX_PARTS:
        return f"one message has more than {MAX_PARTS} parts", True
    if twice := ambiguous(message):
        return twice, False
    return None


def is_json(line: bytes) -> bool:
    """Whether some reader takes it for JSON: an object or a list, whatever is in it."""
    text = line.strip().removeprefix(b"\xef\xbb\xbf")
    if not text.startswith((b"{", b"[")):
        return False
    try:
        json.loads(text)
    except RecursionError:
        return True
    except ValueError:
        return False
    return True


class EventData:
    """Splits a stream of server-sent events into the data of each, as the HTML standard says.

    Lines end with LF, CR or both, wherever the chunks of the stream are cut; the `data` lines of one event are joined.
    An event that the stream's end cuts off counts too: some client may take it.
    """

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._begun = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of each event that is complete with this chunk."""
        looked = max(0, len(self._rest) - 1)  # a long line that comes in small chunks is not looked through again
        self._rest += chunk
        found: list[bytes] = []
        start = 0
        for end in list(_LINE_END.finditer(self._rest, looked)):
            if end[0] == b"\r" and end.end() == len(self._rest):
                break  # a line feed may follow, which belongs to it
            found += self._line(bytes(self._rest[start : end.start()]))
            start = end.end()
        del self._rest[:start]
        return found

    def end(self) -> list[bytes]:
        """The data of the event that the end of the stream leaves."""
        return [*self._line(bytes(self._rest).removesuffix(b"\r")), *self._line(b"")]

    def _line(self, line: bytes) -> Iterator[bytes]:
        if not self._begun:
            self._begun = True
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            if self._data:
                yield b"\n".join(self._data)
            self._data = []
        elif line == b"data" or line.startswith(b"data:"):
            self._data.append(line[5:].removeprefix(b" "))

"""The id of a message that is not parsed: one that is too long to be kept, or that holds a value nobody can read.

Whoever waits for an answer must be told, so the id is looked for wherever it stands. The bytes are gone through once,
in pieces, without recursion and without keeping them: only what lies directly in the outermost object is looked at,
and of that only a few kilobytes.
"""

from .. import jsontext
from ..hints import Final
from .messages import RequestId, is_id

__all__ = ["MAX_ID", "Outline"]

MAX_ID: Final = 4096
"""Bytes of an id that is looked for in this way. Real ones have at most a few dozen."""

_TEXT: Final = rb'[^"\\]*'
_REST: Final = rb'[^"{}\[\]:,]*'
_WANTED: Final = {b'"%s"' % name.encode(): name for name in ("id", "method", "result", "error")}
_decode: Final = jsontext.decoder()
_QUOTE, _BACKSLASH = b'"'[0], b"\\"[0]


class Outline:
    """Fed with the bytes of one message. As `json.loads` has it, the last of two members of one name counts."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = False
        self._escaped = False
        self._mark = b""
        """The last structural character of the outermost object; empty before it begins."""
        self._token = b""
        """What has been read of the member's name or value since that mark."""
        self._name = b""
        self._broken = False
        self._members: dict[str, bytes] = {}

    def feed(self, data: bytes) -> None:
        """Go through the next piece."""
        place, end = 0, len(data)
        while place < end and not self._broken:
            place = self._read_text(data, place) if self._in_text else self._read_rest(data, place)

    @property
    def needs_no_answer(self) -> bool:
        """Whether it was a whole message that nobody waits for: a notification, or a response."""
        members = self._members
        if not self._is_whole:
            return False
        return "id" not in members if "method" in members else "result" in members or "error" in members

    def request_id(self) -> RequestId | None:
        """The id, if the message was whole and has one that MCP takes."""
        token = self._members.get("id") if self._is_whole else None
        if token is None or len(token) > MAX_ID:
            return None
        try:
            found = _decode(token.decode("utf-8", "surrogatepass"))
        except ValueError:
            return None
        return found if is_id(found) else None

    @property
    def _is_whole(self) -> bool:
        return not self._broken and self._depth == 0 and self._mark == b"}"

    def _read_text(self, data: bytes, place: int) -> int:
        if self._escaped:
            self._escaped = False
            self._keep(data[place : place + 1])
            return place + 1
        stop = _end_of(_TEXT, data, place)
        self._keep(data[place : stop + 1])
        if stop < len(data):
            self._escaped = data[stop] == _BACKSLASH
            self._in_text = data[stop] != _QUOTE
        return stop + 1

    def _read_rest(self, data: bytes, place: int) -> int:
        stop = _end_of(_REST, data, place)
        if self._depth == 0 and data[place:stop].strip():
            self._broken = True  # something before the object or behind it
        self._keep(data[place:stop])
        if stop < len(data):
            self._read_mark(data[stop : stop + 1])
        return stop + 1

    def _read_mark(self, mark: bytes) -> None:
        if self._depth == 0 and (self._mark or mark != b"{"):
            self._broken = True
        elif mark == b'"':
            self._keep(mark)
            self._in_text = True
        elif mark in b"{[":
            self._begin(mark)
        elif mark in b"}]":
            self._end(mark)
        elif self._depth == 1:
            self._take()
            self._mark = mark

    def _begin(self, mark: bytes) -> None:
        if self._depth == 0:
            self._mark = mark
        else:
            self._keep(mark)  # as a value, this is no id
        self._depth += 1

    def _end(self, mark: bytes) -> None:
        if self._depth == 1:
            self._take()
            self._mark = mark
        self._depth -= 1

    def _take(self) -> None:
        """A mark ends what came before it: a name before a colon, and the value after it."""
        token, self._token = self._token.strip(), b""
        if self._mark != b":":
            self._name = token
        elif self._name in _WANTED:
            self._members[_WANTED[self._name]] = token

    def _keep(self, part: bytes) -> None:
        if self._depth == 1 and len(self._token) <= MAX_ID:
            self._token += part[: MAX_ID + 1]


def _end_of(pattern: bytes, data: bytes, place: int) -> int:
    """Where what matches `pattern` from `place` on ends."""
    import re

    found = re.compile(pattern).match(data, place)
    return found.end() if found else place

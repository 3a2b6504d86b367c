"""A whole memory as one file: JSON lines in ASCII, which any program reads and every transport leaves alone.

    {"format": "memory-sidecar/export", "version": 1, "created": ..., "identity": ..., "backend": ..., "notes": 2}
    {"key": ..., "description": ..., "content": ...}
    {"key": ..., "description": ..., "content": ..., "header": ...}
    {"notes": 2, "sha256": ...}

JSON, not the stored documents: it is exact for every text, and the same whatever backend kept it. The last line holds
the digest of all bytes before it, so that a file cut short or changed is noticed. `header` stands only in notes that
have one (`contract.Entry`). A file of the quarantine may hold one value byte for byte, and then no notes (`Raw`). Other
programs may leave the first and the last line out and write notes alone. Pure: no file is touched here.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final

from ..named_tuple import NamedTuple
from .contract import Entry

__all__ = [
    "Note",
    "Portable",
    "PortableError",
    "Raw",
    "decode",
    "encode",
    "encode_note",
    "framed",
    "members",
    "raw_members",
]

FORMAT: Final = "memory-sidecar/export"
VERSION: Final = 1


class Note(NamedTuple):
    """One note with its key."""

    key: str
    entry: Entry


class Raw(NamedTuple):
    """What stood under a key and is kept byte for byte, because it is no note that could be read or put back as one."""

    key: str
    description: str
    document: bytes


class Portable(NamedTuple):
    """What a file holds. `header` is empty where it had none."""

    header: Mapping[str, Any]
    notes: Sequence[Note]
    raw: Raw | None = None
    """In a file of the quarantine, in the stead of notes."""


_ANOTHER_FILE: Final = "give a file that memory-sidecar export wrote, or lines of notes, each a JSON object"
_MEND: Final = "mend that line, or take another copy of the file"


class PortableError(ValueError):
    """The file is not a whole export. `problem` says where, and `remedy` what to do; as text it is both."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem = problem
        self.remedy = remedy


def encode(header: Mapping[str, Any], notes: Sequence[Note]) -> Iterator[bytes]:
    """The file's bytes in parts. `header` is what to say beside format, version and count."""
    return framed(header, len(notes), map(encode_note, notes))


def encode_note(note: Note) -> bytes:
    """The line of one note."""
    return _line({"key": note.key, **members(note.entry)})


def framed(header: Mapping[str, Any], count: int, lines: Iterable[bytes]) -> Iterator[bytes]:
    """As `encode`, of that many notes whose lines are there already, however large they are together."""
    seen = hashlib.sha256()
    for line in chain((_line({"format": FORMAT, "version": VERSION, **header, "notes": count}),), lines):
        seen.update(line)
        yield line
    yield _line({"notes": count, "sha256": seen.hexdigest()})


def members(entry: Entry) -> dict[str, str]:
    """The entry as members of a JSON object; without `header` where it has none."""
    return {name: value for name, value in entry._asdict().items() if value or name != "header"}


def raw_members(raw: Raw) -> dict[str, str]:
    """What `header` has in its member `quarantine` for something that is kept byte for byte."""
    return raw._asdict() | {"document": b64encode(raw.document).decode()}


def _raw(header: Mapping[str, Any]) -> Raw | None:
    about = header.get("quarantine")
    if not isinstance(about, dict) or "document" not in about:
        return None
    try:
        document = b64decode(str(about["document"]), validate=True)
    except ValueError as error:
        raise PortableError("line 1: its document is not base64", _MEND) from error
    return Raw(str(about.get("key")), str(about.get("description", "")), document)


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def decode(data: bytes) -> Portable:
    """Read a whole file, before any of it is used.

    Raises:
        PortableError: a line is not what it should be, a key stands twice, or the file is cut short or changed.
    """
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    if not lines:
        raise PortableError("it is empty", "export again")
    header: Mapping[str, Any] = {}
    first = _object(lines[0], 1)
    start = 0
    if "format" in first:
        header, start = first, 1
        _check_header(header)
        _check_end(data, lines)
        lines.pop()
    notes: dict[str, Note] = {}
    for number, line in enumerate(lines[start:], start + 1):
        note = _note(_object(line, number), number)
        if note.key in notes:
            raise PortableError(f"line {number}: its key stands on an earlier line too", "remove one of the two")
        notes[note.key] = note
    if header and header.get("notes") != len(notes):
        raise PortableError("its first line and the notes it holds do not agree", "export it again")
    return Portable(header, list(notes.values()), _raw(header))


def _check_header(header: Mapping[str, Any]) -> None:
    if header["format"] != FORMAT:
        raise PortableError("line 1: this is a file of another format", _ANOTHER_FILE)
    if header.get("version") != VERSION:
        raise PortableError(
            f"line 1: it is of version {header.get('version')!r:.20}, and this program reads {VERSION}",
            "import it with the release that wrote it, and export it for this one",
        )


def _check_end(data: bytes, lines: Sequence[bytes]) -> None:
    try:
        end = _object(lines[-1], len(lines))
    except PortableError:
        end = {}  # cut within a line
    if set(end) != {"notes", "sha256"} or len(lines) < 2:
        raise PortableError("it is cut short: its last line is missing", "copy or export it again, whole")
    body = data[: data.rindex(lines[-1])]
    if end["sha256"] != hashlib.sha256(body).hexdigest():
        raise PortableError(
            "it was changed after it was written: its digest does not match", "take another copy, or export it again"
        )


class _TwiceError(ValueError):
    """One object has a name twice, of which readers keep either."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise _TwiceError(name)
        found[name] = value
    return found


def _object(line: bytes, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line, object_pairs_hook=_pairs)
    except _TwiceError as error:
        raise PortableError(
            f"line {number}: the name {error.args[0]!a:.60} stands twice in it", "remove one"
        ) from error
    except (ValueError, RecursionError) as error:
        raise PortableError(f"line {number}: it is not JSON", _ANOTHER_FILE if number == 1 else _MEND) from error
    if not isinstance(value, dict):
        raise PortableError(f"line {number}: it is not a JSON object", _ANOTHER_FILE if number == 1 else _MEND)
    return value


def _note(value: Mapping[str, Any], number: int) -> Note:
    names = {"key", "description", "content"}
    if set(value) - {"header"} != names or not all(isinstance(text, str) for text in value.values()):
        raise PortableError(
            f"line {number}: a note has key, description and content, perhaps header, each a text, and nothing else",
            _MEND,
        )
    return Note(value["key"], Entry(value["description"], value["content"], value.get("header", "")))

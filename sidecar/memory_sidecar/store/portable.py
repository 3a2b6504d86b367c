"""A whole memory as one file: JSON lines in ASCII, which any program reads and every transport leaves alone.

    {"format": "memory-sidecar/export", "version": 1, "created": ..., "identity": ..., "backend": ..., "notes": 2}
    {"key": ..., "description": ..., "content": ...}
    {"key": ..., "description": ..., "content": ..., "header": ...}
    {"notes": 2, "sha256": ...}

JSON, not the stored documents: it is exact for every text, and the same whatever backend kept it. The last line holds
the digest of all bytes before it, so that a file cut short or changed is noticed. `header` stands only in notes that
have one (`contract.Entry`). A file of the quarantine may hold one value byte for byte, and then no notes (`Raw`). Other
programs may leave the first and the last line out and write notes alone. A file is read line by line, more than once:
it is checked whole before any of it is used, and is in memory never. Pure: no file is touched here.
"""

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from io import BytesIO
from itertools import chain
from typing import Any, Final

from ..named_tuple import NamedTuple
from .contract import Entry

__all__ = [
    "MAX_LINE",
    "Checked",
    "Lines",
    "Note",
    "Portable",
    "PortableError",
    "Raw",
    "check",
    "decode",
    "encode",
    "encode_note",
    "framed",
    "members",
    "notes",
    "raw_members",
]

FORMAT: Final = "memory-sidecar/export"
VERSION: Final = 1
MAX_LINE: Final = 96 << 20
"""Bytes of a line. A bucket can hold a message of 64 MiB, and the quarantine keeps it in base64."""


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


def encode(header: Mapping[str, Any], all_notes: Sequence[Note]) -> Iterator[bytes]:
    """The file's bytes in parts. `header` is what to say beside format, version and count."""
    return framed(header, len(all_notes), map(encode_note, all_notes))


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
    """Read a file that is in memory, before any of it is used.

    Raises:
        PortableError: a line is not what it should be, a key stands twice, or the file is cut short or changed.
    """
    lines = partial(BytesIO, data)
    checked = check(lines)
    return Portable(checked.header, list(notes(lines, checked)), checked.raw)


class Checked(NamedTuple):
    """What is known of a file that was read once, without its notes."""

    header: Mapping[str, Any]
    raw: Raw | None
    keys: Mapping[str, int]
    """The keys of its notes in their order, each with the number of its line."""
    digests: Sequence[bytes]
    """Of the line of each note."""


Lines = Callable[[], Iterable[bytes]]
"""Reads a file anew, from its first line; each line with its end, and none longer than `MAX_LINE` and one byte more."""


def check(lines: Lines) -> Checked:
    """Read a whole file and keep none of its notes, however large they are together.

    Raises:
        PortableError: a line is not what it should be, a key stands twice, or the file is cut short or changed.
    """
    first = next(iter(lines()), b"")
    if not first:
        raise PortableError("it is empty", "export again")
    header = _object(first, 1)
    count: int | None = None
    if "format" in header:
        _check_header(header)
        count = _check_end(lines())
    else:
        header = {}
    keys: dict[str, int] = {}
    digests: list[bytes] = []
    for number, line in _noted(lines, count):
        key = _note(line, number).key
        if key in keys:
            raise PortableError(f"line {number}: its key stands on an earlier line too", "remove one of the two")
        keys[key] = number
        digests.append(_digest(line))
    if header and header.get("notes") != len(keys):
        raise PortableError("its first line and the notes it holds do not agree", "export it again")
    return Checked(header, _raw(header), keys, digests)


def notes(lines: Lines, checked: Checked) -> Iterator[Note]:
    """The notes of a file that was checked, one at a time.

    Raises:
        PortableError: a line is not any more what it was then.
    """
    count = len(checked.keys) + 2 if checked.header else None
    digests = iter(checked.digests)
    for number, line in _noted(lines, count):
        if next(digests, b"") != _digest(line):
            raise PortableError(f"line {number}: the file was changed while it was read", "import it again, unchanged")
        yield _note(line, number)
    if next(digests, None) is not None:
        raise PortableError("the file was cut while it was read", "import it again, unchanged")


def _noted(lines: Lines, count: int | None) -> Iterator[tuple[int, bytes]]:
    """The lines of notes, with their numbers; of a file of `count` lines in a frame, those between the outer two."""
    for number, line in enumerate(lines(), 1):
        if count is None or 1 < number < count:
            yield number, line


def _digest(line: bytes) -> bytes:
    return hashlib.blake2b(line, digest_size=16).digest()


def _check_header(header: Mapping[str, Any]) -> None:
    if header["format"] != FORMAT:
        raise PortableError("line 1: this is a file of another format", _ANOTHER_FILE)
    if header.get("version") != VERSION:
        raise PortableError(
            f"line 1: it is of version {header.get('version')!r:.20}, and this program reads {VERSION}",
            "import it with the release that wrote it, and export it for this one",
        )


def _check_end(lines: Iterable[bytes]) -> int:
    """How many lines the file has, if its last one tells the digest of the others."""
    seen, count, last = hashlib.sha256(), 0, b""
    for line in lines:
        seen.update(last)
        count, last = count + 1, line
    try:
        end = _object(last, count)
    except PortableError:
        end = {}  # cut within a line
    if set(end) != {"notes", "sha256"} or count < 2:
        raise PortableError("it is cut short: its last line is missing", "copy or export it again, whole")
    if end["sha256"] != seen.hexdigest():
        raise PortableError(
            "it was changed after it was written: its digest does not match", "take another copy, or export it again"
        )
    return count


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
    if len(line) > MAX_LINE:
        raise PortableError(f"line {number}: it is longer than {MAX_LINE} bytes, and no note is", _ANOTHER_FILE)
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


def _note(line: bytes, number: int) -> Note:
    value = _object(line, number)
    names = {"key", "description", "content"}
    if set(value) - {"header"} != names or not all(isinstance(text, str) for text in value.values()):
        raise PortableError(
            f"line {number}: a note has key, description and content, perhaps header, each a text, and nothing else",
            _MEND,
        )
    return Note(value["key"], Entry(value["description"], value["content"], value.get("header", "")))

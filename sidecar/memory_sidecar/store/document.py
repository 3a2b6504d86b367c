"""A note as bytes, the same for every backend: a YAML header with `description`, then the body.

    ---
    description: One line about it
    ---

    The body, byte for byte.

A header that another program or a person wrote may hold more, or say the same in other bytes. Then all of it, from the
first byte to the body, is `Entry.header`, and `serialize` puts it back as it stood, with only the description's value
replaced where that differs. So an entry tells every byte of its document: `restored` makes the same document of it.
The description of a header that no YAML reader takes is read by its line, as the text that stands there.

What is written is one line that every YAML reader takes as the same text, by two rules that a sweep over all code
points proves: unremarkable ASCII words stand bare, everything else stands in single quotes.
"""

from ..hints import TYPE_CHECKING, Final
from .contract import Entry
from .errors import InvalidError, UnreadableError
from .rules import MAX_DESCRIPTION, MAX_ENTRY_BYTES, MAX_READ_BYTES, is_text, one_line

if TYPE_CHECKING:
    import re

    from .front_matter import Fields

__all__ = [
    "HEADER_BYTES",
    "UNREADABLE",
    "check_text",
    "other_lines",
    "parse",
    "parse_description",
    "restored",
    "serialize",
]

UNREADABLE: Final = "(unreadable)"
"""The description under which a listing shows an entry that cannot be read."""

HEADER_BYTES: Final = 4096 + 64
"""How much of a document `parse_description` needs at most, for any header that is ours alone."""

# No colon, hash or quote mark.
_PLAIN: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789 ,.;()/_+=*!?&%-"
_OPENING: Final = b"---\ndescription: "
_CLOSING: Final = b"\n---\n"
# Words that one YAML version or another reads as a boolean or null.
_RESERVED: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})

_BOM: Final = b"\xef\xbb\xbf"
# The blank line before the body is one of the header's own kind, so that a body's first line end is never taken for it.
_FENCED: Final = rb"(?ms)---[ \t]*\r?\n(?P<yaml>.*?)^---[ \t]*(?:\r\n(?:\r\n)?|\n\n?|\Z)"


def serialize(description: str, content: str, header: str = "") -> bytes:
    """The stored form of a validated write (`rules.validate_write`), at most `rules.MAX_ENTRY_BYTES`.

    `header` is that of an `Entry`, to be kept.

    Raises:
        InvalidError: `header` cannot be kept: it is no header, takes no description, or is too long for this content.
    """
    if not is_text(header):
        raise _not_kept()
    if header in ("", _BOM.decode()):
        # With a byte order mark before it, the implementation in Go would take the header for a part of the text.
        return f"{_own_header(description)}{content}".encode()
    try:
        return _kept(description, content, header)
    except InvalidError:
        if not _holds_description_alone(header):
            raise
        # Nothing is lost with it: the description is replaced, in a form of it that takes no other.
        return f"{_own_header(description)}{content}".encode()


def _kept(description: str, content: str, header: str) -> bytes:
    kept = _with_description(header, description) + _separator(header, content)
    document = f"{kept}{content}".encode()
    if len(document) > MAX_ENTRY_BYTES:
        room = MAX_ENTRY_BYTES - len(kept.encode())
        raise InvalidError(
            "The content does not fit beside the header lines that another program keeps in this memory. "
            + (f"Shorten it to {room} bytes, or use another key." if room > 0 else "Use another key.")
        )
    if parse(document) not in (Entry(description, content, kept), Entry(description, content)):
        raise _not_kept()
    return document


def restored(entry: Entry) -> bytes:
    """The document that `parse` read as `entry`, byte for byte, at most `rules.MAX_ENTRY_BYTES`.

    An entry of another origin, which no document reads as, is given the form that `serialize` writes.

    Raises:
        InvalidError: there is none: the header is none, or takes no description, or all of it is too long.
    """
    if not is_text("".join(entry)):
        raise _not_kept()
    if entry.header or not entry.description:
        document = f"{entry.header}{entry.content}".encode()
        if len(document) <= MAX_ENTRY_BYTES and parse(document) == entry:
            return document
    return serialize(*entry)


def parse(document: bytes) -> Entry:
    """Read a stored document, of other programs and editors too: CRLF line ends, a byte order mark, no header.

    Without a header the whole text is the content and the description is empty. `Entry.header` is what stands in front
    of the content wherever that is anything else than what `serialize` writes for the description alone; of a text
    without a header that is its byte order mark, if it has one. A description is brought to the stored
    form (`rules.one_line`), but never cut: one longer than `rules.MAX_DESCRIPTION` is returned whole.

    Raises:
        UnreadableError: it is not UTF-8, or larger than any legal entry.
    """
    check_text(document)
    if usual := _usual_header(document):
        description, end = usual
        return _entry(description, document, end)
    fenced, offset = _fenced(document)
    fields = _fields(fenced)
    if fenced is None or fields is None:
        return Entry("", document[offset:].decode(), document[:offset].decode())
    return _entry(one_line(fields.description or ""), document, fenced.end())


def _entry(description: str, document: bytes, end: int) -> Entry:
    header = document[:end].decode()
    is_own = bool(description) and header == _own_header(description)
    return Entry(description, document[end:].decode(), "" if is_own else header)


def parse_description(prefix: bytes, size: int) -> str | None:
    """The description of a document of `size` bytes that starts with `prefix`; None if more is needed.

    Never looks past the prefix, so it does not notice damage in a longer body. A description longer than
    `rules.MAX_DESCRIPTION`, which no write stores, is cut and ends in `…`: a listing stays bounded.

    Raises:
        UnreadableError: the prefix is not UTF-8, or the document is larger than any legal entry.
    """
    if size > MAX_READ_BYTES:
        raise _too_large()
    try:
        if not prefix.isascii():
            prefix.decode()
    except UnicodeDecodeError as error:
        # A character cut by the end of the prefix is no damage.
        if len(prefix) == size or error.start < len(prefix) - 3:
            raise _not_text() from error
        prefix, size = prefix[: error.start], max(size, error.start + 1)
    if usual := _usual_header(prefix):
        description, end = usual
        return None if end == len(prefix) < size else _shortened(description)
    fenced, offset = _fenced(prefix)
    start = offset if fenced is None else fenced.end()
    # A header may go on past the prefix; so may the line that seems to end one.
    if len(prefix) < size and (start == len(prefix) or (fenced is None and _may_open_header(prefix))):
        return None
    fields = _fields(fenced)
    return _shortened(one_line(fields.description or "")) if fields is not None else ""


def other_lines(header: str) -> str:
    """What an `Entry.header` holds beside fences and description, as it stands there; "" if nothing."""
    if not header:
        return ""
    fenced, _ = _fenced(header.encode())
    fields = _fields(fenced)
    return fields.others if fields is not None else ""


def check_text(document: bytes) -> None:
    """Raise `UnreadableError` unless `document` is UTF-8 text no larger than a legal entry."""
    if len(document) > MAX_READ_BYTES:
        raise _too_large()
    try:
        document.decode()
    except UnicodeDecodeError as error:
        raise _not_text() from error


def _too_large() -> UnreadableError:
    return UnreadableError(
        "This memory is stored, but it is larger than an entry may be. Leave it; its operator must shorten it."
    )


def _not_text() -> UnreadableError:
    return UnreadableError("This memory is stored, but it is not UTF-8 text. Leave it; its operator must repair it.")


def _not_kept() -> InvalidError:
    return InvalidError(
        "This memory has header lines of another program that cannot be kept with this description. "
        "Leave it, and save what you have under another key."
    )


def _own_header(description: str) -> str:
    return f"---\ndescription: {_scalar(description)}\n---\n\n"


def _scalar(description: str, *, bare: bool = True) -> str:
    if bare and description.isascii() and _is_plain(description.encode()) and description.lower() not in _RESERVED:
        return description
    # `rules.one_line` has left nothing that single quotes cannot hold: no line break, control or noncharacter.
    return "'" + description.replace("'", "''") + "'"


def _is_plain(line: bytes) -> bool:
    """Whether a description stands bare: a letter first, so nothing that YAML could take for a number, date or sign."""
    return line[:1].isalpha() and line[-1:] != b" " and not line.translate(None, _PLAIN)


def _usual_header(document: bytes) -> tuple[str, int] | None:
    """The description and the end of a header that says it on one line as ours do; None for any other.

    A launch reads a thousand, so this does without a pattern, and each line of it counts.
    """
    if document[: len(_OPENING)] != _OPENING or (end := document.find(_CLOSING)) < 0:
        return None
    line = document[len(_OPENING) : end]
    description = line.decode() if _is_plain(line) else _quoted(line.decode())
    if description is None:
        return None
    if "  " in description:
        # Its only white space is spaces, and it holds nothing else that the stored form replaces.
        description = " ".join(description.split())
    end += len(_CLOSING)
    return description, end + (document[end : end + 1] == b"\n")


def _quoted(scalar: str) -> str | None:
    """What a YAML scalar in quotes says, where that needs no YAML reader: on one line, and nothing in it is escaped."""
    quote, text = scalar[:1], scalar[1:-1]
    if len(scalar) < 2 or scalar[-1] != quote or not text.isprintable():
        return None
    if quote == "'" and "'" not in text.replace("''", ""):
        return text.replace("''", "'").strip(" ")
    if quote == '"' and '"' not in text and "\\" not in text:
        return text.strip(" ")
    return None


def _fenced(document: bytes) -> "tuple[re.Match[bytes] | None, int]":
    """The block between the fences, if there is one, and the offset of a text that has none."""
    import re

    offset = len(_BOM) if document.startswith(_BOM) else 0
    return re.compile(_FENCED).match(document, offset), offset


def _fields(fenced: "re.Match[bytes] | None") -> "Fields | None":
    """What stands between the fences, if they are a header's."""
    if fenced is None:
        return None
    from .front_matter import read  # of use only where another program or a special description is at hand

    return read(fenced["yaml"].decode())


def _may_open_header(prefix: bytes) -> bool:
    head = prefix.removeprefix(_BOM)
    return b"---".startswith(head[:3]) or _BOM.startswith(head)


def _shortened(line: str) -> str:
    return line if len(line) <= MAX_DESCRIPTION else line[:MAX_DESCRIPTION] + "…"


def _with_description(header: str, description: str) -> str:
    """`header` with this description in place of its own; as it stood if that is the same.

    Raises:
        InvalidError: it is no header, or takes none.
    """
    fenced, _ = _fenced(header.encode())
    fields = _fields(fenced)
    if fenced is None or fields is None or fenced.end() != len(header.encode()):
        raise _not_kept()
    if fields.description is not None and one_line(fields.description) == description:
        return header
    before, after = header.encode()[: fenced.start("yaml")].decode(), header.encode()[fenced.end("yaml") :].decode()
    line_end = "\r\n" if before.endswith("\r\n") else "\n"
    edited = fields.with_description(_scalar(description, bare=not fields.flow), line_end)
    if edited is None:
        raise _not_kept()
    return before + edited + after


def _holds_description_alone(header: str) -> bool:
    fenced, _ = _fenced(header.encode())
    fields = _fields(fenced)
    whole = fenced is not None and fenced.end() == len(header.encode())
    return whole and fields is not None and fields.description is not None and not fields.others.strip()


def _separator(header: str, content: str) -> str:
    """What must stand between a header and the content for the content to be read back as it is."""
    line_end = "\r\n" if header.endswith("\r\n") else "\n"
    if not header.endswith("\n"):
        return line_end * 2 if content else ""
    closed_by_blank_line = header.endswith(line_end * 2)
    return line_end if content.startswith(line_end) and not closed_by_blank_line else ""

"""A note as bytes, the same for every backend: a YAML header holding only `description`, then the body.

    ---
    description: One line about it
    ---

    The body, byte for byte.

A real YAML library writes and reads the header. The one exception is decided by `_PLAIN`: a line of
unremarkable ASCII words, which every YAML reader takes as itself; skipping the library there keeps launch
and listings fast, and a property test holds both ways equal.
"""

import re
from typing import Final

from .contract import Entry
from .errors import UnreadableError
from .rules import MAX_DESCRIPTION, MAX_ENTRY_BYTES, one_line

__all__ = ["HEADER_BYTES", "UNREADABLE", "check_text", "parse", "parse_description", "serialize"]

UNREADABLE: Final = "(unreadable)"
"""The description under which a listing shows an entry that cannot be read."""

HEADER_BYTES: Final = 4096 + 64
"""How much of a document `parse_description` needs at most, for any header that `serialize` writes."""

# No colon, hash or quote mark; a letter first, so nothing that YAML could take for a number, date or sign.
_PLAIN: Final = r"[A-Za-z](?:[A-Za-z0-9 ,.;()/_+=*!?&%-]*[A-Za-z0-9,.;()/_+=*!?&%-])?"
_PLAIN_TEXT: Final = re.compile(_PLAIN)
_PLAIN_HEADER: Final = re.compile(rb"---\ndescription: (" + _PLAIN.encode() + rb")\n---\n\n?")
# Words that one YAML version or another reads as a boolean or null; the library leaves some of them bare.
_RESERVED: Final = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})

_BOM: Final = b"\xef\xbb\xbf"
_HEADER: Final = re.compile(rb"---[ \t]*\r?\n(?P<yaml>.*?)^---[ \t]*(?:\r?\n(?:\r?\n)?|\Z)", re.DOTALL | re.MULTILINE)


def serialize(description: str, content: str) -> bytes:
    """The stored form of a validated write (`rules.validate_write`), at most `rules.MAX_ENTRY_BYTES`."""
    if _PLAIN_TEXT.fullmatch(description) is not None:
        quote = "'" if description.lower() in _RESERVED else ""
        header = f"description: {quote}{description}{quote}\n"
    else:
        import yaml

        # Not the C dumper: libyaml escapes every character beyond U+FFFF to ten bytes, past the budget.
        # An unlimited width keeps the header on one line; other readers fold differently.
        header = yaml.dump({"description": description}, Dumper=yaml.SafeDumper, allow_unicode=True, width=float("inf"))
    return f"---\n{header}---\n\n{content}".encode()


def parse(document: bytes) -> Entry:
    """Read a stored document, hand-edited ones included: CRLF line ends, a byte order mark, no header.

    Without a header of ours the whole text is the content and the description is empty, so that nothing that is
    stored is hidden from a reader. A hand-written description is brought to the stored form.

    Raises:
        UnreadableError: it is not UTF-8, or larger than any legal entry.
    """
    check_text(document)
    description, start = _header(document)
    return Entry(description, document[start:].decode())


def parse_description(prefix: bytes, size: int) -> str | None:
    """The description of a document of `size` bytes that starts with `prefix`; None if more is needed.

    Never looks past the header, so it does not notice damage in a body.

    Raises:
        UnreadableError: the prefix is not UTF-8, or the document is larger than any legal entry.
    """
    _check_size(size)
    description, start = _header(prefix)
    # A header may go on past the prefix; so may the line that seems to end one.
    if len(prefix) < size and (start == len(prefix) or (start <= len(_BOM) and _may_open_header(prefix))):
        return None
    if not description:
        try:
            prefix.decode()
        except UnicodeDecodeError as error:
            # A character cut by the end of the prefix is no damage.
            if len(prefix) == size or error.start < len(prefix) - 3:
                raise _not_text() from error
    return description


def check_text(document: bytes) -> None:
    """Raise `UnreadableError` unless `document` is UTF-8 text no larger than a legal entry."""
    _check_size(len(document))
    try:
        document.decode()
    except UnicodeDecodeError as error:
        raise _not_text() from error


def _check_size(size: int) -> None:
    if size > MAX_ENTRY_BYTES:
        raise UnreadableError(
            "This memory is stored, but it is larger than an entry may be. Leave it; its operator must shorten it."
        )


def _not_text() -> UnreadableError:
    return UnreadableError("This memory is stored, but it is not UTF-8 text. Leave it; its operator must repair it.")


def _header(document: bytes) -> tuple[str, int]:
    """The description and the offset of the body; ("", 0 or past the byte order mark) without a header."""
    if plain := _PLAIN_HEADER.match(document):
        # Its only white space is spaces, and it holds nothing else that the stored form replaces.
        return _shortened(" ".join(plain[1].decode().split())), plain.end()
    offset = len(_BOM) if document.startswith(_BOM) else 0
    found = _HEADER.match(document, offset)
    if found is not None:
        description = _description_in(found["yaml"])
        if description is not None:
            return description, found.end()
    return "", offset


def _may_open_header(prefix: bytes) -> bool:
    head = prefix.removeprefix(_BOM)
    return b"---".startswith(head[:3]) or _BOM.startswith(head)


def _description_in(header: bytes) -> str | None:
    import yaml

    # The base loader reads every scalar as the text it is written as: a date stays the text of a date.
    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    try:
        fields = yaml.load(header.decode(), Loader=loader)  # noqa: S506 - builds only str, list and dict
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        return None
    description = fields.get("description") if isinstance(fields, dict) else None
    if not isinstance(description, str):
        return None
    return _stored_form(description)


def _stored_form(description: str) -> str:
    return _shortened(one_line(description))


def _shortened(line: str) -> str:
    return line[:MAX_DESCRIPTION].rstrip()

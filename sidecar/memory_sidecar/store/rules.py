"""The limits and what makes a key, a description and a content legal. The same for every backend.

Every method of every backend validates here before it touches its store.
"""

from collections.abc import Collection

from ..hints import Final
from ..plain import shows
from .errors import InvalidError, StoreFullError

__all__ = [
    "KEY",
    "MAX_CONTENT_BYTES",
    "MAX_DESCRIPTION",
    "MAX_ENTRIES",
    "MAX_ENTRY_BYTES",
    "MAX_KEY",
    "MAX_READ_BYTES",
    "are_keys",
    "check_capacity",
    "is_key",
    "is_text",
    "normalize_description",
    "one_line",
    "validate_key",
    "validate_write",
]

MAX_KEY: Final = 200
"""Characters in a key. With `.md` it stays below the 255 bytes that file systems allow a name."""

MAX_DESCRIPTION: Final = 500
"""Code points in a description after normalisation."""

# The three sizes are numbers of their own: what is written may become smaller from one release to the next, and then
# neither what is stored nor the buckets that operators have made become wrong.

MAX_CONTENT_BYTES: Final = 64 * 1024
"""The write limit: content, counted in UTF-8 bytes. What a NATS KV value carries comfortably."""

MAX_ENTRIES: Final = 1024
"""Entries in one store. An overwrite replaces an entry that already counted."""

MAX_ENTRY_BYTES: Final = 69600
"""The bucket cap: a whole stored document, which a bucket must take. Content of 64 KiB, twice the description's longest
UTF-8 form, because YAML may quote and escape what it holds, and 64 bytes for the header's fixed lines. At least
`MAX_CONTENT_BYTES + 2 * 4 * MAX_DESCRIPTION + 64`."""

MAX_READ_BYTES: Final = 69600
"""The read limit: a stored document that is larger is unreadable. What an earlier release was allowed to write must be
read whole by every later one, so it only ever grows."""

# Legal NATS KV key characters that are also safe in a filename. The slash is left out so that a key maps
# to one flat filename; a dot stands only between two others, so never outside and never beside another.
KEY: Final = r"[A-Za-z0-9_=-]+(?:\.[A-Za-z0-9_=-]+)*"
_KEY_CHARACTERS: Final = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._=-"

# Compiled when first used, by `re` and its cache: only a write needs them, and they would be a fiftieth of a launch.
# Line breaks and controls would break a one-line header; noncharacters are not for interchange (Unicode
# 23.7). YAML has to escape them and the byte order mark, and where it escapes one character it spends ten bytes on
# every one beyond U+FFFF, past the budget above. Surrogates are refused in what is written, but a hand-edited
# header can escape one.
_NOT_TEXT: Final = (
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\ufdd0-\ufdef\ufeff"
    + "".join(chr(plane * 0x10000 + 0xFFFE) + chr(plane * 0x10000 + 0xFFFF) for plane in range(17))
    + "]"
)


def is_key(text: str) -> bool:
    """Whether `text` is a legal key: `[A-Za-z0-9._=-]`, at most `MAX_KEY`, no outer dot and no `..`."""
    # As `KEY` says it, but a launch asks of a thousand names, and to compile a pattern takes longer than all of that.
    return (
        0 < len(text) <= MAX_KEY
        and text.isascii()
        and not text.encode().translate(None, _KEY_CHARACTERS)
        and "." not in (text[0], text[-1])
        and ".." not in text
    )


def are_keys(texts: Collection[str]) -> bool:
    """Whether all of them are legal keys: one look at a thousand, for the price of some twenty."""
    framed = "\n".join(["", *texts, ""])
    return (
        framed.isascii()
        and framed.count("\n") == len(texts) + 1
        and not framed.encode().translate(None, _KEY_CHARACTERS + b"\n")
        and not any(illegal in framed for illegal in ("\n\n", "..", "\n.", ".\n"))
        and max(map(len, texts), default=0) <= MAX_KEY
    )


def is_text(text: str) -> bool:
    """Whether UTF-8 can say it: there is no half of a surrogate pair in it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def validate_key(key: str) -> None:
    """Raise `InvalidError` unless `key` is legal. The message does not repeat the key: it may be hostile."""
    if not is_key(key):
        raise InvalidError(
            f"This key is not legal. Use 1 to {MAX_KEY} letters, digits and . _ = - with no dot at either end "
            "and no two dots together."
        )


def normalize_description(description: str) -> str:
    """The form of a description that is stored: one line, single spaces, nothing around it.

    Raises:
        InvalidError: it is empty or shows nothing, is longer than `MAX_DESCRIPTION` code points once
            normalised, or holds half of a surrogate pair.
    """
    if not is_text(description):
        raise InvalidError("The description holds a broken character. Send it as valid Unicode text.")
    line = one_line(description)
    if not shows(line):
        raise InvalidError("The description is empty. Describe in one line what this memory holds.")
    if len(line) > MAX_DESCRIPTION:
        raise InvalidError(
            f"The description has {len(line)} characters; at most {MAX_DESCRIPTION} are allowed. "
            "Shorten it to one line and put the rest into the content."
        )
    return line


def one_line(text: str) -> str:
    """`text` with every line break, control, noncharacter, byte order mark and run of white space as one space."""
    # Nothing of what it replaces is printable, so most texts do without the pattern.
    if not text.isprintable():
        import re

        text = re.sub(_NOT_TEXT, " ", text)
    return " ".join(text.split())


def validate_write(key: str, description: str, content: str) -> str:
    """Check all three parts of a write and return the description to store.

    Raises:
        InvalidError: a part breaks its rule; nothing may be stored.
    """
    validate_key(key)
    line = normalize_description(description)
    if not is_text(content):
        raise InvalidError("The content holds a broken character. Send it as valid Unicode text.")
    size = len(content.encode())
    if size > MAX_CONTENT_BYTES:
        raise InvalidError(
            f"The content has {size} bytes; at most {MAX_CONTENT_BYTES} are allowed. "
            "Shorten it or split it over several keys."
        )
    return line


def check_capacity(entries: int) -> None:
    """Raise `StoreFullError` if a store of `entries` entries has no room for one more."""
    if entries >= MAX_ENTRIES:
        # What a run did not write may be a person's own: no model is told to remove that, however much there is.
        # To delete one makes room only where nobody has stored more than ours would.
        free = "Overwrite or delete" if entries == MAX_ENTRIES else "Overwrite"
        raise StoreFullError(
            f"The memory is full: it holds {entries} entries, and may hold {MAX_ENTRIES}. "
            f"{free} one that you wrote and that is no longer needed, or go on without; "
            "its operator must make room for more."
        )

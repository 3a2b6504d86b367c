"""Untrusted text made safe to show: in the index, in a refusal that quotes it, on a terminal.

A note may have been planted. What is shown of it must not close the block it stands in, forge a line, drive a
terminal, imitate a chat template or carry text that a person cannot see. The results of tools never come through here:
they give description and body as they are stored, inside JSON and as data. What an operator reads on a terminal does
(`visible`).
"""

from .hints import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import re

__all__ = ["neutralise", "shows", "visible"]

# What shows as nothing, though it is a letter, a mark or a symbol (so neither `str.isprintable` nor the
# category Cf finds it): fillers of Hangul, Khmer inherent vowels, Mongolian and other variation selectors,
# the combining grapheme joiner, the blank Braille pattern, musical null notehead, Egyptian blanks and format
# controls (newer than the Unicode of older interpreters); and what Unicode reserves as default-ignorable, so
# that it stays harmless when it is assigned.
_INVISIBLE: Final = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U00013430-\U0001343f\U00013441\U00013442\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_HIDDEN: Final = f"[{_INVISIBLE}]"

# Characters that are, or that a normaliser (NFC, NFKC, NFKD) turns into, a delimiter of the index block or of
# a chat template. The replacements look alike, mean the same (what was crossed out stays crossed out) and normalise to
# themselves.
_LOOKALIKE: Final = {
    ord(char): shown
    for chars, shown in (
        ("<\ufe64\uff1c", "\u2039"),
        (">\ufe65\uff1e", "\u203a"),
        ("\u226e", "\u2039\u0338"),
        ("\u226f", "\u203a\u0338"),
        ("|\uff5c\ufe33\uffe8", "\u00a6"),
        ("\uff3b\ufe47", "\u2045"),
        ("\uff3d\ufe48", "\u2046"),
    )
    for char in chars
}

# Of what is printable, all that is hidden, has a look-alike or may open a bracket. The other characters that are left
# out or become a space are not printable: controls, formats, private use, surrogates, noncharacters, separators.
_TOUCHED: Final = f"[{_INVISIBLE}{''.join(map(chr, _LOOKALIKE))}\\[]"

# `[INST]`, `[ /INST ]`, `[UNUSED_TOKEN_146]`, `[gMASK]`, `[control_8]`: a bracket around one word of capitals, or
# around names of some models, in whatever form a normaliser would make plain (full-width, circled, mathematical).
# Other brackets are ordinary, as in `[RFC2119]`.
_BRACKETED: Final = r"\[(?=\s*([^\[\]\s]+)\s*\])"
_TEMPLATE_WORD: Final = r"/?(?:[A-Z_]+(?:_[0-9]+)?|[gs]MASK|control_[0-9]+)"


def neutralise(text: str, limit: int | None = None) -> str:
    """`text` as one safe line, at most `limit` characters (the last one `…` where it was cut).

    Controls, line breaks and runs of white space become one space; invisible characters, private use,
    surrogates and noncharacters go; delimiters become harmless look-alikes. Letters of every script and emoji stay.
    """
    # The common case, and the only one that launch time meets often: what needs no work.
    if not text.isprintable() or _is_touched(text):
        text = _unusual(text)
    # Its only white space is spaces by now.
    line = " ".join(text.split()) if "  " in text or text != text.strip(" ") else text
    if limit is not None and len(line) > limit:
        return _cut(line, limit - 1).rstrip() + "…"
    return line


def _is_touched(text: str) -> bool:
    """Whether `_unusual` changes something in a text of printable characters."""
    if text.isascii():
        return "<" in text or ">" in text or "|" in text or "[" in text
    import re

    return re.search(_TOUCHED, text) is not None


def _cut(line: str, length: int) -> str:
    """At most `length` characters of `line`. None loses the marks on it: one that is crossed out means its opposite."""
    if not line.isascii():
        from unicodedata import combining

        while length and combining(line[length]):
            length -= 1
    return line[:length]


# Format characters that are drawn: signs of Arabic, Syriac and Kaithi that hold a number.
_DRAWN: Final = frozenset("\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd")


def shows(text: str) -> bool:
    """Whether `text` holds a character that is drawn. Private-use ones are: a font gives them a shape."""
    if any(char > " " and char != "\x7f" for char in text if char.isascii()):
        return True
    from unicodedata import category

    return any(char in _DRAWN or category(char) == "Co" or not (char.isspace() or _hides(char)) for char in text)


# Parts of emoji and of words in some scripts. One alone is left out; several together are a hiding place.
_JOINERS: Final = frozenset("\u200c\u200d\ufe0e\ufe0f")


def visible(text: str, *, lines: bool = True) -> str:
    """`text` for a person's terminal, where what hides should rather be seen: a poisoned note is looked at here.

    What a terminal would obey or not show is written out, as `\\x1b` or `\\u202e`. Line breaks and tabs stay, unless
    `lines` is false: then the result is one line.
    """
    if lines:
        text = text.replace("\r\n", "\n")
    if text.isascii() and text.isprintable():
        return text
    shown = []
    for index, char in enumerate(text):
        if not _hides(char) or (lines and char in "\n\t"):
            shown.append(char)
        elif char not in _JOINERS or _hides(text[index - 1 : index]) or _hides(text[index + 1 : index + 2]):
            shown.append(char.encode("ascii", "backslashreplace").decode() if char > "\x7f" else f"\\x{ord(char):02x}")
    return "".join(shown)


def _hides(char: str) -> bool:
    import re
    from unicodedata import category

    if not char:
        return False
    kind = category(char)
    return (
        kind in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        or (kind == "Cn" and _is_noncharacter(ord(char)))
        or re.match(_HIDDEN, char) is not None
    )


def _unusual(text: str) -> str:
    import re
    from unicodedata import category

    kept = []
    for char in re.sub(_HIDDEN, "", text):
        kind = category(char)
        if kind in ("Cc", "Zl", "Zp", "Zs"):
            kept.append(" ")
        elif kind in ("Cf", "Cs", "Co") or (kind == "Cn" and _is_noncharacter(ord(char))):
            continue
        else:
            kept.append(char)
    return re.sub(_BRACKETED, _opening, "".join(kept).translate(_LOOKALIKE))


def _opening(bracketed: "re.Match[str]") -> str:
    import re
    from unicodedata import normalize

    return "\u2045" if re.fullmatch(_TEMPLATE_WORD, normalize("NFKC", bracketed[1])) else "["


def _is_noncharacter(point: int) -> bool:
    return point & 0xFFFE == 0xFFFE or 0xFDD0 <= point <= 0xFDEF

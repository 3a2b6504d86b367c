"""Does a name mean one of the memory tools? Only spelling is decided here, and only from the policy's own names.

A name is folded first: compatibility forms, accents, look-alike letters of other scripts, invisible
characters, case and separators. Words before the name never matter, a version or a plain word after it
doesn't either; a word of hardware beside it does, and so does an ending that makes another word of it.
"""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from html import unescape
from itertools import filterfalse
from typing import Final
from urllib.parse import unquote

from ..decide import TOOLS

__all__ = ["FILLER", "HARDWARE", "MAX_NAME", "VERSION", "fold", "memory_name", "words_of"]

# Of a name: a longer one is judged by its beginning, and refused or told as unaudited for its length.
MAX_NAME: Final = 4096
# An escape may be escaped in turn; nobody reads what was escaped more often.
_DECODINGS: Final = 3

# Letters of other scripts that pass for Latin ones and that NFKC leaves alone: Cyrillic, Greek, Armenian,
# small capitals, dotless i. Digits and signs used for letters are folded only inside a word of letters.
_CONFUSABLE: Final = str.maketrans(
    "аеорсухіјѕԁһӏвкмнтгԛԝүγορτικενмαυΑΒΕΖΗΙΚΜΝΟΡΤΥΧⅿⅾᴍᴇᴏʀʏʟɪꜱᴛᴅᴀᴡıɑɡℓօսոհҽ",
    "aeopcyxijsdhlbkmhtrqwyyoptikevmauABEZHIKMNOPTYXmdmeorylistdawiaglounhe",
)
_LEET: Final = str.maketrans("0134$5", "oieass")
_IGNORABLE: Final = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U000e0000-\U000e0fff]"
)
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD: Final = re.compile(r"[a-z0-9$]+")
VERSION: Final = re.compile(r"v?[0-9]+|v|latest|beta|alpha|new|old|stable")

# Words that stand between or after without changing the subject: `memory_tool_read`, `memory_read_fn`.
FILLER: Final = frozenset(
    "tool tools server sidecar mcp a2a skill api fn func function op call cmd command action handler proxy"
    " remote local private the my our your".split()
)
# Hardware, processes and measurements: with one of these as a neighbour, "memory" is not an agent's.
HARDWARE: Final = frozenset(
    "gpu cpu vram ram dram sram nvram cuda hbm dimm numa heap kernel ecc jvm rss swap usage footprint bandwidth"
    " latency throughput leak leaks profile profiler allocator allocation address addresses bytes dump page"
    " pages hotspot pressure limit limits stats statistics metrics oom register registers benchmark".split()
)
# What makes another word of the last one: a `memory_reader` or `memory_listener` is a thing, not the tool.
_DERIVED: Final = re.compile(
    r"ers?|eners?|ings?|able|abil|only|rs?(?![a-z])|y|iness|back|through|behind|ed|d|s(?![a-z])"
)
_CANONICAL: Final = {name.replace("_", ""): name for name in TOOLS}


def fold(text: str) -> str:
    """`text` without accents and invisible characters, its compatibility forms and look-alikes as plain letters.

    What a URL or a page would show as letters is decoded: `memory%5Fread`, `memory&#95;read`.
    """
    for _ in range(_DECODINGS):
        if "%" not in text and "&" not in text:
            break
        text = unescape(unquote(text))
    if not text.isascii():
        text = _IGNORABLE.sub("", unicodedata.normalize("NFKC", text)).translate(_CONFUSABLE)
        text = "".join(filterfalse(unicodedata.combining, unicodedata.normalize("NFKD", text)))
    return text


def words_of(name: str) -> list[str]:
    """The words of a name, folded and in lower case, with letters for the digits that stand for them."""
    words = _WORD.findall(_CAMEL.sub(" ", fold(name)).lower())
    return [w if VERSION.fullmatch(w) else w.translate(_LEET) for w in words]


def memory_name(name: str) -> str | None:
    """The memory tool that `name` names, under any prefix, suffix, namespace, case or look-alike; else None."""
    words = words_of(name[:MAX_NAME])
    found = _canonical_in(words)
    if found is None:
        return _canonical_in([w for w in words if w not in FILLER and not VERSION.fullmatch(w)])
    return found


def _canonical_in(words: list[str]) -> str | None:
    ends = []  # where each word ends in the joined text
    total = 0
    for word in words:
        total += len(word)
        ends.append(total)
    joined = "".join(words)
    for compact, tool in _CANONICAL.items():
        at = joined.find(compact)
        while at >= 0:
            end = at + len(compact)
            if _whole(joined, words, ends, at, end):
                return tool
            at = joined.find(compact, at + 1)
    return None


def _whole(joined: str, words: list[str], ends: list[int], at: int, end: int) -> bool:
    """Whether the match is not the stem of another word (`listener`) nor next to a word of hardware."""
    last = bisect_left(ends, end)  # the word in which the match ends
    if ends[last] != end and _DERIVED.match(joined, end):
        return False
    before = bisect_right(ends, at) - 1  # the last word that ends before the match
    beside = [words[n] for n in (before, last + 1) if 0 <= n < len(words)]
    return HARDWARE.isdisjoint(beside)

"""Hold our headers and theirs against each other, and print the counts: `python -m tests.yaml_readers`.

Two directions, for every code point in two places and for every look: what we write must be the same text to each
library, and what each library writes must be the same text to us. `--corpus` writes down, for the test suite, what
goccy/go-yaml made of it; that needs Go (`GO` names the command; `GOFLAGS=-modfile=...` another place of the module).
"""

import argparse
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from memory_sidecar.store.document import parse, serialize
from memory_sidecar.store.errors import InvalidError
from memory_sidecar.store.rules import normalize_description, one_line

from . import corpus
from .cases import PLACES, looks, points
from .readers import Reader, found

_AT_ONCE: Final = 20_000
_EVERY: Final = 6
"""Of so many looks the corpus keeps one: it stays small, and the counts are of all."""


def ours(text: str) -> str | None:
    """The header that we write for it; None if it is no description."""
    try:
        line = normalize_description(text)
    except InvalidError:
        return None
    return serialize(line, "").decode().removeprefix("---\n").removesuffix("---\n\n")


def read_back(header: str) -> str:
    """What we read of a header that somebody else wrote."""
    entry = parse(f"---\n{header}---\n\nbody".encode())
    return entry.description if entry.content == "body" else f"(no header: {header})"


class Tally:
    """One library's counts, and the first of what differs."""

    def __init__(self, reader: Reader) -> None:
        self.reader = reader
        self.read = self.written = 0
        self.differs: list[tuple[str, str, str | None]] = []

    def take(self, texts: list[str]) -> list[tuple[str, str | None, str | None]]:
        """Try `texts` both ways; the text, our header and theirs of each."""
        headers = [ours(text) for text in texts]
        sent = [(text, header) for text, header in zip(texts, headers, strict=True) if header is not None]
        for (text, header), back in zip(sent, self.reader.read([header for _, header in sent]), strict=True):
            self.read += 1
            if back != one_line(text):
                self.differs.append(("read", header, back))
        theirs = self.reader.write(texts)
        for text, header in zip(texts, theirs, strict=True):
            if header is not None:
                self.written += 1
                if (back := read_back(header)) != one_line(text):
                    self.differs.append(("written", header, back))
        return list(zip(texts, headers, theirs, strict=True))

    def line(self) -> str:
        kinds = [kind for kind, _, _ in self.differs]
        return (
            f"{self.reader.name}: ours read as the same text {self.read - kinds.count('read')} of {self.read}; "
            f"theirs read as the same text {self.written - kinds.count('written')} of {self.written}"
        )


def pieces(values: Iterator[int]) -> Iterator[list[int]]:
    while piece := list(islice(values, _AT_ONCE)):
        yield piece


def tried(reader: Reader) -> tuple[Tally, dict[str, Any]]:
    """All cases with one library, and what the corpus keeps of it."""
    tally = Tally(reader)
    kept: dict[str, Any] = {"library": reader.name, "points": {}}
    for place, form in PLACES.items():
        rows: list[list[Any]] = []
        for piece in pieces(points()):
            cases = tally.take([form.format(chr(point)) for point in piece])
            rows += corpus.ranges((point, case[1:]) for point, case in zip(piece, cases, strict=True))
        kept["points"][place] = corpus.joined(rows)
    kept["looks"] = tally.take(looks())[::_EVERY]
    kept["differs"] = [header for kind, header, _ in tally.differs if kind == "read"]
    return tally, kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", action="store_true", help="write the corpus of goccy/go-yaml anew")
    parser.add_argument("--only", default="", help="only libraries whose name holds this word")
    arguments = parser.parse_args()
    wrong = 0
    for reader in found():
        if arguments.only in reader.name:
            tally, kept = tried(reader)
            print(tally.line(), flush=True)
            for difference in tally.differs[:20]:
                print("  ", *map(ascii, difference))
            wrong += len(tally.differs)
            if arguments.corpus and reader.name.startswith("goccy"):
                corpus.save(kept)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

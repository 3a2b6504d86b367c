"""What a backend tells operators about its place: lines to print and to put into JSON. Commands print what they get."""

from collections.abc import Iterator, Sequence
from typing import Any

from ..named_tuple import NamedTuple
from ..store.authority import Store
from ..store.errors import KeyNotFoundError, UnreadableError

__all__ = ["Description", "Directory", "Fact", "Finding", "Looked", "counted", "fact", "guarded", "json_of"]


class Fact(NamedTuple):
    """One line about a place."""

    name: str
    """The member's name in JSON. Programs rely on it, so it never changes."""
    label: str
    """The same for a person."""
    value: Any
    """Something that JSON can carry."""
    shown: str
    """The value for a person; "" if there is nothing worth a line."""


class Directory(NamedTuple):
    """A place whose notes are files of this machine, so that its directory and disk can be looked at too."""

    path: str | None
    """None until an identity is known."""
    parent: str
    """Has a directory for each identity that is nowhere named a directory of its own."""
    option: str
    """What an operator sets to have it elsewhere."""
    vouch: str
    """For `disk.refusal`: given where all who share it must see its locks."""
    suffix: str
    """After the key, in a note's file name."""

    def file(self, key: str) -> str:
        """The file of the note under `key`."""
        return f"{self.path}/{key}{self.suffix}"


class Description(NamedTuple):
    """Where a memory is, as the configuration and the command line have it."""

    facts: Sequence[Fact]
    named: bool = True
    """Whether it is known whose memory it is."""
    directory: Directory | None = None
    prefix: str = ""
    """What stands before each key, in a place where memories lie side by side under names with dots."""


class Finding(NamedTuple):
    """What an operator should know although runs start there."""

    code: str
    """Stable, for monitors; `cli.review.check` lists all."""
    state: str
    """note; or wrong, where notes would be refused."""
    found: str
    mend: str = ""


class Looked(NamedTuple):
    """What was found at the place."""

    facts: Sequence[Fact]
    refused: Sequence[str] = ()
    """Why a run would be refused there, with the remedy each; empty if it would start."""
    findings: Sequence[Finding] = ()
    names: int | None = None
    """How many names are stored, where those of removed notes are among them."""
    compact: str = ""
    """The command that forgets removed notes."""


def fact(name: str, value: Any, shown: str | None = None, label: str | None = None) -> Fact:
    """A fact whose label and text follow from its name and value where they aren't given."""
    if shown is None:
        shown = ", ".join(value) if isinstance(value, list) else "none" if value is None else str(value)
    return Fact(name, name.replace("_", " ") if label is None else label, value, shown)


def guarded(required: bool) -> Fact:
    """Whether an overwrite needs a read, in the words that every backend uses."""
    shown = "an overwrite needs a read of the current value" if required else "off; the last writer wins"
    return fact("require_read_before_update", required, shown, "guard")


def json_of(facts: Sequence[Fact]) -> dict[str, Any]:
    return {one.name: one.value for one in facts}


def counted(store: Store) -> Iterator[Fact]:
    """How many notes `store` holds, and how many of them cannot be read. Reads each, as a model would.

    Raises:
        StoreError: the store cannot be read.
    """
    items = store.list()
    unreadable = 0
    for item in items:
        try:
            store.read(item.key)
        except UnreadableError:
            unreadable += 1
        except KeyNotFoundError:
            pass  # deleted since it was listed
    yield fact("notes", len(items))
    yield fact("unreadable", unreadable)

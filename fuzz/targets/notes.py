"""What stands in a memory and in files of notes: documents, headers of other programs, exports."""

import re
from typing import Any

import yaml

from memory_sidecar.store import document, front_matter, portable, rules
from memory_sidecar.store.contract import Entry
from memory_sidecar.store.errors import InvalidError, UnreadableError

from .common import chance, is_text, one_line, strict

__all__ = ["documents", "exports", "headers"]


def documents(data: bytes) -> None:
    """Any bytes are a note or unreadable; the listing tells what the reading tells; what is written is read."""
    try:
        entry = document.parse(data)
    except UnreadableError:
        entry = None
    lengths = (document.HEADER_BYTES, chance(data).randint(0, len(data)), len(data))
    described = [_description(data[:length], len(data)) for length in lengths]
    assert described[-1] is not None, "a whole document leaves open how it is described"
    if entry is not None:
        listed = entry.description
        if len(listed) > rules.MAX_DESCRIPTION:
            listed = listed[: rules.MAX_DESCRIPTION] + "…"
        for length, description in zip(lengths, described, strict=True):
            assert description in (None, listed), f"described otherwise by its first {length} bytes"
        assert entry.description == rules.one_line(entry.description)
        assert document.restored(entry) == data, "a note does not tell every byte of its document"
        _is_stored(entry.description, entry.content)
        _is_kept(entry.header, entry.description, entry.content)
    description, _, content = data.decode(errors="surrogateescape").partition("\0")
    _is_stored(description, content)
    if entry is not None:
        _is_kept(entry.header, description, content)


def _description(prefix: bytes, size: int) -> str | None:
    """None if more is needed, or if it is unreadable and says so."""
    try:
        return document.parse_description(prefix, size)
    except UnreadableError:
        return document.UNREADABLE if len(prefix) == size else None


def _is_stored(description: str, content: str) -> None:
    try:
        line = rules.validate_write("key", description, content)
    except InvalidError:
        return
    stored = document.serialize(line, content)
    assert len(stored) <= rules.MAX_ENTRY_BYTES, "a legal note is larger than any may be"
    assert document.parse(stored) == Entry(line, content), "a note is not what was written"
    assert document.parse_description(stored[: document.HEADER_BYTES], len(stored)) == line


def _is_kept(header: str, description: str, content: str) -> None:
    """What another program keeps in front of a note stays, or the write is refused."""
    try:
        line = rules.validate_write("key", description, content)
        stored = document.serialize(line, content, header)
    except InvalidError:
        return
    assert len(stored) <= rules.MAX_ENTRY_BYTES, "a legal note is larger than any may be"
    again = document.parse(stored)
    assert again[:2] == (line, content), "a note is not what was written"
    assert document.serialize(line, content, again.header) == stored, "copying a note back changes it"
    if header:
        assert document.other_lines(again.header).split() == document.other_lines(header).split()


# --- headers of other programs -----------------------------------------------------------------------------------


def headers(data: bytes) -> None:
    """What stands between the fences is read as PyYAML reads it, and one description is replaced without all else.

    The input is the header and, after a zero byte, the new description.
    """
    text, _, wanted = data.decode(errors="replace").partition("\0")
    found = front_matter.read(text)
    # What is replaced, joined or resolved before the parser sees it is told in tests/store.
    usual = re.search(front_matter._REFUSED, text) is None and not any(sign in text for sign in ("\\u", "&", "*"))
    plain = _by_pyyaml(text) if usual and text.count("[") + text.count("{") < 50 else None
    if found is None:
        assert plain is None, "a header is taken for prose"
        return
    if plain is not None:
        assert found.valid, "what a YAML reader takes is read by its lines"
        described = plain.get("description")
        if isinstance(described, str) and found.description is not None:
            assert _shown(found.description) == _shown(described), "PyYAML reads another description"
        elif not isinstance(described, str):
            assert found.description is None, "PyYAML reads no text there"
    line = rules.one_line(wanted)
    if not line:
        return
    edited = found.with_description(document._scalar(line, bare=not found.flow), "\n")
    if edited is None:
        return
    again = front_matter.read(edited)
    assert again is not None
    if plain is not None:
        changed = _by_pyyaml(edited)
        assert changed is not None, "PyYAML reads it no more"
        assert _shown(str(changed.pop("description"))) == line, "PyYAML reads another description"
        plain.pop("description", None)
        assert changed == plain, "what another program keeps has changed"


def _shown(text: str) -> str:
    return rules.one_line(text)


class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
    """Every scalar as the text that stands there; a name that stands twice is an error, as YAML has it."""

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        names = [name.value if isinstance(name, yaml.ScalarNode) else None for name, _ in node.value]
        if len(set(names)) < len(names) or None in names:
            raise yaml.constructor.ConstructorError(None, None, "a name that few readers take", node.start_mark)
        return super().construct_mapping(node, deep=deep)


def _by_pyyaml(text: str) -> dict[str, Any] | None:
    """The first document as PyYAML itself reads it, if it is a mapping and PyYAML takes it."""
    try:
        loader = _Loader(text)
        try:
            found = loader.get_data() if loader.check_data() else None
            loader.check_data()  # what follows it begins another document, or none of it is YAML
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError):
        return None
    return found if isinstance(found, dict) and found else None


# --- exports -----------------------------------------------------------------------------------------------------


def exports(data: bytes) -> None:
    """Any bytes are whole notes or one line says what to mend; what is read is written, and read alike.

    Lines are read a second time with the count and the digest that make an export of them.
    """
    _export(data)
    lines = [line for line in data.split(b"\n") if line.startswith(b"{")]
    about = strict(lines[0]) if lines and b'"format"' not in lines[0] else None
    more = about if isinstance(about, dict) and "quarantine" in about else {}
    body = lines[bool(more) :]
    sealed = b"".join(portable.framed({name: more[name] for name in more}, len(body), (line + b"\n" for line in body)))
    _export(sealed)
    cut = chance(data).randrange(len(sealed))
    if cut and sealed[cut:].strip():
        try:
            part = portable.decode(sealed[:cut])
        except portable.PortableError:
            return
        assert not part.header, "an export that is cut short is read"


def _export(data: bytes) -> None:
    try:
        found = portable.decode(data)
    except portable.PortableError as error:
        one_line(str(error))
        return
    more = {name: value for name, value in found.header.items() if name not in ("format", "version", "notes")}
    whole = b"".join(portable.encode(more, list(found.notes)))
    again = portable.decode(whole)
    assert (again.notes, again.raw) == (found.notes, found.raw), "what is exported is not what was read"
    assert whole.isascii()
    for note in found.notes:
        _put(note)


def _put(note: portable.Note) -> None:
    """A memory takes a note whole or refuses it."""
    try:
        stored = document.restored(note.entry)
    except InvalidError:
        return
    assert len(stored) <= rules.MAX_ENTRY_BYTES
    if is_text(note.entry.description) and note.entry.description == rules.one_line(note.entry.description):
        assert document.parse(stored)[:2] in (note.entry[:2], ("", note.entry.content))

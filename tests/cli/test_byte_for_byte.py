"""Whatever header a note has, it comes out of export and import, a copy and quarantine byte for byte, or is refused."""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.broker import Loop, add_bucket, connected, run_broker
from tests.support.properties import examples

from memory_sidecar.backend.file import FileOptions, open_file
from memory_sidecar.backend.jetstream.bucket import bind
from memory_sidecar.backend.jetstream.options import JetStreamOptions
from memory_sidecar.backend.jetstream.thread import JetStreamBackend
from memory_sidecar.backend.opened import Opened
from memory_sidecar.cli.notes.quarantine import _move, _read
from memory_sidecar.cli.shared.memory import Memory
from memory_sidecar.cli.shared.transfer import carried, put
from memory_sidecar.store.authority import Store
from memory_sidecar.store.contract import ANYTHING
from memory_sidecar.store.document import parse, restored
from memory_sidecar.store.errors import StoreError, UnreadableError
from memory_sidecar.store.portable import Note, decode, encode

from .conftest import Cli, Place

_LINES = [
    "description: words",
    "description: yes",
    'description: "two  spaces\\t"',
    "description: 'it''s'",
    "description: ''",
    "description:",
    "description: null",
    "description: [a, b]",
    "description: {a: b}",
    "description: &a words",
    "description: \u200b",
    "description: words # mine",
    "description: >-\n  folded\n  words",
    "DESCRIPTION: other",
    "? description\n: words",
    '{"description": "words"}',
    "tags: [x]",
    "title: A: B",
    "# a comment",
    "x: *a",
    "just prose",
    "",
    " ",
    "\x85",
]
_FENCES = ["---", "--- ", "---\t", "----", ""]
_LINE_ENDS = st.sampled_from(["\n", "\r\n", "\r", "\n\n"])
_BODIES = st.one_of(st.sampled_from(["", "\n", "\r\nbody", "body", "---\n", "\ufeffbody"]), st.text(max_size=8))


@st.composite
def _documents(draw: st.DrawFn) -> bytes:
    end = draw(_LINE_ENDS)
    lines = [draw(st.sampled_from(_FENCES)), *draw(st.lists(st.sampled_from(_LINES), max_size=3))]
    lines += [draw(st.sampled_from(_FENCES))]
    text = (
        draw(st.sampled_from(["", "", "\ufeff"]))
        + end.join(lines)
        + draw(_LINE_ENDS)
        + draw(st.sampled_from(["", end]))
    )
    return (text + draw(_BODIES)).encode("utf-8", "replace")


@given(st.one_of(_documents(), st.binary(max_size=20)))
@example(b"---\ndescription: words\n---\nbody")
@example(b"---\ndescription: words\n---\n\n\nbody")
@example(b"---\n---\n\nbody")
@example(b"\xef\xbb\xbf")
@example(b"")
@settings(max_examples=examples(400))
def test_an_entry_tells_every_byte_of_its_document(document: bytes) -> None:
    try:
        entry = parse(document)
    except UnreadableError:
        return
    assert restored(entry) == document
    (note,) = decode(b"".join(encode({}, [Note("key", entry)]))).notes
    try:
        brought = carried("key", note.entry)
    except StoreError:
        return  # refused, which `import` tells by the note's name
    assert brought == document


@pytest.fixture(scope="module")
def memories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Memory]]:
    """One on files and one in a bucket."""
    place = tmp_path_factory.mktemp("memories")
    files = open_file(FileOptions(str(place / "notes")), "agent", None)
    with run_broker(place / "broker") as broker, Loop() as loop:
        connection = connected(broker.url)
        nc = loop.run(connection.__aenter__())
        bound = loop.run(bind(nc, JetStreamOptions(loop.run(add_bucket(nc))), identity="agent"))
        bucket = Store(JetStreamBackend(bound.notes, loop.run), guard=True)
        yield [
            Memory(files.store, files, "agent", "file", None),
            Memory(bucket, Opened(bucket, bound.fingerprint), "agent", "jetstream", None),
        ]
        loop.run(connection.__aexit__(None, None, None))


@given(st.lists(st.one_of(_documents(), st.binary(max_size=20)), min_size=3, max_size=3))
@settings(max_examples=examples(10))
def test_between_the_backends_and_through_quarantine(memories: list[Memory], documents: list[bytes]) -> None:
    quarantine = Path(tempfile.mkdtemp())
    try:
        for document in documents:
            for source, target in (memories, memories[::-1]):
                source.store.backend.put("key", document, ANYTHING)
                _move(source, "key", "", str(quarantine))
                assert source.list() == []
                (kept,), problems = _read(str(quarantine))
                assert not problems
                assert put(source, "key", kept.what, overwrite=False).what == "created"
                assert _stored(source) == document
                Path(kept.path).unlink()
                _copied(source, target, document)
                source.store.backend.remove("key", ANYTHING)
    finally:
        shutil.rmtree(quarantine)


def _copied(source: Memory, target: Memory, document: bytes) -> None:
    try:
        entry = source.read("key")
    except UnreadableError:
        return  # named, and left where it is
    result = put(target, "key", entry, overwrite=False)
    if result.what == "refused":
        assert result.reason
        assert target.list() == []
    else:
        assert _stored(target) == document
        assert put(target, "key", entry, overwrite=False).what == "unchanged"
    target.store.backend.remove("key", ANYTHING)


def _stored(memory: Memory) -> bytes:
    stored = memory.store.backend.get("key")
    assert stored is not None
    return stored.document


def test_what_is_kept_byte_for_byte_can_be_imported(cli: Cli, place: Place, other: Place) -> None:
    place.write("fine")
    (place.notes / "bad.md").write_bytes(b"\xff\xfe not text")
    assert cli("quarantine", "bad", *place.options).status == 0
    (kept,) = (place.path / "quarantine").glob("*")
    assert cli("import", kept, "--dry-run", *other.options).out == "would be: 1 created\n"
    assert cli("import", kept, *other.options) == (0, "1 created\n", "")
    assert (other.notes / "bad.md").read_bytes() == b"\xff\xfe not text"
    assert cli("import", kept, *other.options) == (0, "1 unchanged\n", "")


def test_a_kept_document_that_is_not_base64_is_told(cli: Cli, place: Place) -> None:
    lines = b"".join(encode({"quarantine": {"key": "a", "document": "?"}}, []))
    done = cli("import", "-", *place.options, stdin=lines.decode())
    assert (done.status, "its document is not base64" in done.err) == (1, True)
    illegal = b"".join(encode({"quarantine": {"key": "../a", "document": ""}}, []))
    assert "This key is not legal" in cli("import", "-", *place.options, stdin=illegal.decode()).err
    assert json.loads(lines.splitlines()[0])["notes"] == 0

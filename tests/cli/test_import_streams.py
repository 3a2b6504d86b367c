"""`import` holds one note at a time, whatever the file's size and wherever it comes from, and checks all before."""

import argparse
import errno
import io
import json
import os
import sys
import tempfile
import threading
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from memory_sidecar.cli.notes import importing
from memory_sidecar.cli.shared import note_file
from memory_sidecar.cli.shared.failure import Failure
from memory_sidecar.cli.shared.note_file import opened_file
from memory_sidecar.store import portable
from memory_sidecar.store.contract import Entry
from memory_sidecar.store.portable import Note, PortableError, decode, encode

from .conftest import Place

NOTES = [Note(f"n{number:03}", Entry("d", "x" * 65000)) for number in range(80)]
FILE = b"".join(encode({"identity": "bot"}, NOTES))


def imported(place: Place, source: str) -> int:
    memory = {"config": None, "identity": place.identity, "store_dir": str(place.path), "journal_dir": None}
    return importing.run(argparse.Namespace(file=source, overwrite=False, dry_run=False, json=False, **memory))


@pytest.mark.parametrize("source", ["a file", "a pipe", "a FIFO", "stdin from a file"])
def test_a_large_file_is_imported_note_by_note(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    saved, fifo = tmp_path / "saved", tmp_path / "fifo"
    saved.write_bytes(FILE)
    name = str(saved)
    feeding = threading.Thread()
    if source == "a FIFO":
        os.mkfifo(fifo)
        name = str(fifo)
        feeding = threading.Thread(target=lambda: fifo.write_bytes(FILE))
    elif source == "a pipe":
        name = "-"
        read, write = os.pipe()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(os.fdopen(read, "rb")))

        def fed() -> None:
            with os.fdopen(write, "wb") as pipe:
                pipe.write(FILE)

        feeding = threading.Thread(target=fed)
    elif source == "stdin from a file":
        name = "-"
        monkeypatch.setattr(sys, "stdin", saved.open())
    if source in ("a pipe", "a FIFO"):
        feeding.start()
    tracemalloc.start()
    try:
        assert imported(place, name) == 0
        assert tracemalloc.get_traced_memory()[1] < 2_500_000
    finally:
        tracemalloc.stop()
        if feeding.ident is not None:
            feeding.join()
        if sys.stdin is not sys.__stdin__ and source != "a FIFO":
            sys.stdin.close()
    assert len(list(place.notes.glob("*.md"))) == len(NOTES)


@pytest.mark.parametrize("change", ["another note", "one less", "one more", "cut", "emptied"])
@pytest.mark.parametrize("framed", [True, False])
def test_a_file_that_is_changed_between_check_and_use_is_noticed(tmp_path: Path, change: str, *, framed: bool) -> None:
    lines = FILE.splitlines(keepends=True)[: None if framed else -1][0 if framed else 1 :]
    path = tmp_path / "saved"
    path.write_bytes(b"".join(lines))
    with opened_file(str(path)) as found:
        notes = found.notes()
        assert next(notes) == NOTES[0]
        other = json.dumps({"key": "other", "description": "d", "content": "planted"}).encode() + b"\n"
        lines = {
            "another note": [*lines[:50], other, *lines[51:]],
            "one less": [*lines[:50], *lines[51:]],
            "one more": [*lines[:50], other, *lines[50:]],
            "cut": lines[:50],
            "emptied": [],
        }[change]
        path.write_bytes(b"".join(lines))
        with pytest.raises(Failure, match=r"was (changed|cut) while it was read; import it again"):
            assert {note.key for note in notes} < {note.key for note in NOTES}


def test_what_was_stored_before_the_change_is_told(
    place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "saved"
    path.write_bytes(FILE)
    put: list[Any] = []
    plain = importing.transfer

    def transfer(sources: Any, *rest: Any, **more: Any) -> Any:
        def changed() -> Any:
            for source in sources:
                put.append(source)
                if len(put) == 3:
                    path.write_bytes(FILE[:1000])
                yield source

        return plain(changed(), *rest, **more)

    monkeypatch.setattr(importing, "transfer", transfer)
    assert imported(place, str(path)) == 1
    said = "".join(capsys.readouterr())
    assert "3 created" in said
    assert "while it was read" in said
    assert len(list(place.notes.glob("*.md"))) == 3


def test_a_line_without_an_end_is_not_read_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (portable, note_file):
        monkeypatch.setattr(module, "MAX_LINE", 70_000)
    said = "/dev/zero: line 1: it is longer than 70000 bytes, and no note is"
    with pytest.raises(Failure, match=said), opened_file("/dev/zero"):
        raise AssertionError
    assert len(decode(FILE).notes) == len(NOTES)
    with pytest.raises(PortableError, match="line 1: it is longer than 70000 bytes"):
        decode(b"[" * 70_001)


def test_a_pipe_without_room_for_it_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, _: Any) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def nowhere() -> Any:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    def fed() -> None:
        with suppress(BrokenPipeError):
            fifo.write_bytes(b"{}\n")

    for made in (Full, nowhere):
        monkeypatch.setattr(tempfile, "TemporaryFile", made)
        feeding = threading.Thread(target=fed)
        feeding.start()
        with pytest.raises(Failure, match="set TMPDIR to a directory with room"), note_file.opened_file(str(fifo)):
            raise AssertionError
        feeding.join()

"""Beside other writers: the quick version of `make races`, and turns with a stand-in for another implementation."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from tests.backend.test_file import opened
from tests.races import RACES, race
from tests.support.properties import examples
from tests.support.sidecar import ROOT
from tests.support.stand_in import StandIn
from tests.support.turns import TURNS, Turn, take_turns

from memory_sidecar.store.document import UNREADABLE
from memory_sidecar.store.errors import StoreFullError, UnreadableError
from memory_sidecar.store.rules import MAX_ENTRIES
from memory_sidecar.store.scope import Scope
from memory_sidecar.tools.catalog import Catalog


@pytest.mark.parametrize("name", RACES)
def test_nobodys_acknowledged_save_vanishes_unseen(tmp_path: Path, name: str) -> None:
    counts = race(tmp_path / "notes", name, 60)
    assert counts.lost == 0


@given(TURNS)
@settings(max_examples=examples(40))
def test_taking_turns_with_a_stand_in(turns: list[Turn]) -> None:
    with TemporaryDirectory() as directory:
        take_turns(opened(Path(directory), guard=True), StandIn(Path(directory)), turns)


def test_a_store_with_more_notes_than_ours_would_take_tells_how_many_there_are(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    store = opened(notes)
    for number in range(MAX_ENTRIES + 6):
        (notes / f"of-others-{number}.md").touch()
    for surplus in (7, 6):
        with pytest.raises(StoreFullError, match=f"holds {MAX_ENTRIES + surplus - 1} entries.*Overwrite one that you"):
            store.create("new", "words", "text")
        store.delete(f"of-others-{surplus}")
    for number in range(100, 104):
        store.delete(f"of-others-{number}")
    with pytest.raises(StoreFullError, match=f"holds {MAX_ENTRIES} entries.*Overwrite or delete one that you"):
        store.create("new", "words", "text")
    store.delete("of-others-200")
    store.create("new", "words", "text")


@pytest.mark.parametrize(
    "document", [b"\xff\xfe", b"---\ndescription: [\n---\n\nx", b"---\ndescription: \xff\n---\n\nx", b"\0"]
)
def test_list_and_read_tell_the_same_and_a_refused_create_names_the_next_step(tmp_path: Path, document: bytes) -> None:
    notes = tmp_path / "notes"
    store = opened(notes)
    (notes / "key.md").write_bytes(document)
    (item,) = store.list()
    try:
        assert store.read("key").description == item.description
    except UnreadableError:
        assert item.description == UNREADABLE
    outcome = Catalog(enabled=True, read_only=False).call(
        "memory_write", {"key": "key", "description": "words", "content": "text"}, store, Scope()
    )
    assert outcome.structured is not None
    assert outcome.structured["code"] == "exists"
    assert "another key" in outcome.structured["reason"]
    if item.description == UNREADABLE:
        outcome = Catalog(enabled=True, read_only=False).call(
            "memory_write", {"key": "key", "description": "w", "content": "t", "overwrite": True}, store, Scope()
        )
        assert "use another key" in (outcome.error or "")
    assert (notes / "key.md").read_bytes() == document


@pytest.mark.parametrize("what", ["directory", "link", "no text", "too large"])
@pytest.mark.parametrize("overwrite", [False, True])
def test_a_refusal_tells_the_next_step_once(tmp_path: Path, what: str, overwrite: bool) -> None:
    notes = tmp_path / "notes"
    store = opened(notes)
    match what:
        case "directory":
            (notes / "key.md").mkdir()
        case "link":
            (notes / "key.md").symlink_to("elsewhere")
        case _:
            (notes / "key.md").write_bytes(b"\xff" if what == "no text" else b"x" * 70_000)
    outcome = Catalog(enabled=True, read_only=False).call(
        "memory_write", {"key": "key", "description": "w", "content": "t", "overwrite": overwrite}, store, Scope()
    )
    told = outcome.error or str((outcome.structured or {})["reason"])
    assert told.lower().count("another key") == 1, told


def test_a_note_that_is_overwritten_is_a_new_file_of_the_sidecars_user(tmp_path: Path) -> None:
    """As sharing.md says it: whoever else could read it no longer can."""
    notes = tmp_path / "notes"
    store = opened(notes)
    (notes / "shared.md").write_text("a person's")
    (notes / "shared.md").chmod(0o644)
    store.update("shared", "words", "text", scope=Scope())
    assert (notes / "shared.md").stat().st_mode & 0o777 == 0o600


def test_each_row_of_the_document_names_a_test_that_is_there() -> None:
    text = (ROOT / "docs" / "sharing.md").read_text()
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", text)
    assert len(named) > 8
    for path, test in named:
        assert f"def {test}(" in (ROOT / "tests" / path).read_text(), test

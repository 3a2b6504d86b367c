"""Beside other writers: the quick version of `make races`, and turns with a stand-in for another implementation."""

import random
import re
from pathlib import Path

import pytest
from tests.backend.test_file import opened
from tests.races import RACES, race
from tests.support.sidecar import ROOT
from tests.support.stand_in import StandIn

from memory_sidecar.store.contract import Entry
from memory_sidecar.store.document import UNREADABLE
from memory_sidecar.store.errors import KeyExistsError, KeyNotFoundError, StaleError, StoreFullError, UnreadableError
from memory_sidecar.store.rules import MAX_ENTRIES
from memory_sidecar.store.scope import Scope
from memory_sidecar.tools.catalog import Catalog


@pytest.mark.parametrize("name", RACES)
def test_nobodys_acknowledged_save_vanishes_unseen(tmp_path: Path, name: str) -> None:
    counts = race(tmp_path / "notes", name, 60)
    assert counts.lost == 0


WORDS = ["words", "true", "1e3", "a: b", "# no", "- x", "'", '"', "ünï", "🙂", "null", "2001-01-01", "{a}", "[b]"]


@pytest.mark.parametrize("seed", range(4))
def test_taking_turns_with_a_stand_in(tmp_path: Path, seed: int) -> None:
    """A model of the store in a dict, and two writers that must both agree with it after every step."""
    chance = random.Random(seed)
    notes = tmp_path / "notes"
    ours, theirs, model = opened(notes, guard=True), StandIn(notes), dict[str, tuple[str, str]]()
    for step in range(120):
        key, value = chance.choice("abc"), (chance.choice(WORDS), f"text {step}\n---\n\n")
        match chance.choice(["create", "update", "delete", "their create", "their update", "their delete"]):
            case "create" if key in model:
                with pytest.raises(KeyExistsError):
                    ours.create(key, *value)
            case "create":
                ours.create(key, *value)
                model[key] = value
            case "update" if key in model:
                scope = Scope()
                ours.read(key, scope=scope)
                if chance.random() < 0.3:
                    theirs.write(key, "saved between", str(step), overwrite=True)
                    model[key] = ("saved between", str(step))
                    with pytest.raises(StaleError):
                        ours.update(key, *value, scope=scope)
                else:
                    ours.update(key, *value, scope=scope)
                    model[key] = value
            case "delete":
                assert ours.delete(key) == (key in model)
                model.pop(key, None)
            case "their create":
                assert theirs.write(key, *value, overwrite=False) == (key not in model)
                model.setdefault(key, value)
            case "their update":
                theirs.write(key, *value, overwrite=True)
                model[key] = value
            case "their delete":
                assert theirs.delete(key) == (key in model)
                model.pop(key, None)
        listed = {found: value[0] for found, value in model.items()}
        assert dict(ours.list()) == theirs.list() == listed
        for each in "abc":
            assert theirs.read(each) == model.get(each)
            if each in model:
                assert ours.read(each) == Entry(*model[each])
            else:
                with pytest.raises(KeyNotFoundError):
                    ours.read(each)


def test_a_store_with_more_notes_than_ours_would_take_tells_how_many_there_are(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    store = opened(notes)
    for number in range(MAX_ENTRIES + 6):
        (notes / f"of-others-{number}.md").touch()
    for surplus in (7, 6):
        with pytest.raises(StoreFullError, match=f"holds {MAX_ENTRIES + surplus - 1} entries.* delete {surplus} that"):
            store.create("new", "words", "text")
        store.delete(f"of-others-{surplus}")
    for number in range(100, 104):
        store.delete(f"of-others-{number}")
    with pytest.raises(StoreFullError, match=f"holds {MAX_ENTRIES} entries.* delete one that"):
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
    assert (notes / "key.md").read_bytes() == document


def test_each_row_of_the_document_names_a_test_that_is_there() -> None:
    text = (ROOT / "docs" / "sharing.md").read_text()
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", text)
    assert len(named) > 8
    for path, test in named:
        assert f"def {test}(" in (ROOT / "tests" / path).read_text(), test

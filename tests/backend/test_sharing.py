"""Beside other writers: the quick version of `make races`, and turns with a stand-in for another implementation."""

import random
from pathlib import Path

import pytest
from tests.backend.test_file import opened
from tests.races import RACES, race
from tests.support.stand_in import StandIn

from memory_sidecar.store.contract import Entry
from memory_sidecar.store.errors import KeyExistsError, KeyNotFoundError, StaleError
from memory_sidecar.store.scope import Scope


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

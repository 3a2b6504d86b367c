"""Ours and another writer take turns on one memory: both must agree with a model in a dict after every turn."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import pytest
from hypothesis import strategies as st

from memory_sidecar.plain import shows
from memory_sidecar.store.authority import Store
from memory_sidecar.store.contract import Entry, Item
from memory_sidecar.store.errors import KeyExistsError, KeyNotFoundError, StaleError
from memory_sidecar.store.rules import MAX_DESCRIPTION, one_line
from memory_sidecar.store.scope import Scope

__all__ = ["TURNS", "Other", "Turn", "take_turns"]

KEYS = "abc"


class Other(Protocol):
    """Another writer of the memory."""

    def write(self, key: str, description: str, content: str, *, overwrite: bool) -> bool:
        """False if the note is there already, and it must not be replaced."""
        ...

    def delete(self, key: str) -> bool:
        """Whether there was a note."""
        ...

    def read(self, key: str) -> tuple[str, str] | None:
        """Description and content."""
        ...

    def list(self) -> dict[str, str]:
        """The description of every note."""
        ...


class Turn(NamedTuple):
    what: str
    key: str
    description: str
    content: str


_WORDS = ["words", "true", "1e3", "a: b", "# no", "- x", "'", '"', "ünï", "🙂", "null", "2001-01-01", "{a}", "[b]", "?"]
_DESCRIPTIONS = st.one_of(
    st.sampled_from(_WORDS),
    st.text(alphabet=st.characters(codec="utf-8"), max_size=20).map(one_line).filter(shows),
).filter(lambda line: len(line) <= MAX_DESCRIPTION)
_CONTENTS = st.one_of(
    st.sampled_from(["", "text", "\n\n", "---\n", "\n---\n\n", "---\ndescription: x\n---\n\n", "a\r\nb\r\n", "\ufeff"]),
    st.text(alphabet=st.characters(codec="utf-8"), max_size=20),
)
_KINDS = ["create", "update", "met", "delete", "their create", "their overwrite", "their delete"]

TURNS = st.lists(
    st.builds(Turn, st.sampled_from(_KINDS), st.sampled_from(KEYS), _DESCRIPTIONS, _CONTENTS), min_size=4, max_size=20
)


def take_turns(ours: Store, theirs: Other, turns: Sequence[Turn]) -> None:
    """Play the turns on an empty memory, ours with the guard on. It is empty again afterwards."""
    model = dict[str, tuple[str, str]]()
    try:
        for turn in turns:
            _play(ours, theirs, model, turn)
            _check(ours, theirs, model)
    finally:
        for key in KEYS:
            ours.delete(key)


def _play(ours: Store, theirs: Other, model: dict[str, tuple[str, str]], turn: Turn) -> None:
    what, key, *rest = turn
    value, scope = (rest[0], rest[1]), Scope()
    match what:
        case "create" if key in model:
            with pytest.raises(KeyExistsError):
                ours.create(key, *value)
        case "create":
            ours.create(key, *value)
            model[key] = value
        case "update" if key in model:
            ours.read(key, scope=scope)
            ours.update(key, *value, scope=scope)
            model[key] = value
        case "update":
            with pytest.raises(StaleError):
                ours.update(key, *value, scope=scope)
        case "met" if key in model:
            # Somebody saves between our reading and our change. Another text: in files the same one is the same note.
            ours.read(key, scope=scope)
            seen = scope.revision(key)
            saved = ("saved between", model[key][1] + "!")
            theirs.write(key, *saved, overwrite=True)
            model[key] = saved
            with pytest.raises(StaleError):
                ours.update(key, *value, scope=scope)
            assert not ours.delete(key, expected=seen)
        case "delete":
            assert ours.delete(key) == (model.pop(key, None) is not None)
        case "their create":
            assert theirs.write(key, *value, overwrite=False) == (key not in model)
            model.setdefault(key, value)
        case "their overwrite":
            assert theirs.write(key, *value, overwrite=True)
            model[key] = value
        case "their delete":
            assert theirs.delete(key) == (model.pop(key, None) is not None)


def _check(ours: Store, theirs: Other, model: dict[str, tuple[str, str]]) -> None:
    listed = {key: model[key][0] for key in sorted(model)}
    assert ours.list() == [Item(key, description) for key, description in listed.items()]
    assert theirs.list() == listed
    for key in KEYS:
        assert theirs.read(key) == model.get(key)
        if key in model:
            assert ours.read(key)[:2] == Entry(*model[key])[:2]
        else:
            with pytest.raises(KeyNotFoundError):
                ours.read(key)

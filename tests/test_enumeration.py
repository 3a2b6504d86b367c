"""Enumerations of our own do what is used of the standard ones."""

import copy
from collections.abc import Callable
from enum import Enum as Standard
from typing import Any

import pytest

from memory_sidecar.enumeration import Enum as Ours


class State(Ours):
    """How it stands."""

    OPEN = "open already"
    CLOSED = "not open"


class StandardState(Standard):
    """How it stands."""

    OPEN = "open already"
    CLOSED = "not open"


USES: dict[str, Callable[[Any], Any]] = {
    "members in order": lambda state: [(member.name, member.value) for member in state],
    "one object": lambda state: state.OPEN is state.OPEN and state.OPEN is not state.CLOSED,
    "equal to itself alone": lambda state: (state.OPEN == state.OPEN, state.OPEN == "open already"),
    "of its class": lambda state: isinstance(state.OPEN, state),
    "a key": lambda state: {state.OPEN: 1, state.CLOSED: 2}[state.CLOSED],
    "copied": lambda state: copy.copy(state.OPEN) is copy.deepcopy(state.OPEN) is state.OPEN,
    "documented": lambda state: state.__doc__,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_used_as_a_standard_one(use: Callable[[Any], Any]) -> None:
    assert use(State) == use(StandardState)


@pytest.mark.parametrize("state", [State, StandardState])
def test_no_other_member_is_made(state: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        state("open")
    with pytest.raises((TypeError, ValueError)):
        state()
    assert len(list(state)) == 2


def test_a_member_is_shown_by_its_name() -> None:
    assert repr(State.OPEN) == "State.OPEN"

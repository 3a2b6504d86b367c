"""Named tuples of our own do what the standard ones do."""

import copy
import pickle
from collections.abc import Callable
from typing import Any
from typing import NamedTuple as Standard

import pytest

from memory_sidecar.named_tuple import NamedTuple as Ours


class Place(Ours):
    """A place."""

    name: str
    height: int = 3
    notes: tuple[str, ...] = ()

    @property
    def is_high(self) -> bool:
        return self.height > 2


class StandardPlace(Standard):
    """A place."""

    name: str
    height: int = 3
    notes: tuple[str, ...] = ()

    @property
    def is_high(self) -> bool:
        return self.height > 2


BOTH = (Place, StandardPlace)

USES: dict[str, Callable[[Any], Any]] = {
    "by place": lambda place: tuple(place("hut", 1, ("wood",))),
    "by name": lambda place: tuple(place(notes=("wood",), name="hut", height=1)),
    "with defaults": lambda place: tuple(place("hut")),
    "some by name": lambda place: tuple(place("hut", notes=("wood",))),
    "fields": lambda place: (place._fields, place._field_defaults, place.__match_args__),
    "attributes": lambda place: (place("hut").name, place("hut").height, place("hut").is_high),
    "as a mapping": lambda place: place("hut")._asdict(),
    "another like it": lambda place: tuple(place("hut")._replace(height=1)),
    "made of values": lambda place: tuple(place._make(iter(["hut", 1, ()]))),
    "equal, hashed and sorted as a tuple": lambda place: (
        place("hut") == ("hut", 3, ()),
        hash(place("hut")),
        sorted([place("b"), place("a")])[0].name,
    ),
    "unpacked": lambda place: [*place("hut")],
    "shown": lambda place: repr(place("hut")).removeprefix("Standard"),
    "copied": lambda place: (copy.copy(place("hut")), copy.deepcopy(place("hut"))),
    "pickled": lambda place: pickle.loads(pickle.dumps(place("hut"))),
    "documented": lambda place: place.__doc__,
}

MISUSES: dict[str, Callable[[Any], Any]] = {
    "nothing given": lambda place: place(),
    "too many": lambda place: place("hut", 1, (), 4),
    "unknown": lambda place: place("hut", depth=1),
    "given twice": lambda place: place("hut", name="hut"),
    "replaced what is not there": lambda place: place("hut")._replace(depth=1),
    "made of too few": lambda place: place._make(()),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_used_as_a_standard_one(use: Callable[[Any], Any]) -> None:
    ours, standard = map(use, BOTH)
    assert ours == standard


@pytest.mark.parametrize("misuse", MISUSES.values(), ids=MISUSES)
@pytest.mark.parametrize("place", BOTH)
def test_misused(place: type, misuse: Callable[[Any], Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        misuse(place)


@pytest.mark.parametrize("place", BOTH)
def test_cannot_be_changed(place: type) -> None:
    made = place("hut")
    with pytest.raises(AttributeError):
        made.name = "house"
    with pytest.raises(AttributeError):
        made.colour = "red"

"""Aligned races: in each round one of ours and another writer change the same note at the same moment.

A round begins with a note that ours has read. Nobody who was told success may lose what was saved unseen: `lost` counts
rounds in which that happened.
"""

import mmap
import os
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.support.stand_in import StandIn

from memory_sidecar.backend.file import FileOptions, open_file
from memory_sidecar.store.authority import Store
from memory_sidecar.store.errors import KeyExistsError, KeyNotFoundError, StaleError
from memory_sidecar.store.scope import Scope

__all__ = ["RACES", "Counts", "race"]

KEY = "key"


class Counts(NamedTuple):
    rounds: int
    ours: int
    """Rounds in which ours was told success."""
    lost: int


def _store(directory: Path) -> Store:
    return open_file(FileOptions(str(directory), require_read_before_update=True), "agent", None).store


def _content(store: Store) -> str | None:
    try:
        return store.read(KEY).content
    except KeyNotFoundError:
        return None


# What another writer does. Each returns whether it was told success.


def _editor(directory: Path, text: str) -> bool:
    staged = directory / ".editor"
    staged.write_text(text)
    os.replace(staged, directory / f"{KEY}.md")
    return True


def _in_place(directory: Path, text: str) -> bool:
    with open(directory / f"{KEY}.md", "w") as file:
        file.write(text)
    return True


def _stand_in(directory: Path, text: str) -> bool:
    return StandIn(directory).write(KEY, "words", text, overwrite=True)


def _stand_in_creates(directory: Path, text: str) -> bool:
    return StandIn(directory).write(KEY, "words", text, overwrite=False)


def _stand_in_deletes(directory: Path, _text: str) -> bool:
    return StandIn(directory).delete(KEY)


def _sidecar(store: Store, scope: Scope, text: str) -> bool:
    try:
        store.update(KEY, "words", text, scope=scope)
    except StaleError:
        return False
    return True


def _sidecar_creates(store: Store, _scope: Scope, text: str) -> bool:
    try:
        store.create(KEY, "words", text)
    except KeyExistsError:
        return False
    return True


def _sidecar_deletes(store: Store, scope: Scope, _text: str) -> bool:
    return store.delete(KEY, expected=scope.revision(KEY))


# What must be there afterwards. An editor and a stand-in overwrite whatever they find, so theirs stays.


def _others(after: str | None, ours: bool, other: bool) -> bool:
    return after == "other"


def _one_winner(after: str | None, ours: bool, other: bool) -> bool:
    return ours != other and after == ("ours" if ours else "other")


def _gone(after: str | None, ours: bool, other: bool) -> bool:
    return after is None and other


class Race(NamedTuple):
    ours: Callable[[Store, Scope, str], bool]
    other: Callable[[Path, str], bool] | None
    """None: another sidecar, doing the same as ours."""
    is_right: Callable[[str | None, bool, bool], bool]
    from_nothing: bool = False


RACES = {
    "overwrite, editor renames": Race(_sidecar, _editor, _others),
    "overwrite, editor saves in place": Race(_sidecar, _in_place, _others),
    "overwrite, stand-in overwrites": Race(_sidecar, _stand_in, _others),
    "overwrite, stand-in deletes": Race(_sidecar, _stand_in_deletes, _gone),
    "overwrite, another sidecar": Race(_sidecar, None, _one_winner),
    "create, stand-in creates": Race(_sidecar_creates, _stand_in_creates, _one_winner, from_nothing=True),
    "create, another sidecar": Race(_sidecar_creates, None, _one_winner, from_nothing=True),
    "quarantine, editor renames": Race(_sidecar_deletes, _editor, _others),
}


def race(directory: Path, name: str, rounds: int) -> Counts:
    """Play so many rounds in a directory of its own."""
    one = RACES[name]
    store, succeeded, lost = _store(directory), 0, 0
    took: list[int] = []
    shared = mmap.mmap(-1, mmap.PAGESIZE)
    # Numbers of rounds: 4: it may begin; 3: the other is ready; 0, 1: ours, the other is at the line; 5: the other is
    # done. 2: whether the other was told success; 6: how many microseconds ours takes;
    # 7: when ours begins; 8: that is known.
    words = memoryview(shared).cast("Q")
    child = os.fork()
    if child == 0:
        try:
            _play(one, directory, words, rounds)
        finally:
            os._exit(0)
    for number in range(1, rounds + 1):
        scope = Scope()
        if one.from_nothing:
            store.delete(KEY)
        else:
            StandIn(directory).write(KEY, "words", f"base {number}", overwrite=True)
            store.read(KEY, scope=scope)
        words[4] = number
        _wait(words, 3, number, child)
        words[0] = number
        _wait(words, 1, number, child)
        words[7] = begun = _now() + 300
        words[8] = number
        _until(begun)
        ours = one.ours(store, scope, "ours")
        took.append(_now() - begun)
        words[6] = max(1, statistics.median_low(took[-9:]))
        _wait(words, 5, number, child)
        succeeded += ours
        lost += not one.is_right(_content(store), ours, bool(words[2]))
    os.waitpid(child, 0)
    return Counts(rounds, succeeded, lost)


def _play(one: Race, directory: Path, words: memoryview, rounds: int) -> None:
    store, chance = _store(directory), random.Random(rounds)
    for number in range(1, rounds + 1):
        _wait(words, 4, number)
        scope = Scope()
        if one.other is None and not one.from_nothing:
            store.read(KEY, scope=scope)
        words[3] = number
        _wait(words, 0, number)
        words[1] = number
        # So that the two meet at every place: a moment out of as many as ours took the last time.
        _wait(words, 8, number)
        _until(words[7] + int(1.2 * words[6] * chance.random()))
        told = one.other(directory, "other") if one.other else one.ours(store, scope, "other")
        words[2] = told
        words[5] = number


def _now() -> int:
    """Microseconds, of a clock that all processes have."""
    return time.monotonic_ns() // 1000


def _until(moment: int) -> None:
    while _now() < moment:
        pass


def _wait(words: memoryview, place: int, number: int, child: int | None = None) -> None:
    # Spins, because waking up would take longer than a race lasts.
    turns = 0
    while words[place] < number:
        turns += 1
        if turns % 2000 == 0:
            os.sched_yield()
        if child is not None and turns % 100_000 == 0 and os.waitpid(child, os.WNOHANG)[0]:
            raise AssertionError("the other writer died")

"""Which tests of a module are run first against a mutant: those that are likeliest to notice it.

All of them are run against what survives, so the order decides nothing but how soon a fault is noticed.
"""

import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Final, NamedTuple

import pytest

__all__ = ["Order", "Usual", "first_noticed"]

MOST_FIRST: Final = 24
"""So many tests at the most are taken out of their order; the others stay beside those they share fixtures with."""


class Usual(NamedTuple):
    """How the tests of a module go without any fault."""

    seconds: float
    tests: dict[str, float]
    """How long each takes, by its id."""
    called: dict[str, list[str]]
    """The functions of the module that it called in its own process, and of which it can therefore notice a fault."""

    @classmethod
    def read(cls, place: Path) -> "Usual | None":
        """What `Order` wrote there, or None if the tests didn't get as far."""
        try:
            return cls(**json.loads((place / "usual.json").read_text()))
        except FileNotFoundError:
            return None


def first_noticed(place: Path) -> str:
    """The test that failed there, or an empty text: one that ended the process, or failed to load, has no id."""
    try:
        return (place / "noticed").read_text()
    except FileNotFoundError:
        return ""


class Order:
    """A plugin for pytest. Without `usual` it records how the tests go; with it, it puts them into order.

    `module` is the changed file below `place`, and `where` the changed function in it. `noticed` names the tests that
    noticed other faults of the module, the last first.
    """

    def __init__(self, place: Path, module: str, where: str, usual: Usual | None, noticed: list[str]) -> None:
        self._place = place
        self._changed = str(place / module)
        self._where = where
        self._usual = usual
        self._noticed = noticed
        self._began = time.monotonic()
        self._tests: dict[str, float] = {}
        self._called: dict[str, list[str]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Put first what called the changed function, the quickest before the others."""
        if not self._usual:
            return
        seconds, called = self._usual.tests, self._usual.called
        calls = [name for name in seconds if self._where in called[name]] if self._where else []
        likely = [*sorted(calls, key=seconds.__getitem__)[:12], *self._noticed]
        likely.sort(key=lambda name: (self._where not in called.get(name, []), name not in self._noticed))
        place = {name: number for number, name in enumerate(dict.fromkeys(likely)) if number < MOST_FIRST}
        items.sort(key=lambda item: place.get(item.nodeid, MOST_FIRST))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Record what a test calls, and how long it takes."""
        if self._usual:
            return (yield)
        found: set[str] = set()
        began = time.monotonic()

        def look(frame: FrameType, event: str, _: Any) -> None:
            if frame.f_code.co_filename == self._changed:
                found.add(frame.f_code.co_qualname.replace(".<locals>", ""))

        # Told of calls alone, since it wants to be told nothing of what happens in them.
        threading.settrace(look)
        sys.settrace(look)
        try:
            return (yield)
        finally:
            sys.settrace(None)
            threading.settrace(None)  # type: ignore[arg-type] - as the documents say
            self._tests[item.nodeid] = time.monotonic() - began
            self._called[item.nodeid] = sorted(found)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write down the first that failed."""
        if report.failed and self._usual:
            (self._place / "noticed").write_text(report.nodeid)

    def pytest_sessionfinish(self) -> None:
        """Write down how the tests went."""
        if not self._usual:
            usual = Usual(time.monotonic() - self._began, self._tests, self._called)
            (self._place / "usual.json").write_text(json.dumps(usual._asdict()))

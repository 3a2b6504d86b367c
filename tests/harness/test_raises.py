"""The docstrings of the library tell what may be raised, each error by its name, and in both faces the same."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from exposure_policy import ExposureRefused, Surface
from exposure_policy.serving import Serving
from memory_sidecar import harness
from memory_sidecar.harness import anthropic, functions, mcp, openai, openai_agents, pydantic_ai, sync
from memory_sidecar.testing import FakeMemory

FACES = (harness, sync)
ADAPTERS = (anthropic, functions, mcp, openai, openai_agents, pydantic_ai)
NOTHING = "It raises nothing."


def public(kind: type) -> Iterator[tuple[str, Any]]:
    """The methods of a class and of its bases that are ours."""
    for name, member in inspect.getmembers(kind):
        function = getattr(member, "__func__", member)
        ours = inspect.isfunction(function) and function.__module__.startswith("memory_sidecar")
        if ours and not name.startswith("_"):
            yield name, function


METHODS = {
    f"{face.__name__.rpartition('.')[2]}.{kind.__name__}.{name}": function
    for face in FACES
    for kind in (face.MemorySidecar, face.Run)
    for name, function in public(kind)
}
FUNCTIONS = {
    f"{module.__name__.rpartition('.')[2]}.{name}": getattr(module, name)
    for module in ADAPTERS
    for name in module.__all__
    if inspect.isroutine(getattr(module, name))
}


def raises(function: Any) -> set[str]:
    """The errors that a docstring names."""
    said = inspect.cleandoc(function.__doc__).partition("\nRaises:\n")[2]
    return set(re.findall(r"(?m)^    (\w+): \S", said))


@pytest.mark.parametrize("name", [*METHODS, *FUNCTIONS])
def test_a_docstring_tells_what_is_raised(name: str) -> None:
    function = {**METHODS, **FUNCTIONS}[name]
    assert raises(function) or NOTHING in function.__doc__


@pytest.mark.parametrize("name", [name for name in METHODS if name.startswith("sync.")])
def test_the_synchronous_face_raises_what_the_other_does(name: str) -> None:
    twin = METHODS[name.replace("sync.", "harness.", 1)]
    assert raises(METHODS[name]) == raises(twin) - {"RuntimeError"}  # that is of the event loop


def test_a_property_says_that_it_is_refused_while_a_stranger_is_served_if_it_is() -> None:
    with FakeMemory().launch_sync() as memory, memory.run() as run, Serving(Surface.MCP):
        for owner in (memory, run):
            for name, member in inspect.getmembers(type(owner), lambda member: isinstance(member, property)):
                try:
                    getattr(owner, name)
                except ExposureRefused:
                    assert "ExposureRefused" in member.__doc__, name
                else:
                    assert "ExposureRefused" not in member.__doc__, name

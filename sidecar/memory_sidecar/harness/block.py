"""The block of a launch and of a run: what entering and leaving take, in steps. A face adds how it waits.

What is not entered yet is neither a launch nor a run. Whoever uses it as one is told how it is entered.
"""

from collections.abc import Callable
from typing import Generic, NoReturn, TypeVar

from .steps import Steps

__all__ = ["Block"]

T = TypeVar("T")


class Block(Generic[T]):
    """The base of a face's own block."""

    _ENTERED_BY = ""
    """How a program enters it, in code."""

    def __init__(self, enter: Callable[[], Steps[T]], leave: Callable[[T, BaseException | None], Steps[None]]) -> None:
        self._enter = enter
        self._leave = leave
        self._inside: list[T] = []

    def _entered(self) -> Steps[T]:
        inside = yield from self._enter()
        self._inside.append(inside)
        return inside

    def _left(self, failure: BaseException | None) -> Steps[None]:
        yield from self._leave(self._inside.pop(), failure)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"there is no {name} before the block is entered: {self._ENTERED_BY}", name=name, obj=self)

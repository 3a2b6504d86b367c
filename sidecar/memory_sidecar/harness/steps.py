"""What the library does is written once, as generators that yield what is to be waited for; faces wait in their way.

A step yields a `Wait`. The face waits until it is settled and goes on; a face that is interrupted meanwhile (a task
that is cancelled, Ctrl-C) throws that into the generator, which puts things in order without waiting and lets it pass.
Where something has to be waited for even so, the wait is *insistent*: the face goes on waiting, however often it is
interrupted, and throws the first interruption afterwards. Every insistent wait has a bound, kept by the pump thread.
"""

from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

__all__ = ["Steps", "Wait", "answer"]

T = TypeVar("T")


class Wait(NamedTuple):
    """Go on when `pending` is settled, whatever its outcome."""

    pending: Future[Any]
    insistent: bool = False


Steps = Generator[Wait, None, T]


def answer(pending: Future[T], *, insistent: bool = False) -> Steps[T]:
    """Wait for `pending`, and return its result or raise its exception."""
    yield Wait(pending, insistent)
    return pending.result()

"""What the library does is written once, as generators that yield what is to be waited for; faces wait in their way.

A step yields a `Wait`. The face waits until it is settled and goes on; a face that is interrupted meanwhile (a task
that is cancelled, Ctrl-C) throws that into the generator, which puts things in order without waiting and lets it pass.
Where something has to be waited for even so, the wait is *insistent*: the face goes on waiting, however often it is
interrupted, and throws the first interruption afterwards. Every insistent wait has a bound, kept by the pump thread.
"""

import threading
from collections.abc import Generator
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

__all__ = ["Steps", "Wait", "answer", "here"]

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


def here(steps: Steps[T]) -> T:
    """Take the steps in this thread."""
    try:
        wait = next(steps)
        while True:
            try:
                _settled(wait)
            except BaseException as interruption:  # noqa: BLE001 - the steps let it pass when all is in order
                wait = steps.throw(interruption)
            else:
                wait = next(steps)
    except StopIteration as done:
        result: T = done.value
        return result


def _settled(wait: Wait) -> None:
    """Wait. An insistent wait puts the first interrupt off; by a second one the user says that it is enough."""
    settled = threading.Event()

    def wake(_: Future[Any]) -> None:
        settled.set()

    wait.pending.add_done_callback(wake)
    try:
        settled.wait()
    except BaseException:
        if wait.insistent:
            settled.wait()
        raise

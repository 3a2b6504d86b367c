"""How a coroutine waits for what another thread settles, on asyncio (uvloop and the like included) and on trio.

Neither is imported here before it runs. anyio is not needed; but its cancel scopes on asyncio cancel a task again and
again, so an insistent wait is shielded from them where anyio is in use.
"""

import sys
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any, TypeVar

from .steps import Steps, Wait

__all__ = ["drive"]

T = TypeVar("T")


async def drive(steps: Steps[T]) -> T:
    """Take the steps in the running event loop.

    Raises:
        RuntimeError: no loop runs that is known here.
    """
    try:
        wait = next(steps)
        while True:
            try:
                await _settled(wait)
            except BaseException as interruption:  # noqa: BLE001 - the steps let it pass when all is in order
                wait = steps.throw(interruption)
            else:
                wait = next(steps)
    except StopIteration as done:
        result: T = done.value
        return result


async def _settled(wait: Wait) -> None:
    if wait.pending.done():
        return
    trio = _running_trio()
    if trio is not None:
        with trio.CancelScope(shield=wait.insistent):
            await _settled_on_trio(trio, wait.pending)
    elif wait.insistent:
        with _shield_of_anyio():
            await _settled_on_asyncio_even_so(wait.pending)
    else:
        await _settled_on_asyncio(wait.pending)


def _running_trio() -> Any:
    """The module, if this is a task of its loop."""
    trio = sys.modules.get("trio")
    if trio is None:
        return None
    try:
        trio.lowlevel.current_task()
    except (RuntimeError, AttributeError):  # another loop's task; a module that is still being imported
        return None
    return trio


async def _settled_on_trio(trio: Any, pending: Future[Any]) -> None:
    done, token = trio.Event(), trio.lowlevel.current_trio_token()

    def wake(_: Future[Any]) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(done.set)

    pending.add_done_callback(wake)
    await done.wait()


async def _settled_on_asyncio(pending: Future[Any]) -> None:
    import asyncio

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError(
            "this coroutine runs on no event loop of asyncio or trio; without one, use memory_sidecar.harness.sync"
        ) from None
    waiter = loop.create_future()

    def settle() -> None:
        if not waiter.done():
            waiter.set_result(None)

    def wake(_: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop was closed meanwhile
            loop.call_soon_threadsafe(settle)

    pending.add_done_callback(wake)
    await waiter


async def _settled_on_asyncio_even_so(pending: Future[Any]) -> None:
    """Wait on although the task is cancelled, and pass the cancellation on afterwards.

    Not for a coroutine that is being closed (GeneratorExit): that may not wait.
    """
    from asyncio import CancelledError

    cancelled: CancelledError | None = None
    while not pending.done():
        try:
            await _settled_on_asyncio(pending)
        except CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        raise cancelled


def _shield_of_anyio() -> AbstractContextManager[Any]:
    scope = getattr(sys.modules.get("anyio"), "CancelScope", None)
    return nullcontext() if scope is None else scope(shield=True)

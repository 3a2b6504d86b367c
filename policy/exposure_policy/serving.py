"""A stranger is being served now: the mark that guards set and that memory asks for. Standard library only.

This file owns one rule: *while a request of a stranger is being answered, memory does not answer*, however the code
that answers came by its run. A guard opens `Serving` around everything that such a request sets in motion. The harness
library calls `ask` wherever memory could answer. Between the two there is nothing to search and nothing to forget: the
mark is a context variable, which every task and every call on the way inherits.

What inherits the mark:

- tasks, callbacks and `asyncio.to_thread`, `anyio.to_thread`, `run_coroutine_threadsafe`: Python copies the context;
- `threading.Thread`, `ThreadPoolExecutor` with its initializer, so `run_in_executor` too, and what waits for a future
  (`Future.add_done_callback`): Python runs those in another context, so `follow_threads` passes the mark on. Guards
  call it when the first of them is made.

What does not, because no context leads there: another process, `_thread.start_new_thread`, and a task or a thread that
was started earlier and gets its work by a queue. SECURITY.md lists these.
"""

import functools
import threading
from contextlib import suppress
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Final, TypeVar

from .decide import ExposureRefused
from .table import Surface

__all__ = ["Serving", "ask", "follow_threads", "memory_for_my_own_thinking", "served"]

_RULE: Final = (
    "memory is private to its harness and does not answer while another agent or client is being served; if the agent "
    "needs it for its own thinking, open the block exposure_policy.serving.memory_for_my_own_thinking(reason=...)"
)
Block = TypeVar("Block", bound="_Block")


class _Block:
    """A `with` block that sets the mark and puts back what was there. It can be entered once.

    Between two values of an asynchronous generator its caller runs, in the same context: yield nothing from inside.
    """

    def __init__(self, mark: "Serving | None") -> None:
        self._mark = mark
        self._token: Token[Serving | None] | None = None

    def __enter__(self: Block) -> Block:
        if self._token is not None:
            raise RuntimeError("this block has been entered already; make a new one each time")
        self._token = _MARK.set(self._mark)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._token is not None:
            # A generator that somebody else closes leaves the block in another context than it entered it in. The mark
            # of that other context was never changed.
            with suppress(ValueError):
                _MARK.reset(self._token)


class Serving(_Block):
    """Everything in this block is done for a stranger on `surface`: `ask` refuses.

    `request` names what the stranger asked for, for the log. `refused` tells afterwards what of memory was asked for
    in vain, in order; a guard looks at it before it lets an answer out.
    """

    def __init__(self, surface: Surface, request: str = "") -> None:
        super().__init__(self)
        self.surface = surface
        self.request = request
        self.refused: list[str] = []


_MARK: Final[ContextVar[Serving | None]] = ContextVar("exposure_policy_serving", default=None)


def served() -> Serving | None:
    """For whom the current code runs: the innermost `Serving`, or None while it runs for its own harness."""
    return _MARK.get()


def ask(what: str) -> None:
    """Return if memory may answer now. `what` names what is asked of it, such as "run.call".

    To be called wherever a harness gets something of memory: calls, definitions, system texts, listings of runs. It
    costs one look at a context variable.

    Raises:
        ExposureRefused: a stranger is being served, and no block says that this is the agent's own thinking.
    """
    mark = _MARK.get()
    if mark is not None:
        mark.refused.append(what)
        raise ExposureRefused(what, mark.surface.value, _RULE)


class memory_for_my_own_thinking(_Block):  # noqa: N801 - read as a statement: with memory_for_my_own_thinking(...)
    """The one exception, made to be seen: in this block memory answers although a stranger is being served.

        with memory_for_my_own_thinking(reason="the planner looks up how this repository is laid out"):
            notes = await run.call("memory_read", {"key": "layout"})

    It is for an agent that serves others and has a memory for itself. Its price: whatever the agent says afterwards
    may hold what it has read here, and no guard can tell. So nothing from memory may be passed on as it is, and a
    stranger's text must not choose the key. Each use is logged as a warning of the logger `exposure_policy`, with the
    reason and the place; `grep -rn memory_for_my_own_thinking` lists all of them.

    A request that is served inside the block, by a guarded server in the same process, is a stranger's again.
    Tasks and threads that are started in the block keep the permission.

    Raises:
        TypeError: `reason` is not a text.
        ValueError: `reason` says nothing.
    """

    def __init__(self, *, reason: str) -> None:
        if not isinstance(reason, str):
            raise TypeError(f"the reason is a text for whoever reads the log, not {type(reason).__name__}")
        if not reason.strip():
            raise ValueError("say for what the agent needs its memory while it serves somebody else")
        super().__init__(None)
        self._reason = " ".join(reason.split())

    def __enter__(self: Block) -> Block:
        import logging

        entered = super().__enter__()
        log = logging.getLogger("exposure_policy")
        log.warning("memory is open for the agent's own thinking: %s", self._reason, stacklevel=2)  # type: ignore[attr-defined]
        return entered


# --- threads ---------------------------------------------------------------------------------------------


def follow_threads() -> None:
    """Let threads and thread pools that are used while a stranger is served carry the mark; for good, and only once.

    Wraps `threading.Thread.start`, `ThreadPoolExecutor.submit` and `Future.add_done_callback`, as tracing libraries do.
    A thread that is started while nobody is served is not touched. The mark goes with each piece of work that a pool is
    given, with each callback of a future, and with the initializer that a pool's new thread runs first; not with the
    pool's threads, which later serve others.
    """
    from concurrent.futures import Future, ThreadPoolExecutor

    if not hasattr(threading.Thread.start, _FOLLOWS):
        threading.Thread.start = _following_start(threading.Thread.start)  # type: ignore[method-assign]
    if not hasattr(ThreadPoolExecutor.submit, _FOLLOWS):
        ThreadPoolExecutor.submit = _following_submit(ThreadPoolExecutor.submit)  # type: ignore[method-assign]
    if not hasattr(Future.add_done_callback, _FOLLOWS):
        Future.add_done_callback = _following_callback(Future.add_done_callback)  # type: ignore[method-assign]


_FOLLOWS: Final = "_exposure_policy_follows"


def _following_start(plain: Any) -> Any:
    @functools.wraps(plain)
    def start(thread: threading.Thread) -> None:
        mark = _MARK.get()
        if mark is not None and not _of_pool(thread):
            thread.run = functools.partial(_marked, mark, thread.run)  # type: ignore[method-assign]
        elif mark is not None:
            _mark_initializer(mark, thread)
        plain(thread)

    setattr(start, _FOLLOWS, True)
    return start


def _following_submit(plain: Any) -> Any:
    @functools.wraps(plain)
    def submit(pool: Any, work: Any, /, *args: Any, **kwargs: Any) -> Any:
        mark = _MARK.get()
        return plain(pool, *((work,) if mark is None else (_marked, mark, work)), *args, **kwargs)

    setattr(submit, _FOLLOWS, True)
    return submit


def _of_pool(thread: threading.Thread) -> bool:
    """Whether the thread belongs to a pool: it works for whoever gives it something, each time for another."""
    target = getattr(thread, "_target", None)
    return getattr(target, "__module__", "") == "concurrent.futures.thread"


def _mark_initializer(mark: Serving, thread: Any) -> None:
    """Let the initializer of a pool's new thread run with the mark; the thread's work brings marks of its own."""
    args = tuple(getattr(thread, "_args", ()))
    # The weak reference to the pool, its queue, the initializer and its arguments.
    if len(args) > _INITIALIZER and callable(initializer := args[_INITIALIZER]):
        marked = functools.partial(_marked, mark, initializer)
        thread._args = (*args[:_INITIALIZER], marked, *args[_INITIALIZER + 1 :])  # noqa: SLF001 - no public way


_INITIALIZER: Final = 2


def _following_callback(plain: Any) -> Any:
    @functools.wraps(plain)
    def add_done_callback(future: Any, callback: Any) -> None:
        mark = _MARK.get()
        plain(future, callback if mark is None else functools.partial(_marked, mark, callback))

    setattr(add_done_callback, _FOLLOWS, True)
    return add_done_callback


def _marked(mark: Serving, work: Any, /, *args: Any, **kwargs: Any) -> Any:
    with _Block(mark):
        return work(*args, **kwargs)

"""The mark "a stranger is being served": who inherits it, what asks for it, and the one visible exception."""

import _thread
import asyncio
import contextvars
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from exposure_policy import ExposureRefused, Surface
from exposure_policy.serving import Serving, ask, follow_threads, memory_for_my_own_thinking, served


@pytest.fixture(autouse=True)
def _followed() -> Iterator[None]:
    """Undone afterwards, so that what is seen here was done by this call."""
    start, submit, callback = threading.Thread.start, ThreadPoolExecutor.submit, Future.add_done_callback
    follow_threads()
    yield
    threading.Thread.start = start  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = submit  # type: ignore[method-assign]
    Future.add_done_callback = callback  # type: ignore[method-assign]


def answers() -> bool:
    """Whether memory would answer here."""
    try:
        ask("run.call")
    except ExposureRefused:
        return False
    return True


def test_memory_answers_its_own_harness() -> None:
    assert served() is None
    ask("run.call")


def test_a_refusal_names_what_was_asked_the_surface_and_the_way_out() -> None:
    with Serving(Surface.A2A, "message/send") as serving, pytest.raises(ExposureRefused) as refused:
        ask("run.call")
    assert (refused.value.tool, refused.value.surface) == ("run.call", "a2a")
    assert "memory_for_my_own_thinking(reason=" in str(refused.value)
    assert (serving.refused, serving.request) == (["run.call"], "message/send")
    ask("run.call")  # the block has ended


def test_blocks_nest_and_the_innermost_counts() -> None:
    with Serving(Surface.MCP):
        with memory_for_my_own_thinking(reason="to plan"):
            assert answers()
            with Serving(Surface.MCP):  # the agent calls a guarded server of this very process
                assert not answers()
            assert answers()
        assert not answers()
    assert answers()


def test_an_error_ends_the_block_too() -> None:
    with pytest.raises(KeyError), Serving(Surface.MCP):
        raise KeyError
    assert answers()


def test_a_block_is_for_one_use() -> None:
    block = Serving(Surface.MCP)
    with block:
        pass
    with pytest.raises(RuntimeError, match="make a new one"), block:
        pass


# Who inherits it


async def on_a_task() -> bool:
    async def work() -> bool:
        return answers()

    return await asyncio.create_task(work())


async def in_a_task_group() -> bool:
    seen = []

    async def work() -> None:
        seen.append(answers())

    async with anyio.create_task_group() as group:
        group.start_soon(work)
    return seen[0]


async def in_a_callback() -> bool:
    seen = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0, lambda: seen.set_result(answers()))
    return bool(await seen)


async def in_a_worker_of_asyncio() -> bool:
    return await asyncio.to_thread(answers)


async def in_a_worker_of_anyio() -> bool:
    return await anyio.to_thread.run_sync(answers)


async def in_the_default_executor() -> bool:
    return await asyncio.get_running_loop().run_in_executor(None, answers)


async def in_an_executor() -> bool:
    with ThreadPoolExecutor(1) as pool:
        return await asyncio.get_running_loop().run_in_executor(pool, answers)


async def by_submit() -> bool:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(answers).result()


async def by_map() -> bool:
    with ThreadPoolExecutor(1) as pool:
        return next(iter(pool.map(lambda _: answers(), [1])))


async def by_a_callback_of_a_future() -> bool:
    seen: queue.Queue[bool] = queue.Queue()
    ended = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(ended.wait).add_done_callback(lambda _: seen.put(answers()))
        ended.set()
    return seen.get(timeout=30)


async def by_a_callback_of_a_future_that_somebody_else_settles() -> bool:
    seen: list[bool] = []
    future: Future[None] = Future()
    future.add_done_callback(lambda _: seen.append(answers()))
    contextvars.Context().run(future.set_result, None)
    return seen[0]


async def in_the_initializer_of_a_pool() -> bool:
    seen: list[bool] = []
    with ThreadPoolExecutor(1, initializer=lambda: seen.append(answers())) as pool:
        pool.submit(int).result()
    return seen[0]


async def in_a_thread() -> bool:
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(answers()))
    thread.start()
    thread.join()
    return seen[0]


async def in_a_thread_of_a_thread() -> bool:
    seen: list[bool] = []

    def outer() -> None:
        inner = threading.Thread(target=lambda: seen.append(answers()))
        inner.start()
        inner.join()

    thread = threading.Thread(target=outer)
    thread.start()
    thread.join()
    return seen[0]


async def by_a_timer() -> bool:
    seen: list[bool] = []
    timer = threading.Timer(0, lambda: seen.append(answers()))
    timer.start()
    timer.join()
    return seen[0]


async def in_a_subclass_of_thread() -> bool:
    class Worker(threading.Thread):
        seen = True

        def run(self) -> None:
            self.seen = answers()

    worker = Worker()
    worker.start()
    worker.join()
    return worker.seen


async def on_another_loop() -> bool:
    """The loop was running before the stranger came, in a thread of its own."""

    async def work() -> bool:
        return answers()

    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(), LOOPS[0]))


async def in_a_copied_context() -> bool:
    return contextvars.copy_context().run(answers)


async def in_a_generator() -> bool:
    return next(answers() for _ in range(1))


async def back_from_a_thread() -> bool:
    return await anyio.to_thread.run_sync(lambda: bool(anyio.from_thread.run_sync(answers)))


LOOPS: list[asyncio.AbstractEventLoop] = []


@pytest.fixture
def another_loop() -> Iterator[None]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    LOOPS.append(loop)
    yield
    LOOPS.clear()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.mark.usefixtures("another_loop")
@pytest.mark.parametrize(
    "way",
    [
        on_a_task,
        in_a_task_group,
        in_a_callback,
        in_a_worker_of_asyncio,
        in_a_worker_of_anyio,
        in_the_default_executor,
        in_an_executor,
        by_submit,
        by_map,
        by_a_callback_of_a_future,
        by_a_callback_of_a_future_that_somebody_else_settles,
        in_the_initializer_of_a_pool,
        in_a_thread,
        in_a_thread_of_a_thread,
        by_a_timer,
        in_a_subclass_of_thread,
        on_another_loop,
        in_a_copied_context,
        in_a_generator,
        back_from_a_thread,
    ],
)
def test_what_is_started_while_serving_inherits_it(way: Callable[[], Any]) -> None:
    async def both() -> tuple[bool, bool]:
        with Serving(Surface.MCP):
            stranger = await way()
        return stranger, await way()

    assert asyncio.run(both()) == (False, True)


def test_a_pool_that_was_made_while_serving_works_for_others_afterwards() -> None:
    with Serving(Surface.MCP):
        pool = ThreadPoolExecutor(1)
        assert not pool.submit(answers).result()
    with pool:
        assert pool.submit(answers).result()


def test_following_twice_changes_nothing() -> None:
    follow_threads()
    before = (threading.Thread.start, ThreadPoolExecutor.submit, Future.add_done_callback)
    follow_threads()
    assert (threading.Thread.start, ThreadPoolExecutor.submit, Future.add_done_callback) == before


def test_a_thread_that_is_started_while_nobody_is_served_is_left_as_it_is() -> None:
    follow_threads()
    thread = threading.Thread(target=answers)
    thread.start()
    thread.join()
    assert "run" not in vars(thread)


def test_no_thread_is_touched_unless_a_guard_asks_for_it() -> None:
    probe = "import threading, exposure_policy.serving as s; print(threading.Thread.start.__module__)"
    told = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "threading"


# What stays outside. Each of these is a row in SECURITY.md: a change that closes one must be told there.


def test_outside_a_thread_of_the_lowest_layer() -> None:
    seen: queue.Queue[bool] = queue.Queue()
    with Serving(Surface.MCP):
        _thread.start_new_thread(lambda: seen.put(answers()), ())
        assert seen.get(timeout=30)


def test_outside_a_worker_that_was_there_before() -> None:
    asked: queue.Queue[str | None] = queue.Queue()
    seen: queue.Queue[bool] = queue.Queue()

    def worker() -> None:
        while asked.get() is not None:
            seen.put(answers())

    thread = threading.Thread(target=worker)
    thread.start()
    try:
        with Serving(Surface.MCP):
            asked.put("read")
            assert seen.get(timeout=30)
    finally:
        asked.put(None)
        thread.join()


def test_outside_another_process() -> None:
    probe = "from exposure_policy.serving import ask; ask('run.call'); print('answered')"
    with Serving(Surface.MCP):
        told = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "answered"


def test_outside_another_process_within_this_one() -> None:
    interpreters: Any = pytest.importorskip("_xxsubinterpreters", reason="this Python has them elsewhere")
    mine = interpreters.create()
    told, tell = os.pipe()
    try:
        probe = "import sys, os; from exposure_policy.serving import ask; ask('run.call'); os.write({}, b'answered')"
        with Serving(Surface.MCP):
            interpreters.run_string(mine, f"import sys; sys.path[:] = {sys.path!r}; " + probe.format(tell))
        assert os.read(told, 100) == b"answered"
    finally:
        interpreters.destroy(mine)
        os.close(told)
        os.close(tell)


def test_outside_an_empty_context() -> None:
    """Code that sets out to deceive the guard in its own process."""
    with Serving(Surface.MCP):
        assert contextvars.Context().run(answers)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_outside_what_python_runs_between_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, bool] = {}

    given = threading.Event()

    class Told:
        def __init__(self, name: str) -> None:
            self.name = name

        def __del__(self) -> None:
            seen[self.name] = answers()

        def __call__(self) -> None:
            given.wait()

    class Booted(threading.Thread):
        def _bootstrap(self) -> None:
            seen["bootstrap"] = answers()
            super()._bootstrap()  # type: ignore[misc]

    def started(thread: threading.Thread) -> None:
        thread.start()
        thread.join()

    def fails() -> None:
        raise KeyError

    async def timed() -> None:
        rang = asyncio.Event()
        before = signal.signal(signal.SIGALRM, lambda *_: seen.update(timer=answers()))
        try:
            with Serving(Surface.MCP):
                signal.setitimer(signal.ITIMER_REAL, 0.01)
                while "timer" not in seen:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(rang.wait(), 0.05)
        finally:
            signal.signal(signal.SIGALRM, before)

    pool = ThreadPoolExecutor(1)
    asyncio.run(timed())
    local = threading.local()
    monkeypatch.setattr(threading, "excepthook", lambda _: seen.update(hook=answers()))
    with Serving(Surface.MCP):
        started(threading.Thread(target=fails))
        started(threading.Thread(target=lambda: setattr(local, "held", Told("data of a thread"))))
        started(Booted())
        pool.submit(Told("work of a pool"))
        given.set()  # from here on only the pool holds it
        threading.setprofile(lambda *_: seen.setdefault("profile", answers()))
        started(threading.Thread())
        threading.setprofile(None)  # type: ignore[arg-type]
    pool.shutdown()
    assert set(seen) == {"hook", "data of a thread", "bootstrap", "work of a pool", "profile", "timer"}
    assert all(seen.values()), seen


# The exception


def test_the_exception_is_logged_with_its_reason_and_place(caplog: pytest.LogCaptureFixture) -> None:
    with Serving(Surface.MCP), memory_for_my_own_thinking(reason="the planner\nlooks up the layout"):
        ask("run.call")
    (told,) = caplog.records
    assert (told.name, told.levelno) == ("exposure_policy", logging.WARNING)
    assert told.getMessage() == "memory is open for the agent's own thinking: the planner looks up the layout"
    assert told.pathname == __file__


@pytest.mark.parametrize("reason", ["", " \n"])
def test_a_reason_says_something(reason: str) -> None:
    with pytest.raises(ValueError, match="for what"):
        memory_for_my_own_thinking(reason=reason)


def test_a_reason_is_a_text() -> None:
    with pytest.raises(TypeError, match="not NoneType"):
        memory_for_my_own_thinking(reason=None)  # type: ignore[arg-type]


def test_what_is_started_in_the_exception_keeps_it() -> None:
    async def think() -> bool:
        with Serving(Surface.MCP), memory_for_my_own_thinking(reason="to plan"):
            return await on_a_task() and await in_an_executor() and await in_a_thread()

    assert asyncio.run(think())


def test_a_generator_that_is_closed_elsewhere_leaves_the_block() -> None:
    def thinking() -> Iterator[int]:
        with memory_for_my_own_thinking(reason="to plan"):
            yield 1

    numbers = thinking()
    contextvars.copy_context().run(partial(next, numbers))
    numbers.close()  # in another context: nothing is raised, nothing is changed
    with Serving(Surface.MCP):
        assert not answers()

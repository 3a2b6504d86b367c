"""Opens and ends: answered in order and truthfully, and without a trace where they were refused or taken back."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.sidecar import (
    FINISH,
    OPEN,
    SUSPEND,
    Frame,
    RefusedError,
    Sidecar,
    guarded,
    launched,
    patched,
    until,
)

pytestmark = pytest.mark.usefixtures("both_eras")

SLOW_LISTING = """
import os, time
scandir = os.scandir
def slow(place="."):
    while os.path.exists({hold!r}):
        time.sleep(0.002)
    return scandir(place)
os.scandir = slow
"""


def journals(base: Path) -> list[str]:
    return sorted(path.name for path in (base / "runs").rglob("*.jsonl"))


@contextmanager
def slow_to_list(tmp_path: Path) -> Iterator[tuple[Sidecar, Path]]:
    """A sidecar whose store lists nothing for as long as the second thing, a file, is there."""
    hold = tmp_path / "hold"
    env = patched(tmp_path, SLOW_LISTING.format(hold=str(hold)))
    with launched(tmp_path / "state", env=env) as sidecar:
        yield sidecar, hold


@pytest.mark.parametrize("resume", ["auto", "never"])
def test_an_open_that_the_store_refuses_leaves_no_run_and_no_journal(tmp_path: Path, resume: str) -> None:
    with launched(tmp_path) as sidecar:
        assert sidecar.memory is not None
        sidecar.memory.rename(tmp_path / "elsewhere")
        with pytest.raises(RefusedError, match="missing"):
            sidecar.open("monday", resume=resume)
        assert journals(tmp_path) == []
        assert sidecar.states() == {}
        (tmp_path / "elsewhere").rename(sidecar.memory)
        assert sidecar.open("monday", resume="never")["resumed"] is False


def test_an_open_of_a_run_that_exists_leaves_it_as_it_was_if_the_store_refuses(tmp_path: Path) -> None:
    with launched(tmp_path) as sidecar:
        sidecar.open("monday")
        sidecar.finish("monday", "budget")
        (journal,) = (tmp_path / "runs").rglob("*.jsonl")
        before = journal.read_bytes()
        assert sidecar.memory is not None
        sidecar.memory.rename(tmp_path / "elsewhere")
        with pytest.raises(RefusedError, match="missing"):
            sidecar.open("monday")
        assert journal.read_bytes() == before
        assert sidecar.states() == {"monday": "budget"}


def test_an_open_that_is_cancelled_before_it_is_done_leaves_nothing_and_a_retry_works(tmp_path: Path) -> None:
    with slow_to_list(tmp_path) as (sidecar, hold):
        hold.touch()
        opening = sidecar.message(OPEN, {"run": "monday"})
        retry = sidecar.message(OPEN, {"run": "monday", "resume": "never"})
        sidecar.send(opening)
        sidecar.pulse()
        sidecar.cancel(opening)
        sidecar.send(retry)
        sidecar.pulse()
        assert journals(tmp_path / "state") == []
        hold.unlink()
        answer = sidecar.receive()
        assert answer["id"] == retry["id"]
        assert answer["result"]["resumed"] is False
        assert sidecar.call("memory_list", run="monday")["isError"] is False


def test_an_open_that_is_cancelled_as_its_answer_goes_out_is_taken_back(tmp_path: Path) -> None:
    with launched(tmp_path) as sidecar:
        for _ in range(10):
            opening = sidecar.message(OPEN, {"run": "monday", "resume": "never"})
            sidecar.send(opening)
            assert sidecar.answer(opening)["result"]["resumed"] is False
            sidecar.cancel(opening)
        until(lambda: not journals(tmp_path), "the last one is taken back")
        assert sidecar.states() == {}


def test_a_resumed_run_whose_opening_is_cancelled_is_suspended_with_its_authority(tmp_path: Path) -> None:
    guard = guarded(tmp_path)
    with launched(tmp_path / "state", *guard) as sidecar:
        sidecar.open("monday")
        sidecar.write("plan", "one", "monday")
        scope = sidecar.suspend("monday")["scope"]
        opening = sidecar.message(OPEN, {"run": "monday"})
        sidecar.send(opening)
        sidecar.answer(opening)
        sidecar.cancel(opening)
        until(lambda: sidecar.states()["monday"] == "suspended", "it is suspended again")
        again = sidecar.open("monday", resume="require")
        assert again["scope"] == scope
        assert sidecar.write("plan", "two", "monday", overwrite=True)["written"]


def test_a_cancellation_that_comes_after_the_run_was_used_does_nothing(tmp_path: Path) -> None:
    with launched(tmp_path) as sidecar:
        opening = sidecar.message(OPEN, {"run": "monday"})
        sidecar.send(opening)
        sidecar.answer(opening)
        sidecar.write("plan", "one", "monday")
        sidecar.cancel(opening)
        sidecar.pulse()
        assert sidecar.read("plan", "monday")["found"]
        assert sidecar.states()["monday"] == "open"


def test_opens_and_ends_of_a_run_are_answered_in_the_order_in_which_they_were_asked(tmp_path: Path) -> None:
    def asked(sidecar: Sidecar) -> list[tuple[Frame, str]]:
        one = {"run": "monday"}
        return [
            (sidecar.message(OPEN, one), "opened"),
            (sidecar.message(OPEN, one), "open already"),
            (sidecar.message(OPEN, {**one, "resume": "perhaps"}), "resume is one of"),
            (sidecar.message(OPEN, {**one, "scope": 5}), "scope is an object"),
            (sidecar.tool("memory_list", {}, "monday"), "served"),
            (sidecar.message(SUSPEND, one), "ended"),
            (sidecar.message(SUSPEND, one), "not open"),
            (sidecar.tool("memory_list", {}, "monday"), "not open"),
            (sidecar.message(OPEN, {**one, "resume": "never"}), "exists already"),
            (sidecar.message(OPEN, one), "opened"),
            (sidecar.message(FINISH, {**one, "reason": "completed"}), "ended"),
            (sidecar.message(OPEN, one), "has completed"),
            (sidecar.message(SUSPEND, one), "not open"),
        ]

    with launched(tmp_path) as sidecar:
        wanted = asked(sidecar)
        sidecar.send(*(message for message, _ in wanted))
        for message, outcome in wanted:
            answer = sidecar.receive()
            assert answer["id"] == message["id"]
            assert told(answer) == outcome or outcome in told(answer)
        assert sidecar.states() == {"monday": "completed"}


def told(answer: Frame) -> str:
    if "error" in answer:
        return str(answer["error"]["message"])
    members = answer["result"]
    return "opened" if "resumed" in members else "ended" if "scope" in members else "served"


def test_the_most_runs_are_counted_beside_the_processs_own(tmp_path: Path) -> None:
    with launched(tmp_path) as sidecar:
        sidecar.call("memory_list")
        messages = [sidecar.message(OPEN, {"run": f"run{number}"}) for number in range(257)]
        sidecar.send(*messages)
        answers = {answer["id"]: answer for answer in (sidecar.receive() for _ in messages)}
        assert all("result" in answers[message["id"]] for message in messages[:256])
        assert "256 runs are open" in answers[messages[256]["id"]]["error"]["message"]
        assert sidecar.call("memory_list")["isError"] is False
        sidecar.suspend("run0")
        assert sidecar.open("run256")["resumed"] is False


def test_a_scope_too_long_to_be_handed_back_is_not_handed_out_without_a_word(tmp_path: Path) -> None:
    env = patched(tmp_path, "import memory_sidecar.wire.opening as opening\nopening.MAX_SCOPE = 400\n")
    with launched(tmp_path / "state", *guarded(tmp_path), env=env) as sidecar:
        assert sidecar.open("monday")["scope"]["keys"] == {}
        for number in range(10):
            sidecar.write(f"key{number}", "one", "monday")

        def without_a_scope(ended: Frame) -> Any:
            assert ended["scope"] is None
            assert "10 keys" in ended["scope_omitted"]
            return ended["scope"]

        kept = without_a_scope(sidecar.suspend("monday"))
        # A harness that hands back what it was given loses nothing: the journal's scope counts then.
        without_a_scope(sidecar.open("monday", scope=kept))
        assert sidecar.write("key3", "two", "monday", overwrite=True)["written"]
        without_a_scope(sidecar.finish("monday", "budget"))

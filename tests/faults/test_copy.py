"""`memory-sidecar copy` at every system call: SIGKILL, each error a disk can give, writes cut short, interruptions.

Whatever happens: the source is untouched, each note at the target is what it was or the copied one, whole; the exit
status and the text say what became of them; and the same command, run again, completes.
"""

import asyncio
import contextlib
import errno
import io
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.broker import Broker, add_bucket, connected, run_broker
from tests.support.sidecar import environment
from tests.support.tally import Tally

from memory_sidecar.backend.file import FileOptions, open_file
from memory_sidecar.backend.file.store_id import FILE_NAME
from memory_sidecar.cli import main
from memory_sidecar.cli.notes import copying
from memory_sidecar.system import exchange, files, staging

from . import tracer

traced = pytest.mark.skipif(not tracer.AVAILABLE, reason="the tracer knows x86_64 Linux only")

LONG_TEXT = "the copied text, " * 900
SOURCE = {
    "new": f"---\ndescription: A new one\n---\n\n{LONG_TEXT}",
    "plain": "written by hand, without a header",
    "same": "---\ndescription: 'The same'\n---\n\nsame",
    "differs": f"---\ndescription: As it is at the source\n---\n\n{LONG_TEXT}",
}
TARGET = {
    "same": SOURCE["same"],
    "differs": "---\ndescription: As it was at the target\n---\n\nthe old text",
    "unrelated": "---\ndescription: Not at the source\n---\n\nunrelated",
}
ERRORS = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EPERM, errno.EMFILE, errno.ENOMEM]


def notes(directory: Path) -> dict[str, str]:
    """The text of every note that a store lists there, whole: a copy carries each byte."""
    store = open_file(FileOptions(directory=str(directory)), "copied", None).store
    return {item.key: (directory / f"{item.key}.md").read_text() for item in store.list()}


def prepare(place: Path) -> None:
    for end, contents in (("from", SOURCE), ("to", TARGET)):
        directory = place / end
        directory.mkdir(parents=True)
        for key, text in contents.items():
            (directory / f"{key}.md").write_text(text)
        (place / f"{end}.yaml").write_text(
            f"identity: copied\nharness: {{memory: {{enabled: true, options: {{directory: '{directory}'}}}}}}\n"
        )


def command(place: Path, *options: str) -> list[str]:
    return ["copy", "--from", str(place / "from.yaml"), "--to", str(place / "to.yaml"), "--json", *options]


def copy(place: Path, *options: str) -> bytes:
    """The exit status and what was said, as one answer."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status: Any = main(command(place, *options))
        except SystemExit as error:
            status = f"SystemExit {error.code}"
    said = []
    for stream in (out, err):
        stream.seek(0)
        said.append(stream.read())
    return json.dumps([status, *said]).encode()


def verify(place: Path, options: tuple[str, ...], answer: bytes | None) -> list[str]:
    wrong = []
    if {path.name: path.read_text() for path in (place / "from").glob("*.md")} != {
        f"{key}.md": text for key, text in SOURCE.items()
    }:
        wrong.append("the source was touched")
    there = notes(place / "to")  # opening it sweeps what was left behind
    before, copied = TARGET, SOURCE
    may_change = set(copied) if "--overwrite" in options else set(copied) - set(before)
    for key in {*before, *copied, *there}:
        allowed = [before.get(key), *([copied[key]] if key in may_change else [])]
        if there.get(key) not in allowed:
            wrong.append(f"{key} holds {there.get(key)!s:.60}")
    if left := [path.name for path in (place / "to").iterdir() if path.suffix != ".md" and path.name != FILE_NAME]:
        wrong.append(f"left behind: {left}")
    if answer is not None:
        wrong += dishonest(answer, {key: note for key, note in there.items() if copied.get(key) == note}, before)

    status, out, err = json.loads(copy(place, *options))
    if (status, err) != (0 if "--overwrite" in options else 1, "") or notes(place / "to") != {
        **before,
        **{key: copied[key] for key in may_change},
    }:
        wrong.append(f"run again it does not complete: {status} {out} {err}")
    return wrong


def dishonest(answer: bytes, done: dict[str, str], before: dict[str, str]) -> list[str]:
    """Where the exit status or the report contradicts what is at the target; `done` is what equals the source."""
    if answer.startswith(b"raised"):
        return [f"it ended with an exception: {answer!r}"]
    status, out, err = json.loads(answer)
    wrong = [] if status in (0, 1, 78) else [f"it ended with {status}"]
    if status == 0 and len(done) != len(SOURCE):
        wrong.append(f"it ended with 0, but only {sorted(done)} are there")
    if any(word in out + err for word in ("Traceback", "this should not happen")):
        wrong.append(f"no person is told so: {err}")
    if not out:
        return wrong if status and err else [*wrong, f"nothing was said, with {status}"]
    report = json.loads(out)
    claimed = {*report["created"], *report["overwritten"], *report["unchanged"]}
    if not claimed <= set(done):
        wrong.append(f"{claimed - set(done)} are said to be there and are not")
    refused = {one["key"]: one["reason"] for one in report["refused"]}
    if lied := [key for key, why in refused.items() if "Nothing was changed" in why and key in set(done) - set(before)]:
        wrong.append(f"of {lied} it is said that nothing was changed, and they are there")
    if status == 0 and (refused or report["collided"] or report["stopped"]):
        wrong.append(f"it ended with 0 and tells of {report}")
    if status and not (refused or report["collided"] or report["stopped"]):
        wrong.append(f"it ended with {status}, and does not say why")
    if report["stopped"] and "run the same command again" not in err:
        wrong.append("it does not say how to go on")
    return wrong


def attempt(place: Path, options: tuple[str, ...], decide: tracer.Decision) -> tuple[list[str], list[tracer.Stop]]:
    prepare(place)
    answer, stops = tracer.run_traced(lambda: copy(place, *options), decide)
    wrong = verify(place, options, answer)
    shutil.rmtree(place)
    return wrong, stops


Spoil = Callable[[int], tracer.Decision]


def _once(code: int) -> Spoil:
    return lambda at: lambda now: code if now.count == at and now.name else None


FAULTS: dict[str, Spoil] = {
    "SIGKILL at each call": lambda at: lambda now: "kill" if now.count == at else None,
    "SIGKILL at each write": lambda at: lambda now: "kill" if now.count == at else None,
    "short write": lambda at: lambda now: "short" if now.count == at and now.name in ("write", "pwrite64") else None,
    "EINTR once at each call": _once(errno.EINTR),
    **{f"{errno.errorcode[code]} once at each call": _once(code) for code in ERRORS},
}
WRITES = {"write", "pwrite64"}


def spoil_everywhere(
    tmp_path: Path, options: tuple[str, ...], fault: str, step: int = 1, first: int = 0
) -> tuple[int, list[str]]:
    """Spoil every `step`th call of the copy in turn."""
    warm = tmp_path / "warm"
    prepare(warm)
    copy(warm)  # so that modules are loaded, and what follows is the copying
    wrong, stops = attempt(tmp_path / "whole", options, lambda _: None)
    assert not wrong
    if "write" in fault:
        stops = [stop for stop in stops if stop.name in WRITES]
    elif "SIGKILL" not in fault:
        # Linux closes even when it says EINTR.
        stops = [stop for stop in stops if stop.name and (stop.name != "close" or "EINTR" not in fault)]
    found = []
    for stop in (tried := stops[min(first, len(stops) - 1) :: step]):
        wrong, _ = attempt(tmp_path / f"{stop.count}", options, FAULTS[fault](stop.count))
        found += [f"{fault}, call {stop.count}, {stop.name}: {text}" for text in wrong]
    return len(tried), found


@traced
@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"SIGKILL at each write"}))
def test_a_sample_of_the_calls(fault: str, tmp_path: Path, tally: Tally) -> None:
    tally("copy --overwrite", fault, *spoil_everywhere(tmp_path, ("--overwrite",), fault, step=60, first=len(fault)))


@traced
@pytest.mark.long
@pytest.mark.parametrize("options", [(), ("--overwrite",)], ids=["copy", "copy --overwrite"])
@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"SIGKILL at each write"}))
def test_every_call(fault: str, options: tuple[str, ...], tmp_path: Path, tally: Tally) -> None:
    tally(" ".join(("copy", *options)), fault, *spoil_everywhere(tmp_path, options, fault))


@traced
def test_control_a_copy_that_writes_in_place_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    def in_place(directory: int, stage: str, name: str) -> None:
        data = Path(f"/proc/self/fd/{directory}", stage).read_bytes()
        descriptor = os.open(name, os.O_WRONLY | os.O_TRUNC, dir_fd=directory)
        files.write_all(descriptor, data[:1000])
        files.write_all(descriptor, data[1000:])
        os.close(descriptor)

    monkeypatch.setattr(exchange, "exchange", lambda *_: False)  # else nothing is published over
    monkeypatch.setattr(staging, "publish_over", in_place)
    tried, wrong = spoil_everywhere(tmp_path, ("--overwrite",), "SIGKILL at each write")
    torn = [text for text in wrong if "differs holds" in text]
    tally("copy in place", "SIGKILL at each write", tried, torn, control=True)


@traced
def test_control_a_copy_that_claims_success_is_caught(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tally: Tally
) -> None:
    printed = copying.print_report
    monkeypatch.setattr(copying, "print_report", lambda *report, **how: printed(*report, **how) * 0)
    tried, wrong = spoil_everywhere(tmp_path, ("--overwrite",), "ENOSPC once at each call", step=15)
    tally("copy, always 0", "ENOSPC", tried, [text for text in wrong if "ended with 0" in text], control=True)


# --- to a bucket -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with run_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


class BucketCopy:
    """Copies of 64 notes to a fresh bucket each, and back to files to look at them."""

    def __init__(self, place: Path, broker: Broker) -> None:
        contexts = place / "config" / "nats" / "context"
        contexts.mkdir(parents=True)
        (contexts / "local.json").write_text(json.dumps({"url": broker.url}))
        self._env = environment(XDG_CONFIG_HOME=str(place / "config"))
        self._url = broker.url
        self._place = place
        prepare(place)
        for number in range(60):
            text = f"---\ndescription: One of many\n---\n\n{LONG_TEXT}{number}"
            (place / "from" / f"note{number}.md").write_text(text)
        self._source = self._read_source()
        self.notes = {name.removesuffix(".md"): text for name, text in self._source.items()}
        self._back = place / "back"
        (place / "back.yaml").write_text(
            f"identity: copied\nharness: {{memory: {{enabled: true, options: {{directory: '{self._back}'}}}}}}\n"
        )

    def _read_source(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in (self._place / "from").glob("*.md")}

    @property
    def source_is_untouched(self) -> bool:
        return self._read_source() == self._source

    def new_bucket(self) -> None:
        async def make() -> str:
            async with connected(self._url) as nc:
                return await add_bucket(nc)

        (self._place / "bucket.yaml").write_text(
            "identity: copied\nnats_context: local\n"
            f"harness: {{memory: {{enabled: true, backend: jetstream, options: {{bucket: {asyncio.run(make())}}}}}}}\n"
        )

    def copy(self, origin: str, target: str, kill_after: float | None = None) -> tuple[int, bytes]:
        """The exit status (-9 if it was killed before it was done) and what was said."""
        words = [sys.executable, "-P", "-m", "memory_sidecar", "copy", "--json"]
        words += ["--from", str(self._place / origin), "--to", str(self._place / target)]
        with subprocess.Popen(words, env=self._env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            if kill_after is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(kill_after)
                process.kill()
            said, _ = process.communicate(timeout=60)
        return process.returncode, said

    def stored(self) -> dict[str, str]:
        shutil.rmtree(self._back, ignore_errors=True)
        status, said = self.copy("bucket.yaml", "back.yaml")
        assert status == 0, said
        return notes(self._back)


@pytest.mark.parametrize("kills", [1, pytest.param(60, marks=pytest.mark.long)])
def test_killed_while_it_copies_to_a_bucket(kills: int, broker: Broker, tmp_path: Path, tally: Tally) -> None:
    """At a moment of chance, since a broker's client has threads and timers: the kernel's calls cannot be counted."""
    bucket = BucketCopy(tmp_path, broker)
    chance = random.Random(kills)
    wrong: list[str] = []
    bucket.new_bucket()
    begun = time.monotonic()
    bucket.copy("from.yaml", "bucket.yaml")
    whole = time.monotonic() - begun
    done = 0
    while done < kills:
        bucket.new_bucket()
        status, _ = bucket.copy("from.yaml", "bucket.yaml", kill_after=chance.uniform(0.3, 0.95) * whole)
        done += status == -9
        torn = [key for key, note in bucket.stored().items() if note != bucket.notes[key]]
        wrong += [f"{key} is not whole" for key in torn]
        if (again := bucket.copy("from.yaml", "bucket.yaml"))[0] != 0 or bucket.stored() != bucket.notes:
            wrong.append(f"run again it does not complete: {again}")
        if not bucket.source_is_untouched:
            wrong.append("the source was touched")
    tally("copy to a bucket", "SIGKILL at some moment", done, wrong)

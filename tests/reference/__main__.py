"""Build the implementation in Go, and let ours and it take turns on files and in a bucket; prints the counts.

Needs git and a Go tool chain (`GO` names the command). A pinned version is cloned into a work folder and built there
with one file of ours, `main.go`; nothing of it is kept here. `SOURCE` names another place to clone it from. What the go
command reads (`GOPROXY`, `GOFLAGS`) it reads here too.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from hypothesis import given, seed, settings
from tests.support.broker import Loop, add_bucket, connected, run_broker
from tests.support.sidecar import ROOT
from tests.support.turns import TURNS, Other, Turn, take_turns

from memory_sidecar.backend.file import FileOptions, open_file, swap
from memory_sidecar.backend.jetstream.bucket import bind
from memory_sidecar.backend.jetstream.options import JetStreamOptions
from memory_sidecar.backend.jetstream.thread import JetStreamBackend
from memory_sidecar.store.authority import Store
from memory_sidecar.store.errors import StaleError
from memory_sidecar.store.scope import Scope
from memory_sidecar.system import exchange

from .reference import Reference

SOURCE: Final = "https://github.com/choria-io/fisk-ai"
VERSION: Final = "3529f57915684d5082273b7dda40f5bce153b021"  # 2026-07-24
WORK: Final = ROOT / ".reference"


def build(go: str) -> Path:
    """Clone the pinned version once, and build our program in it."""
    checkout, program = WORK / VERSION, WORK / "reference"
    if not checkout.is_dir():
        WORK.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=WORK) as place:
            _run("git", "clone", "--quiet", os.environ.get("SOURCE", SOURCE), place)
            _run("git", "-C", place, "checkout", "--quiet", VERSION)
            shutil.copytree(place, checkout)
    ours = checkout / "internal" / "memorysidecar"
    ours.mkdir(exist_ok=True)
    shutil.copy(Path(__file__).parent / "main.go", ours)
    _run(go, "build", "-o", str(program), "./internal/memorysidecar", at=checkout)
    return program


def _run(*command: str, at: Path | None = None) -> None:
    subprocess.run(command, cwd=at, check=True)


def play(name: str, ours: Store, theirs: Other, examples: int) -> None:
    """Random turns, so many sequences of them; the first that goes wrong is told as short as it can be."""
    counted: Counter[str] = Counter()

    @seed(0)
    @settings(max_examples=examples, deadline=None, database=None)
    @given(TURNS)
    def turns(taken: list[Turn]) -> None:
        take_turns(ours, theirs, taken)
        counted.update(turn.what for turn in taken)

    turns()
    told = ", ".join(f"{count} {what}" for what, count in sorted(counted.items()))
    print(f"{name}: {counted.total()} turns agreed after each one: {told}", flush=True)


def meet(ours: Store, theirs: Other, times: int) -> None:
    """It saves in the instant between our look and our change, so many times: each save must stay."""
    real, waiting = exchange.exchange, list[Callable[[], object]]()

    def exchanged(directory: int, one: str, other: str) -> bool:
        while waiting:
            waiting.pop()()
        return real(directory, one, other)

    swap.exchange.exchange = exchanged
    lost = 0
    for number in range(times):
        scope = Scope()
        theirs.write("met", "words", f"old {number}", overwrite=True)
        ours.read("met", scope=scope)
        saved = f"saved {number}"
        waiting.append(lambda saved=saved: theirs.write("met", "words", saved, overwrite=True))  # type: ignore[misc]
        try:
            ours.update("met", "words", "ours", scope=scope)
            lost += 1
        except StaleError:
            lost += ours.read("met").content != saved or waiting != []
    swap.exchange.exchange = real
    ours.delete("met")
    print(f"files: {times} saves between our look and our change, {lost} lost", flush=True)
    assert lost == 0


def main() -> int:
    go = os.environ.get("GO") or shutil.which("go")
    if go is None or shutil.which("git") is None:
        print("git and a Go tool chain are needed; name the go command with GO=...")
        return 1
    examples = int(os.environ.get("EXAMPLES", "300"))
    with ExitStack() as stack:
        program = build(go)
        place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = place / "notes"
        theirs = stack.enter_context(Reference(program, "file", {"directory": str(files)}))
        ours = open_file(FileOptions(str(files), True), "agent", None).store
        play("files", ours, theirs, examples)
        meet(ours, theirs, examples)

        broker, loop = stack.enter_context(run_broker(place / "broker")), stack.enter_context(Loop())
        connection = connected(broker.url)
        nc = loop.run(connection.__aenter__())
        stack.callback(lambda: loop.run(connection.__aexit__(None, None, None)))
        bucket = loop.run(add_bucket(nc))
        bound = loop.run(bind(nc, JetStreamOptions(bucket), identity="agent"))
        ours = Store(JetStreamBackend(bound.notes, loop.run), guard=True)
        theirs = stack.enter_context(Reference(program, "jetstream", {"bucket": bucket}, broker.url))
        play("JetStream", ours, theirs, examples)
    return 0


if __name__ == "__main__":
    sys.exit(main())

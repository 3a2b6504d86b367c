"""How many instructions a call executes: `make bench-calls`, or `python -m bench.calls --help`.

Counted by valgrind over two conversations that differ in the number of calls, so launch and end fall out. Each call
waits for the answer before it, as a harness's do. A busy machine does not change the counts; what the kernel does is
not among them.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

from .contestants import SidecarOnFiles
from .launch import INITIALIZE, Place, compiled, places

Calls = Iterator[tuple[str, dict[str, Any]]]
"""The names of tools and their arguments, without end."""

_CONTENT = "The build of this module was decided on after the tests.\n" * 36  # some 2 KiB


def _reads() -> Calls:
    while True:
        for number in range(90):
            yield "memory_read", {"key": f"note-{number:04d}"}


def _lists() -> Calls:
    while True:
        yield "memory_list", {}


def _creates() -> Calls:
    number = 0
    while True:
        number += 1
        yield "memory_write", {"key": f"new-{number}", "description": "A new note", "content": _CONTENT}


def _overwrites() -> Calls:
    while True:
        for text in ("one", "another"):
            note = {"key": "note-0001", "description": "A changed note", "content": text + _CONTENT}
            yield "memory_write", {**note, "overwrite": True}


CASES: Mapping[str, tuple[int, Callable[[], Calls], int, int]] = {
    "read of 2 KiB": (100, _reads, 20, 120),
    "list of 1024 notes": (1024, _lists, 3, 9),
    "create, nothing stored": (0, _creates, 5, 45),
    "create beside 900 notes": (900, _creates, 5, 45),
    "overwrite beside 900 notes": (900, _overwrites, 5, 45),
}
"""By what is counted: the notes stored, the calls, and how many of them the two conversations make."""


def counted(place: Place, calls: Calls, count: int) -> int:
    """Instructions of a process that serves so many of the calls, one after the other."""
    words = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *place.words()]
    env = place.ticket()
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        requests = [("initialize", INITIALIZE)]
        requests += [("tools/call", {"name": name, "arguments": given}) for name, given in islice(calls, count)]
        for number, (method, params) in enumerate(requests):
            message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
            if "error" in answer or answer["result"].get("isError"):
                raise RuntimeError(f"{method} was refused: {answer}")
        process.stdin.close()
        found = re.search(rb"Collected : (\d+)", process.stderr.read())
    if found is None:
        raise RuntimeError("valgrind told no count")
    return int(found[1])


@contextmanager
def _prepared(entries: int, checkouts: Mapping[str, str | None]) -> Iterator[dict[str, Place]]:
    with places(SidecarOnFiles(), entries, checkouts) as prepared:
        time.sleep(2.2)  # so that time stamps prove that nothing was changed since, wherever they are coarse
        yield prepared


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="PATH", help="a second checkout of this repository to compare with")
    arguments = parser.parse_args()
    if shutil.which("valgrind") is None:
        print("valgrind is not installed", file=sys.stderr)
        return 1
    checkouts: dict[str, str | None] = {"now": None}
    if arguments.before is not None:
        checkouts = {"before": os.path.abspath(arguments.before), **checkouts}
    compiled(checkouts.values())
    print(f"{'thousands of instructions a call, files':44}" + "".join(f"{name:>12}" for name in checkouts))
    for case, (entries, calls, few, many) in CASES.items():
        cells = ""
        for name, checkout in checkouts.items():
            taken = []
            for count in (few, many):
                with _prepared(entries, {name: checkout}) as prepared:
                    taken.append(counted(prepared[name], calls(), count))
            cells += f"{(taken[1] - taken[0]) / (many - few) / 1000:12,.0f}"
        print(f"{case:44}{cells}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

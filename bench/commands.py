"""What an operator's commands cost as a state directory grows: seconds, and the most memory that a process takes.

`runs` into a pipe is measured with nothing kept of an earlier listing, and again; `runs show` of one run; `export` of a
memory that is full of notes of 64 KiB. Alone: python -m bench.commands; --quick for the smallest directory.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence

from .growth import fill

__all__ = ["COUNTS", "commands", "main", "shown"]

COUNTS = (1_000, 10_000, 100_000)
NOTES = (16, 1024)

Found = dict[str, dict[int, tuple[float, float]]]
"""Seconds and MiB by command, by how many journals or notes there are."""


def commands(counts: Sequence[int], work: str, say: Callable[[str], None]) -> Found:
    found: Found = {}
    for count in counts:
        with tempfile.TemporaryDirectory(dir=work) as directory:
            fill(directory, "journals", count)
            for name, words in (
                ("runs, the first time", ("runs",)),
                ("runs, again", ("runs",)),
                ("runs show", ("runs", "show", "old-7")),
            ):
                found.setdefault(name, {})[count] = _measured(directory, *words)
            say(f"commands: {count} journals")
    for count in NOTES if len(counts) > 1 else NOTES[:1]:
        with tempfile.TemporaryDirectory(dir=work) as directory:
            _notes(directory, count)
            found.setdefault("export", {})[count] = _measured(directory, "export", "--identity", "bench")
            say(f"commands: {count} notes of 64 KiB")
    return found


def _notes(directory: str, count: int) -> None:
    place = os.path.join(directory, "memory", "bench")
    os.makedirs(place, mode=0o700)
    for number in range(count):
        with open(os.path.join(place, f"note-{number:04}.md"), "w", encoding="utf-8") as file:
            file.write("---\ndescription: A note\n---\n\n" + "x" * 65_536)


# A process that was forked counts what its parent held. So a small one launches the command, and tells what that took.
_LAUNCH = """
import os, sys
child = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[2:]], os.environ)
_, status, used = os.wait4(child, 0)
os.write(int(sys.argv[1]), str(used.ru_maxrss).encode())
sys.exit(os.waitstatus_to_exitcode(status))
"""


def _measured(directory: str, *words: str) -> tuple[float, float]:
    """Seconds until the command has written all into a pipe, and the MiB that it took at the most."""
    told, tell = os.pipe()
    command = ["-P", "-m", "memory_sidecar", *words, "--store-dir", directory]
    began = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", _LAUNCH, str(tell), *command],
        stdout=subprocess.PIPE,
        env={**os.environ, "XDG_CACHE_HOME": os.path.join(directory, "cache")},
        pass_fds=[tell],
    ) as process:
        os.close(tell)
        assert process.stdout is not None
        while process.stdout.read(1 << 16):
            pass
    seconds = time.perf_counter() - began
    with open(told, "rb") as pipe:
        kib = int(pipe.read())
    assert process.returncode == 0, words
    return seconds, kib / 1024


def shown(found: Found) -> list[str]:
    """One line a command and size."""
    lines = [f"{'command':24} {'of':>8} {'s':>8} {'MiB':>8}"]
    lines += [
        f"{name:24} {count:8} {seconds:8.2f} {size:8.1f}"
        for name, by_count in found.items()
        for count, (seconds, size) in by_count.items()
    ]
    return lines


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.commands", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest sizes alone")
    parser.add_argument("--work", metavar="DIR", help="on the disk to be measured; default: for temporary files")
    arguments = parser.parse_args(words)
    counts = COUNTS[:1] if arguments.quick else COUNTS
    work = arguments.work or tempfile.gettempdir()
    print("\n".join(shown(commands(counts, work, lambda text: print(text, file=sys.stderr)))))
    return 0


if __name__ == "__main__":
    sys.exit(main())

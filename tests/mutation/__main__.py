"""Plant every mutant, and see whether a test fails: `make mutants`.

Each is tried in a fork, so that the test tools are loaded once. The tests that called the changed function without a
fault, and those that noticed the faults before this one, are run first. A mutant survives if all tests of its module
pass; it must then be explained in docs/mutants.md, by its name. Fails if one isn't, or if an explained one is no longer
there.
"""

import argparse
import compileall
import gc
import os
import re
import resource
import shutil
import signal
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

# All that the tests load and nobody mutates is loaded here, once, before the forks.
import a2a.server.request_handlers  # noqa: F401
import cryptography.hazmat.primitives.asymmetric.ed25519  # noqa: F401
import hypothesis
import jsonschema  # noqa: F401
import mcp.client
import mcp.server  # noqa: F401
import nats  # noqa: F401
import pytest
import yaml  # noqa: F401
from tests.mutation.mutants import Mutant, mutants
from tests.mutation.order import Order, Usual, first_noticed

ROOT: Final = Path(__file__).parents[2]
EXPLAINED: Final = ROOT / "docs" / "mutants.md"
PLACES: Final = ".mutant-"
"""How the directories of changed trees are named. They lie in this one, so that their files can be links."""
_COMMAND: Final = "from memory_sidecar.__main__ import main"


def _fuzz(target: str) -> list[str]:
    file = "tests/fuzz/test_targets.py"
    return [f"{file}::test_inputs_that_were_kept[{target}]", f"{file}::test_inputs_made_from_them[{target}]"]


_POLICY: Final = "policy/exposure_policy"
_SIDECAR: Final = "sidecar/memory_sidecar"

HELD: Final[dict[str, list[str]]] = {
    f"{_POLICY}/table.py": ["tests/policy/test_table_decide.py", "tests/tools/test_catalog.py"],
    f"{_POLICY}/decide.py": ["tests/policy/test_table_decide.py"],
    f"{_SIDECAR}/store/rules.py": ["tests/store/test_rules.py", "tests/contract/test_memory_store.py"],
    f"{_SIDECAR}/store/document.py": ["tests/store", *_fuzz("documents")],
    f"{_SIDECAR}/run/replay.py": ["tests/run", *_fuzz("journals")],
    f"{_SIDECAR}/run/compact.py": ["tests/run", *_fuzz("journals")],
    f"{_SIDECAR}/wire/gate.py": ["tests/wire/test_gate.py"],
    f"{_SIDECAR}/wire/ticket.py": ["tests/wire/test_ticket.py"],
    f"{_SIDECAR}/wire/outline.py": ["tests/wire/test_outline.py"],
    f"{_SIDECAR}/wire/codec.py": ["tests/wire/test_codec.py", *_fuzz("wire")],
}
"""The rooms in which every fault is noticed or explained, each with the smallest set of tests that is to notice it."""

MORE: Final[dict[str, list[str]]] = {
    f"{_POLICY}/serving.py": ["tests/policy/test_serving.py", "tests/policy/test_guards_kept.py"],
    f"{_POLICY}/guards/names.py": ["tests/policy/test_names.py", "tests/policy/test_own_signs.py"],
    f"{_POLICY}/guards/refuse.py": ["tests/policy/test_guards_mcp.py", "tests/policy/test_guards_a2a.py"],
    f"{_POLICY}/guards/own_answers.py": ["tests/policy/test_own_signs.py", "tests/policy/test_cost.py"],
    f"{_POLICY}/guards/own_signs.py": ["tests/policy/test_own_signs.py", "tests/policy/test_cost.py"],
    f"{_POLICY}/guards/outbound.py": ["tests/policy/test_outbound.py"],
    f"{_POLICY}/audit/accept.py": ["tests/policy/test_audit_accept.py"],
    f"{_POLICY}/audit/frames.py": ["tests/policy/test_audit_frames.py"],
    f"{_POLICY}/audit/hostfiles.py": ["tests/policy/test_host_files.py", "tests/policy/test_audit_hosts.py"],
    f"{_POLICY}/audit/hosts.py": ["tests/policy/test_audit_hosts.py"],
    f"{_POLICY}/audit/near_names.py": ["tests/policy/test_near_names.py", "tests/policy/test_likeness.py"],
    f"{_SIDECAR}/store/front_matter.py": ["tests/store/test_document.py", *_fuzz("documents")],
    f"{_SIDECAR}/store/authority.py": ["tests/contract/test_memory_store.py", "tests/backend/test_file.py"],
    f"{_SIDECAR}/store/scope.py": ["tests/store/test_scope.py", "tests/run/test_replay.py", "tests/run/test_kinds.py"],
    f"{_SIDECAR}/store/portable.py": ["tests/cli/test_transfer.py", "tests/cli/test_byte_for_byte.py"],
    f"{_SIDECAR}/run/glance.py": ["tests/run/test_glance.py", *_fuzz("journals")],
    f"{_SIDECAR}/run/directory.py": ["tests/run/test_directory.py"],
    f"{_SIDECAR}/run/retention.py": [
        "tests/run/test_retention.py",
        "tests/cli/test_runs.py::test_prune_by_state_and_age",
    ],
    f"{_SIDECAR}/run/saw.py": ["tests/cli/test_runs.py"],
    f"{_SIDECAR}/run/session.py": [
        "tests/run/test_session.py",
        "tests/end_to_end/test_openings.py",
        "tests/end_to_end/test_runs.py",
    ],
    f"{_SIDECAR}/run/standings.py": ["tests/run/test_standings.py"],
    f"{_SIDECAR}/wire/eras.py": ["tests/end_to_end/test_modern.py", "tests/end_to_end/test_handshake.py"],
    f"{_SIDECAR}/wire/states.py": ["tests/end_to_end/test_modern.py", "tests/end_to_end/test_wire.py"],
    f"{_SIDECAR}/wire/whose_run.py": [
        "tests/end_to_end/test_runs.py::test_runs_of_one_process_share_the_notes_but_no_authority",
        "tests/end_to_end/test_many_identities.py",
    ],
    f"{_SIDECAR}/wire/last_word.py": ["tests/system/test_start_failures.py"],
    f"{_SIDECAR}/system/inherited.py": ["tests/system/test_inherited.py"],
    f"{_SIDECAR}/system/together.py": ["tests/system/test_together.py"],
    f"{_SIDECAR}/backend/apart.py": ["tests/backend/test_apart.py", "tests/end_to_end/test_many_identities.py"],
    f"{_SIDECAR}/backend/file/listing.py": ["tests/backend/test_file.py"],
    f"{_SIDECAR}/backend/file/store_id.py": ["tests/backend/test_store_id.py"],
    f"{_SIDECAR}/backend/file/swap.py": ["tests/backend/test_swap.py", "tests/backend/test_file.py"],
    f"{_SIDECAR}/backend/jetstream/context.py": [
        *("tests/backend/jetstream/test_odd_files.py", "tests/backend/jetstream/test_context.py"),
        *_fuzz("contexts"),
    ],
    f"{_SIDECAR}/backend/jetstream/permissions.py": [
        "tests/backend/jetstream/test_permissions.py",
        "tests/cli/test_permissions.py",
    ],
    f"{_SIDECAR}/backend/jetstream/settings.py": ["tests/backend/jetstream/test_settings.py"],
    f"{_SIDECAR}/config.py": ["tests/test_config.py", *_fuzz("configurations")],
    f"{_SIDECAR}/options.py": ["tests/test_options.py", "tests/test_config.py"],
    f"{_SIDECAR}/launched_by.py": ["tests/test_launched_by.py"],
    f"{_SIDECAR}/places.py": ["tests/test_places.py"],
}
"""Others in which something is decided. A sample of their faults is tried, and what survives becomes a test; not all of
them are explained yet."""

MODULES: Final = HELD | MORE


class Job(NamedTuple):
    module: str
    mutant: Mutant
    place: Path
    until: float

    @property
    def name(self) -> str:
        where = f" in {self.mutant.where}" if self.mutant.where else ""
        return f"{self.module.rpartition('/')[2]}{where}: `{self.mutant.before}` -> `{self.mutant.after}`"


def _begin(module: str, mutant: Mutant, usual: Usual | None, noticed: list[str]) -> tuple[int, Job]:
    place = _tree_with(module, mutant.source)
    # A loop without end is noticed, too. What the tests usually take says how long that must be waited for.
    allowed = 30 + 4 * usual.seconds if usual else 600
    pid = os.fork()
    if pid == 0:
        _try(module, place, Order(place, module, mutant.where, usual, noticed), allowed)
    return pid, Job(module, mutant, place, time.monotonic() + allowed)


def _tree_with(module: str, source: str) -> Path:
    """A tree like this one, but for one module, with a virtual environment in which it is what is installed.

    Programs that tests start must meet the changed module too, whatever becomes of their environment on the way. The
    compiled files are there, so that they need not compile anew.
    """
    place = Path(tempfile.mkdtemp(prefix=PLACES, dir=ROOT))
    own = shutil.ignore_patterns(".*", "node_modules", f"{Path(module).stem}.*.pyc")
    shutil.copytree(ROOT, place, symlinks=True, ignore=own, copy_function=os.link, dirs_exist_ok=True)
    (place / module).unlink()
    (place / module).write_text(source)
    programs = place / ".venv" / "bin"
    packages = place / ".venv" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    programs.mkdir(parents=True)
    packages.mkdir(parents=True)
    interpreter = os.path.realpath(sys.executable)
    (place / ".venv" / "pyvenv.cfg").write_text(f"home = {os.path.dirname(interpreter)}\n")
    (programs / "python").symlink_to(interpreter)
    installed = (place / "sidecar", place / "policy", sysconfig.get_path("purelib"))
    (packages / "installed.pth").write_text("".join(f"{path}\n" for path in installed))
    command = programs / "memory-sidecar"
    command.write_text(f"#!{programs / 'python'}\nimport sys\n{_COMMAND}\nsys.exit(main())\n")
    command.chmod(0o755)
    return place


def _try(module: str, place: Path, order: Order, allowed: float) -> None:
    """In the fork: run the tests of the changed tree, and end with their status."""
    os.setpgid(0, 0)
    # A loop without end must not outlive this program either, however that is ended.
    resource.setrlimit(resource.RLIMIT_CPU, (int(allowed), int(allowed)))
    with open(os.devnull, "r+b") as nowhere:
        for descriptor in (0, 1, 2):
            os.dup2(nowhere.fileno(), descriptor)
    os.chdir(place)
    roots = ("sidecar", "policy", "")
    paths = [str(place / root) for root in roots]
    sys.path[:] = [*paths, *(path for path in sys.path if path not in {"", *(str(ROOT / root) for root in roots)})]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    sys.executable = str(place / ".venv" / "bin" / "python")
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "fuzz")]:
        del sys.modules[name]  # what is imported from now on is the changed tree's
    hypothesis.settings.register_profile("mutants", max_examples=60, derandomize=True, database=None, deadline=None)
    hypothesis.settings.load_profile("mutants")
    loaded_early = "ignore::pytest.PytestAssertRewriteWarning"
    words = ["-x", "-q", "-m", "not long", "-W", loaded_early, "-p", "no:cacheprovider"]
    status = pytest.main([*words, *MODULES[module]], plugins=[order])
    os._exit(0 if status == 0 else 1)


def _usual(module: str) -> Usual:
    """How the tests of a module go without any fault. What fails then would kill every mutant."""
    pid, job = _begin(module, Mutant("", 0, "", "", (ROOT / module).read_text()), None, [])
    _, status = os.waitpid(pid, 0)
    usual = Usual.read(job.place)
    for compiled in (job.place / "tests").rglob("*.pyc"):  # the tests as pytest rewrites them, for all that follow
        kept = ROOT / compiled.relative_to(job.place)
        if not kept.exists():
            kept.parent.mkdir(exist_ok=True)
            os.link(compiled, kept)
    shutil.rmtree(job.place, ignore_errors=True)
    if status or not usual:
        sys.exit(f"the tests of {module} fail as it is")
    return usual


def _run(todo: list[tuple[str, Mutant]], usual: dict[str, Usual], jobs: int) -> list[Job]:
    """The survivors."""
    running: dict[int, Job] = {}
    survivors = []
    noticed: dict[str, list[str]] = {}
    total = len(todo)
    while todo or running:
        while todo and len(running) < jobs:
            module, mutant = todo.pop(0)
            pid, job = _begin(module, mutant, usual[module], noticed.get(module, []))
            running[pid] = job
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            job = running.pop(pid)
            if status == 0:
                survivors.append(job)
            elif found := first_noticed(job.place):
                before = noticed.setdefault(job.module, [])
                noticed[job.module] = [found, *(name for name in before if name != found)]
            shutil.rmtree(job.place, ignore_errors=True)
            done = total - len(todo) - len(running)
            if sys.stderr.isatty():
                print(f"\r{done} of {total}, {len(survivors)} alive", end="", file=sys.stderr, flush=True)
            continue
        for pid, job in running.items():
            if time.monotonic() > job.until:
                os.killpg(pid, signal.SIGKILL)
        time.sleep(0.01)
    return survivors


def _sample(found: list[Mutant], most: int | None) -> list[Mutant]:
    if most is None or len(found) <= most:
        return found
    return [found[number * len(found) // most] for number in range(most)]


def _explained() -> set[str]:
    if not EXPLAINED.exists():
        return set()
    return set(re.findall(r"^- (\S+\.py(?: in \S+)?: `.*` -> `.*`)$", EXPLAINED.read_text(), re.MULTILINE))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("module", nargs="*", help="names of modules; those held whole, if none is named")
    parser.add_argument("--more", action="store_true", help="the others, of which not every survivor is explained")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sample", type=int, help="at most so many of a module, spread over it")
    parser.add_argument("--list", action="store_true", help="print them; try none")
    arguments = parser.parse_args()
    rooms = MODULES if arguments.module else MORE if arguments.more else HELD
    chosen = [path for path in rooms if not arguments.module or Path(path).stem in arguments.module]
    found = {path: _sample(mutants((ROOT / path).read_text()), arguments.sample) for path in chosen}
    todo = [(path, mutant) for path, some in found.items() for mutant in some]
    if arguments.list:
        for path, mutant in todo:
            print(Job(path, mutant, ROOT, 0.0).name)
        return 0
    for root in ("policy", "sidecar"):
        compileall.compile_dir(ROOT / root, quiet=1)
    gc.freeze()
    began = time.monotonic()
    usual = {path: _usual(path) for path in chosen}
    survivors = _run([*todo], usual, arguments.jobs)
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
    names = {Job(path, mutant, ROOT, 0.0).name for path, mutant in todo}
    files = {Path(path).name for path in chosen} if arguments.sample is None else set()
    gone = sorted(name for name in explained if name not in names and re.split(r"[: ]", name)[0] in files)
    for name in gone:
        print(f"explained, but no mutant any more: {name}")
    print(f"{len(todo)} mutants in {time.monotonic() - began:.0f} s")
    return bool(unexplained or gone)


if __name__ == "__main__":
    sys.exit(main())

"""Records what published servers offer, so that the rules can be measured again in seconds, without a network.

    python -m tests.policy.corpus.record [--work DIR] [PACKAGE ...]

Each candidate is installed from its registry (wheels only, no install scripts) and launched once, by the audit
itself: what is recorded is each raw result that the audit judged. Linux, as root: a package's code runs as `nobody`, in
a network namespace without a network, with an empty home. Needs `uv` and `npm`. About ten seconds a server.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import anyio

from exposure_policy.audit.collect import Collector
from exposure_policy.audit.result import Bounds, Target
from exposure_policy.audit.servers import probe_server

HERE: Final = Path(__file__).parent
_BOUNDS: Final = Bounds(seconds=40)
_INSTALL_SECONDS: Final = 120
# For all the ways of launching one server together.
_PATIENCE: Final = 100
# How commands are told to serve over stdio, the commonest first; nothing else is tried.
_ARGUMENTS: Final = ("", "serve", "mcp", "stdio", "server", "mcp serve", "--stdio", "--transport stdio")
# Packages that bring a model's runtime are gigabytes.
_TOO_BIG: Final = re.compile(r"(?m)^ *\+ *(?:torch|tensorflow|nvidia-[\w-]+|playwright|pyqt\w*|vllm|ray)\b")
# People's addresses are no business of a corpus.
_ADDRESS: Final = re.compile(r"[\w.+-]+@[\w-]+\.[\w.-]+")


class _Recorder(Collector):
    """Keeps each raw result that it is given to judge."""

    def __init__(self, label: str) -> None:
        super().__init__("mcp", label, _BOUNDS)
        self.results: list[Mapping[str, Any]] = []

    def result(self, result: Mapping[str, Any]) -> Iterator[None]:
        if result not in self.results:
            self.results.append(result)
        return super().result(result)


def candidates() -> list[tuple[str, str, str]]:
    """Registry, package and kind of each."""
    lines = (HERE / "candidates.tsv").read_text().splitlines()[1:]
    return [tuple(line.split("\t")) for line in lines]  # type: ignore[misc]


def record(registry: str, package: str, kind: str, work: Path) -> dict[str, Any] | str:
    """What the server offers, or in words why that was not to be had."""
    place = work / registry / re.sub(r"\W+", "-", package)
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    home = place / "home"
    home.mkdir(mode=0o777)
    home.chmod(0o777)
    try:
        version, programs = (_from_npm if registry == "npm" else _from_pypi)(package, place)
    except (subprocess.SubprocessError, OSError, ValueError, StopIteration) as error:
        return f"not installed: {str(error)[:200]}"
    reasons = []
    started = time.monotonic()
    for program in programs[:3]:
        for arguments in _ARGUMENTS:
            if time.monotonic() - started > _PATIENCE:
                return f"offers nothing in time: {reasons[0][:300]}"
            recorder = _Recorder(package)
            command = _isolated(home, [*program, *arguments.split()])
            anyio.run(probe_server, Target("mcp", command), recorder)
            if any("tools" in result for result in recorder.results):
                text = json.dumps(recorder.results, ensure_ascii=False).replace(str(home), "/home/user")
                text = _ADDRESS.sub("someone@example.com", text.replace(str(place), "/opt/server"))
                return {
                    "registry": registry,
                    "package": package,
                    "version": version,
                    "kind": kind,
                    "results": json.loads(text),
                }
            reasons += recorder.report().unaudited[:1]
            if "closed its output" not in reasons[-1]:  # it waits for something else than other arguments
                return f"offers nothing: {reasons[-1][:300]}"
    return f"offers nothing: {reasons[0][:300] if reasons else 'no program'}"


def _run(*command: str, **more: Any) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False, **more)
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or ["failed"])[-1])
    return done.stdout + done.stderr


def _from_pypi(package: str, place: Path) -> tuple[str, list[list[str]]]:
    uv, python = os.environ.get("UV", "uv"), str(place / "bin" / "python")
    _run(uv, "venv", "--quiet", "--allow-existing", "--python", os.environ.get("CORPUS_PYTHON", "3.12"), str(place))
    install = [uv, "pip", "install", "--only-binary", ":all:", "--python", python]
    try:
        # Most were published before the SDK's second version and do not say that they need the first.
        wanted = (package, "mcp<2")
        planned = _run(*install, "--dry-run", *wanted)
    except ValueError:
        wanted = (package,)
        planned = _run(*install, "--dry-run", *wanted)
    if _TOO_BIG.search(planned):
        raise ValueError("it brings a runtime of gigabytes")
    _run(*install, *wanted)
    ask = (
        "import sys, json, importlib.metadata as m; d = m.distribution(sys.argv[1]);"
        "print(json.dumps([d.version, [e.name for e in d.entry_points if e.group == 'console_scripts']]))"
    )
    version, names = json.loads(_run(python, "-c", ask, package, env=os.environ))
    names.sort(key=lambda name: (name != package, "mcp" not in name, "server" not in name))
    return version, [[str(place / "bin" / name)] for name in names]


def _from_npm(package: str, place: Path) -> tuple[str, list[list[str]]]:
    _run("npm", "install", "--prefix", str(place), "--ignore-scripts", "--no-audit", "--no-fund", package)
    folder = place / "node_modules" / package
    manifest = json.loads((folder / "package.json").read_text())
    declared = manifest.get("bin", {})
    programs = {package.rpartition("/")[2]: declared} if isinstance(declared, str) else declared
    names = sorted(programs, key=lambda name: (name != package.rpartition("/")[2], "mcp" not in name))
    return manifest["version"], [["node", str(folder / programs[name])] for name in names]


def _isolated(home: Path, program: list[str]) -> str:
    library = os.environ.get("CORPUS_LIBRARY", "")
    environment = ["env", f"HOME={home}", f"LD_LIBRARY_PATH={library}", "PATH=/usr/bin:/bin"]
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]
    script = f"ip link set lo up; cd {shlex.quote(str(home))}; exec {shlex.join([*nobody, *environment, *program])}"
    return shlex.join(["unshare", "--net", "sh", "-c", script])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=Path("/var/tmp/audit-corpus"))
    parser.add_argument("--into", type=Path, default=HERE / "recorded")
    parser.add_argument("--keep", action="store_true", help="leave what is recorded already")
    parser.add_argument("--share", default="0/1", help="only every nth candidate: 0/3, 1/3 and 2/3 in three processes")
    parser.add_argument("--held-out", action="store_true", help="mark what is recorded as what no rule was made from")
    parser.add_argument("packages", nargs="*")
    order = parser.parse_args()
    order.into.mkdir(exist_ok=True)
    share, shares = map(int, order.share.split("/"))
    for registry, package, kind in candidates()[share::shares]:
        if order.packages and package not in order.packages:
            continue
        file = order.into / f"{registry}-{re.sub(r'[^a-z0-9]+', '-', package.lower()).strip('-')}.json"
        if order.keep and file.exists():
            continue
        found = record(registry, package, kind, order.work)
        shutil.rmtree(order.work / registry / re.sub(r"\W+", "-", package), ignore_errors=True)
        told = found if isinstance(found, str) else f"{found['version']}, {len(found['results'])} results"
        print(f"{registry}\t{package}\t{kind}\t{told}", file=sys.stderr, flush=True)
        if not isinstance(found, str):
            found |= {"held_out": True} if order.held_out else {}
            file.write_text(json.dumps(found, ensure_ascii=False, indent=None, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()

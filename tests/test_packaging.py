"""What an installation gets: both packages in one wheel, one version, and a sidecar that serves from it."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.support.sidecar import patched
from tests.system.test_inherited import REFUSED, WINDOWS

from memory_sidecar.exits import EX_CONFIG
from memory_sidecar.version import __version__

ROOT = Path(__file__).parent.parent
HARNESS = """\
import asyncio, memory_sidecar
from memory_sidecar.harness import MemorySidecar

async def main():
    async with MemorySidecar.launch(store_dir="state", identity="me") as memory, memory.run("r") as run:
        print(memory_sidecar.__file__, (await run.call("memory_list")).text)

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return next(place.glob("*.whl"))


def test_the_wheel_holds_both_packages_typed_and_one_version(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"memory_sidecar-{__version__}.dist-info/METADATA").decode()
    assert {"memory_sidecar/py.typed", "exposure_policy/py.typed", "memory_sidecar/run/journal.schema.json"} <= names
    assert not [name for name in names if name.startswith(("tests", "examples", "bench"))]
    assert f"\nVersion: {__version__}\n" in metadata
    systems = {line for line in metadata.splitlines() if line.startswith("Classifier: Operating System")}
    assert systems == {f"Classifier: Operating System :: {name}" for name in ("MacOS", "POSIX", "POSIX :: Linux")}


def test_the_wheel_serves(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    said = subprocess.run(
        [sys.executable, "-c", HARNESS], cwd=tmp_path, env=environment, check=True, capture_output=True, text=True
    ).stdout
    assert str(tmp_path / "site") in said
    assert '{"memories":[]}' in said
    told = subprocess.run(
        [sys.executable, "-P", "-m", "memory_sidecar", "--version"],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert told == f"memory-sidecar {__version__}\n"


def test_on_windows_it_installs_and_its_script_ends_with_one_sentence(wheel: Path, tmp_path: Path) -> None:
    """So that a lock for several systems can name it. The script is pip's own, and imports before it does anything."""
    site = tmp_path / "site"
    for_windows = ("--platform", "win_amd64", "--only-binary", ":all:", "--no-compile", "--target", str(site))
    subprocess.run(
        [sys.executable, "-m", "pip", "--isolated", "install", "--no-index", "--no-deps", *for_windows, str(wheel)],
        check=True,
        capture_output=True,
    )
    scripts = site / "bin"
    (scripts / "memory-sidecar").rename(scripts / "memory-sidecar.exe")
    env = patched(scripts, WINDOWS)
    env["PYTHONPATH"] = f"{env['PYTHONPATH'].split(os.pathsep)[0]}{os.pathsep}{site}"
    done = subprocess.run([scripts / "memory-sidecar.exe"], env=env, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (EX_CONFIG, "")
    assert done.stderr == f"memory-sidecar: {REFUSED}"


def test_the_source_distribution_holds_the_document_that_a_refused_start_points_to(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        assert f"memory_sidecar-{__version__}/docs/protocol.md" in archive.getnames()

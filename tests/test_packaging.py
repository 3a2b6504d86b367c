"""What an installation gets: both packages in one wheel, one version, and a sidecar that serves from it."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

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


def test_the_source_distribution_holds_the_document_that_a_refused_start_points_to(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    with tarfile.open(next(tmp_path.glob("*.tar.gz"))) as archive:
        assert f"memory_sidecar-{__version__}/docs/protocol.md" in archive.getnames()

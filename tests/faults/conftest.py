"""A store and its journals as a sidecar left them, made once and copied for each test."""

import shutil
from pathlib import Path

import pytest
from tests.support.sidecar import launched

from .answers import HELD_RUN


@pytest.fixture(scope="session")
def _place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("prepared")
    with launched(base, "--run", HELD_RUN) as sidecar:
        sidecar.write("old", "text")
        sidecar.write("gone", "text")
        sidecar.leave()
    return base


@pytest.fixture
def prepared(_place: Path, tmp_path: Path) -> Path:
    """A store base of its own, with the notes `old` and `gone`."""
    return Path(shutil.copytree(_place, tmp_path / "base"))

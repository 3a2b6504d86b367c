"""A whole session on each kind of disk that can be mounted here, and the contract of a store on some."""

from pathlib import Path
from typing import Final

import pytest

from .disks import DISKS, NotHereError, mounted
from .session import played

QUICK: Final = ("tmpfs, nosuid, noexec, nodev", "ext4, small inodes", "overlay")
"""What the ordinary run mounts; `make machines` plays all."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in DISKS]
)
def test_a_session_on_a_disk(name: str, tmp_path: Path) -> None:
    try:
        with mounted(name, tmp_path) as disk:
            played(disk / "state", tmp_path, DISKS[name])
    except NotHereError as error:
        pytest.skip(f"{name}: {error}")

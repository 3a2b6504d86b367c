"""A whole session on each machine that can be set up here. See `machines.py`, and docs/deploying.md for people."""

from pathlib import Path
from typing import Final

import pytest

from .machines import MACHINES
from .session import NotPlayedError, played_on

QUICK: Final = (
    *("process 1 of a container", "a root directory for reading only", "no /proc, /dev and /sys"),
    *("a user that nobody knows", "gVisor's missing calls", "a filter that denies limits and masks"),
    *("MemoryDenyWriteExecute", "no locks anywhere", "no call that Linux alone has"),
)
"""What the ordinary run sets up; `make machines` plays all."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in MACHINES]
)
def test_a_session_on_a_machine(name: str, tmp_path: Path) -> None:
    try:
        played_on(MACHINES[name], tmp_path)
    except NotPlayedError as error:
        pytest.skip(f"{name}: {error}")

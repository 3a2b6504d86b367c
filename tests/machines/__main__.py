"""Plays a whole session on every disk and machine that can be had here, and prints a row each: `make machines`."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from .disks import DISKS, NotHereError, mounted
from .machines import MACHINES
from .session import NotPlayedError, played, played_on

WITH_CONTRACT: Final = ("ext4, small inodes", "overlay", "ntfs, names without case", "exfat-fuse")
"""Disks that the contract is held on as well; it takes a minute each."""


def on_disk(name: str, place: Path) -> str:
    with mounted(name, place) as disk:
        told = played(disk / "state", place, DISKS[name])
        return f"{told}; contract: {contract(disk)}" if name in WITH_CONTRACT else told


def contract(disk: Path) -> str:
    """The contract that every backend keeps, of the file backend on that disk: what pytest says at the end.

    Raises:
        AssertionError: it isn't kept there.
    """
    words = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "-o",
        "tmp_path_retention_policy=none",
        f"--basetemp={disk / 'contract'}",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "tests/backend/test_file_contract.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-600:]
    return done.stdout.splitlines()[-1].partition(" in ")[0]


def rows() -> Iterator[tuple[str, Callable[[Path], str]]]:
    for name in DISKS:
        yield f"disk: {name}", lambda place, name=name: on_disk(name, place)  # type: ignore[misc]
    for name, machine in MACHINES.items():
        yield name, lambda place, machine=machine: played_on(machine, place)  # type: ignore[misc]


def main(only: list[str]) -> int:
    """Play them all, or those whose names hold one of the words."""
    failed = left_out = done = 0
    for name, play in rows():
        if only and not any(word in name for word in only):
            continue
        with tempfile.TemporaryDirectory(prefix="machine-", ignore_cleanup_errors=True) as place:
            try:
                told = play(Path(place))
                done += 1
            except (NotHereError, NotPlayedError) as error:
                told = f"not here: {error}"
                left_out += 1
            except Exception as error:  # noqa: BLE001 - a row each, whatever comes
                told = f"FAILED: {type(error).__name__}: {error}"
                failed += 1
        print(f"{name:42} {told}", flush=True)
    print(f"{done} as the tables say, {failed} failed, {left_out} not to be had here")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Play every race so many times on every directory given.

python -m tests.races [--rounds N] [--only WORD] [DIRECTORY ...]
"""

import argparse
import sys
import tempfile
from pathlib import Path

from memory_sidecar.system import exchange

from . import RACES, Counts, race


def main() -> int:
    parser = argparse.ArgumentParser(prog="races")
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--only", default="", help="only races whose name holds this word")
    parser.add_argument("directories", nargs="*", default=["/dev/shm", "/var/tmp"])
    given = parser.parse_args()
    wrong = 0
    for where in given.directories:
        for name in RACES:
            if given.only in name:
                wrong += _play(where, name, given.rounds).lost
        if given.only:
            continue
        # The control: without an exchange a save between look and rename is lost, or these races would prove nothing.
        able, exchange.kernel = exchange.kernel, lambda: None
        caught = _play(where, "overwrite, editor renames", given.rounds, " (control, without exchange)").lost
        exchange.kernel = able
        wrong += not caught
    return 1 if wrong else 0


def _play(where: str, name: str, rounds: int, note: str = "") -> Counts:
    with tempfile.TemporaryDirectory(dir=where, prefix="races-") as place:
        counts = race(Path(place) / "notes", name, rounds)
    told = f"{counts.rounds} rounds, ours told success {counts.ours}, lost {counts.lost}"
    print(f"{where}  {name}{note}: {told}", flush=True)
    return counts


if __name__ == "__main__":
    sys.exit(main())

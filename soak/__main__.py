"""Soak one sidecar and judge what it cost: `python -m soak [--calls N] [--directory DIR]`."""

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from soak.drive import Sample, growth, soak

WARM_UP: Final = 0.25
"""The part of the run that isn't judged."""

MEMORY: Final = 4.0
"""MiB that the process may grow in a million calls, by a straight line through the samples after the warm-up."""

JOURNAL: Final = 3 * 1024 * 1024
"""Bytes of the longest journal there may be: 4096 records, and the mebibyte it may grow before it is made short."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--directory", help="where to work: another disk, or memory")
    arguments = parser.parse_args()
    step = max(1, arguments.calls // 20 // 1000) * 1000

    def tell(sample: Sample) -> None:
        if sample.calls % step == 0 or sample.calls == arguments.calls:
            print(
                f"{sample.calls:>9} calls  {sample.memory:6.1f} MiB  {sample.descriptors} descriptors  "
                f"{sample.threads} threads  journals: {sample.steady:>8} bytes of the run that stays, "
                f"{sample.journals:>9} in {sample.files}",
                flush=True,
            )

    with tempfile.TemporaryDirectory(dir=arguments.directory) as directory:
        report = soak(Path(directory), arguments.calls, tell)
    found = growth(report.samples, WARM_UP)
    largest = max(sample.steady for sample in report.samples)
    counts = ", ".join(f"{count} {tool}" for tool, count in report.tools.items())
    print(f"{sum(report.tools.values())} calls in {report.seconds:.0f} s: {counts}")
    print(
        f"{report.opened} runs opened, {report.ended} ended, {report.pruned} pruned; {report.refusals} writes refused; "
        f"{report.overwrites} overwrites of one note by one run; {report.identities} identities; "
        f"{report.modern} requests without a handshake"
    )
    checks = {
        f"memory grows by {found.memory:+.2f} MiB in a million calls (at most {MEMORY:.0f}; "
        f"span {found.spread:.1f} MiB)": found.memory <= MEMORY,
        f"descriptors differ by {found.descriptors} (0)": found.descriptors == 0,
        f"threads differ by {found.threads} (0)": found.threads == 0,
        f"the longest journal had {largest} bytes (at most {JOURNAL})": largest <= JOURNAL,
    }
    for text, holds in checks.items():
        print("ok   " if holds else "WRONG", text)
    return not all(checks.values())


if __name__ == "__main__":
    sys.exit(main())

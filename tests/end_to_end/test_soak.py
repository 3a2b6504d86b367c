"""The quick part of the soak: enough calls to see a descriptor or a thread that stays with each run."""

from pathlib import Path

import pytest
from soak.drive import Sample, growth, soak


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
def test_descriptors_threads_and_memory_stay_as_they_are(tmp_path: Path) -> None:
    report = soak(tmp_path, 4000, each=400)
    assert sum(report.tools.values()) == 4000
    assert min(report.tools.values()) > 0
    assert len(report.samples) == 10
    found = growth(report.samples, 0.2)
    assert (found.descriptors, found.threads) == (0, 0)
    # A run's journal is read at once when it is resumed, so this little says only that nothing piles up.
    assert found.spread < 16


def test_what_grows_is_seen() -> None:
    samples = [Sample(n * 1000, 20 + n * 0.01 + (n < 5) * 9, 10 + n // 9, 5 + n % 2, 0, 0, 0) for n in range(20)]
    found = growth(samples, 0.25)
    assert found.memory == pytest.approx(10)
    assert found.spread == pytest.approx(0.14)
    assert (found.descriptors, found.threads) == (2, 1)

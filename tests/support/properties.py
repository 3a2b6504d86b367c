"""How many examples hypothesis tries of a property, and whether they are always the same ones.

The suite tries the same examples every time: it is to say whether a change broke something, and nothing by chance.
`make properties` explores: other examples each time, and many times as many: PROPERTIES in the environment holds how
many times.
"""

import os
import re
from typing import Final

import hypothesis
import pytest

__all__ = ["TIMES", "examples", "load_profile", "pytest_runtest_makereport"]

TIMES: Final = int(os.environ.get("PROPERTIES", "0"))
"""0 in the suite, which does not explore."""

_USUAL: Final = 100


def examples(usual: int = _USUAL) -> int:
    """So many examples in the suite; with PROPERTIES, so many times as many."""
    return usual * max(TIMES, 1)


def load_profile() -> None:
    hypothesis.settings.register_profile(
        "suite",
        max_examples=examples(),
        derandomize=not TIMES,
        database=None,
        print_blob=True,  # how a failure is played again, since nothing is kept of it
        # How long an example takes says how busy the machine is, and nothing of the product.
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    if hypothesis.settings.get_current_profile_name() in ("default", "ci"):  # the mutants bring one of their own
        hypothesis.settings.load_profile("suite")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Where properties are explored, `--counts` prints how many examples each file tried."""
    told = getattr(item, "hypothesis_statistics", None)
    if TIMES and told and call.when == "call":
        passing, failing = (sum(map(int, re.findall(rf"(\d+) {word}", told))) for word in ("passing", "failing"))
        counted = [False, item.nodeid.partition("::")[0], "examples", passing + failing, failing]
        item.user_properties.append(("tally", counted))

"""Counts of faults: how often which fault met which operation, and how often something was wrong afterwards.

A test that injects faults tells its numbers through the fixture `tally`, which also fails it if anything was wrong.
`pytest --counts` prints all of them as one table at the end; the numbers travel with the test's report, so that they
arrive from the workers of a parallel run too.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import pytest

__all__ = ["Tally", "pytest_addoption", "pytest_terminal_summary", "tally"]


class Tally(Protocol):
    def __call__(
        self, operation: str, fault: str, tried: int, wrong: Sequence[str] = (), *, control: bool = False
    ) -> None:
        """Count `tried` faults of this kind in the operation, and fail if anything was `wrong` after one.

        Of a `control`, in which the product is spoiled on purpose, something must be wrong.
        """


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Tally:
    def count(operation: str, fault: str, tried: int, wrong: Sequence[str] = (), *, control: bool = False) -> None:
        request.node.user_properties.append(("tally", [control, operation, fault, tried, len(wrong)]))
        assert tried, "nothing was tried"
        if control:
            assert wrong, "the control was not caught: this harness proves nothing"
        else:
            assert not wrong, "\n".join(wrong[:20])

    return count


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--counts", action="store_true", help="print a table of the faults that were tried")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if not terminalreporter.config.getoption("--counts"):
        return
    reports = (report for reports in terminalreporter.stats.values() for report in reports)
    counted = (
        value
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == "tally"
    )
    for line in table(counted):
        terminalreporter.write_line(line)


def table(counted: Iterable[Sequence[Any]]) -> list[str]:
    """The lines of the table; equal operations and faults are summed."""
    sums: dict[tuple[bool, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for control, operation, fault, tried, wrong in counted:
        row = sums[control, operation, fault]
        row[0] += tried
        row[1] += wrong
    lines = []
    for control, title in ((False, "OPERATION"), (True, "CONTROL (spoiled on purpose; must be caught)")):
        rows = [
            (operation, fault, *map(str, row))
            for (is_control, operation, fault), row in sums.items()
            if is_control == control
        ]
        if not rows:
            continue
        total = [sum(int(row[column]) for row in rows) for column in (2, 3)]
        shown = [(title, "FAULT", "TRIED", "VIOLATIONS"), *sorted(rows), ("all", "", *map(str, total))]
        widths = [max(len(row[column]) for row in shown) for column in range(4)]
        lines.append("")
        lines += [
            f"{row[0]:<{widths[0]}}  {row[1]:<{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]:>{widths[3]}}"
            for row in shown
        ]
    return lines

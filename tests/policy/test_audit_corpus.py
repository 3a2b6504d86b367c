"""The audit's figures on published servers, from their recorded answers."""

import pytest
from tests.policy.corpus.__main__ import Measured, figures, measure, report


@pytest.fixture(scope="module")
def measured() -> list[Measured]:
    return measure()


def test_the_corpus_is_large_enough(measured: list[Measured]) -> None:
    of = figures(measured)
    assert of.memories >= 40
    assert of.others >= 60


def test_recall_and_precision_do_not_fall(measured: list[Measured]) -> None:
    """The measured figures: a rule that lowers them is no better one."""
    made_from, held_out = (figures([one for one in measured if one.held_out == held]) for held in (False, True))
    told = report(measured)
    assert made_from.recall >= 0.95, told
    assert made_from.precision >= 0.98, told
    assert held_out.memories >= 20, told
    assert held_out.recall >= 0.95, told
    assert held_out.precision >= 0.90, told
    assert figures(measured).recall >= 0.95, told
    assert figures(measured).precision >= 0.98, told

"""Whom the rules find among well-known servers: every memory, and nothing that is none."""

import pytest
from tests.policy.well_known import MEMORIES, OTHERS, Offers

from exposure_policy.audit.likeness import judge, offer_of


def found(offers: Offers) -> dict[str, str]:
    """What was found, by the name it is shown under, and why."""
    judged = {(offer := offer_of(kind, data)).name: judge(offer) for kind, data in offers}
    return {
        name: f"{signs[0].rule} in {signs[0].where}: {signs[0].evidence}" for name, signs in judged.items() if signs
    }


@pytest.mark.parametrize("server", MEMORIES)
def test_a_memory_is_found(server: str) -> None:
    wanted, offers = MEMORIES[server]
    assert wanted, "name what must be found"
    assert wanted <= set(found(offers))


@pytest.mark.parametrize("server", OTHERS)
def test_what_is_no_memory_is_clean(server: str) -> None:
    assert found(OTHERS[server]) == {}

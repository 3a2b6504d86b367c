"""What conversations share: they are played in both eras of MCP."""

import pytest
from tests.support.sidecar import Era, Sidecar
from tests.support.speaker import Speaker


@pytest.fixture(params=["legacy", "modern"])
def both_eras(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Era:
    """Every sidecar of the test is spoken to as clients of this era do."""
    monkeypatch.setattr(Sidecar, "era", request.param)
    monkeypatch.setattr(Speaker, "era", request.param)
    return request.param

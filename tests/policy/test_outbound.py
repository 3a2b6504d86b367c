"""The channels by which a guarded server speaks without being asked: looked at, and otherwise the SDK's own."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from exposure_policy import ExposureRefused, Surface
from exposure_policy.guards.outbound import watch
from exposure_policy.guards.wrap import Guard

KEPT = {"found": True, "key": "k", "description": "d", "content": "c"}


class Channel:
    """What the SDK has: it keeps what was sent by it."""

    headers = "of its own"

    def __init__(self) -> None:
        self.sent: list[tuple[Any, ...]] = []

    async def send_raw_request(self, method: str, params: Mapping[str, Any] | None, *more: Any) -> dict[str, Any]:
        self.sent.append((method, params, *more))
        return {"action": "accept"}

    async def notify(self, method: str, params: Mapping[str, Any] | None, *more: Any) -> None:
        self.sent.append((method, params, *more))

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.sent.append((progress, total, message))


def watched(standalone: bool = True) -> tuple[Any, Channel, Channel]:
    request, alone = Channel(), Channel()
    connection = SimpleNamespace(outbound=alone, has_standalone_channel=standalone)
    session = SimpleNamespace(_request_outbound=request, _connection=connection)
    watch(session, Guard(Surface.MCP, None))
    return session, request, alone


def channels(session: Any) -> tuple[Any, Any]:
    return session._request_outbound, session._connection.outbound


def test_what_is_harmless_goes_out_as_it_is() -> None:
    session, *plain = watched()

    async def speak() -> None:
        for channel in channels(session):
            assert channel.headers == "of its own"
            assert await channel.send_raw_request("elicitation/create", {"a": 1}, 7) == {"action": "accept"}
            await channel.notify("notifications/message", None, 7)
            await channel.progress(0.5, 1.0, "half")

    anyio.run(speak)
    for channel in plain:
        assert channel.sent == [
            ("elicitation/create", {"a": 1}, 7),
            ("notifications/message", None, 7),
            (0.5, 1.0, "half"),
        ]


@pytest.mark.parametrize("which", [0, 1])
def test_a_kept_answer_goes_out_by_none(which: int) -> None:
    session, *plain = watched()
    channel = channels(session)[which]

    async def speak() -> None:
        with pytest.raises(ExposureRefused) as refused:
            await channel.send_raw_request("sampling/createMessage", {"x": [KEPT]})
        assert refused.value.tool == "sampling/createMessage"
        with pytest.raises(ExposureRefused):
            await channel.notify("notifications/message", {"data": KEPT})
        with pytest.raises(ExposureRefused) as refused:
            await channel.progress(1, message=str(KEPT))
        assert refused.value.tool == "notifications/progress"

    anyio.run(speak)
    assert plain[which].sent == []


def test_a_channel_is_wrapped_once_and_one_that_is_none_stays_as_it_is() -> None:
    session, *_ = watched()
    before = channels(session)
    watch(session, Guard(Surface.MCP, None))
    assert channels(session) == before
    session, _, alone = watched(standalone=False)
    assert session._connection.outbound is alone


@pytest.mark.parametrize("session", [SimpleNamespace(), SimpleNamespace(_request_outbound=1, _connection=1)])
def test_an_sdk_whose_channels_are_elsewhere_is_refused_with_a_way_out(session: Any) -> None:
    with pytest.raises(ExposureRefused, match="serve over HTTP behind guard_mcp_app"):
        watch(session, Guard(Surface.MCP, None))

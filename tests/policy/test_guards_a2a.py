"""Real agent cards of the SDK, of each generation: memory is refused wherever a card can carry it."""

import json
from typing import Any

import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import types as v03
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentExtension, AgentInterface, AgentSkill

from exposure_policy import ExposureRefused
from exposure_policy.guards import check_a2a_card, guard_a2a
from exposure_policy.guards.a2a import guard_modifier


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def skill(**fields: Any) -> AgentSkill:
    given = {"id": "forecast", "name": "Forecast", "description": "Tells the weather.", "tags": ["weather"]}
    return AgentSkill(**(given | fields))


def card(*skills: AgentSkill, **fields: Any) -> AgentCard:
    given: dict[str, Any] = {
        "name": "Weather",
        "description": "Knows the weather.",
        "version": "1.0.0",
        "supported_interfaces": [AgentInterface(url="https://agent.example/rpc", protocol_binding="JSONRPC")],
        "capabilities": AgentCapabilities(streaming=True, extended_agent_card=True),
        "default_input_modes": ["text/plain"],
        "default_output_modes": ["text/plain"],
        "skills": [skill(), *skills],
    }
    return AgentCard(**(given | fields))


LEAKY_SKILLS = [
    {"id": "memory_read"},
    {"name": "Memory Read"},
    {"name": "acme.memoryWrite"},
    {"description": "Tells the weather, and what the agent stored in its memory."},
    {"description": "Answers with the help of memory_list."},
    {"examples": ["What is it like?", "Use memory-read to get the note on Rome"]},
    {"tags": ["weather", "memory_delete"]},
]
LEAKY_CARDS: list[dict[str, Any]] = [
    {"name": "memory_read"},
    {"description": "An assistant that shares its long-term memory with other agents."},
    {"capabilities": AgentCapabilities(extensions=[AgentExtension(uri="https://x.example/memory_read")])},
]


def test_clean_cards_pass() -> None:
    check_a2a_card(card())
    check_a2a_card({"name": "Weather", "skills": [{"id": "a", "name": "b", "description": "c", "tags": []}]})
    check_a2a_card(json.dumps({"name": "Weather", "skills": []}))


@pytest.mark.parametrize("fields", LEAKY_SKILLS, ids=str)
def test_a_leaky_skill_in_every_generation(fields: dict[str, Any]) -> None:
    current = card(skill(**fields))
    refused(current)
    from google.protobuf.json_format import MessageToDict, MessageToJson

    refused(MessageToDict(current))
    refused(MessageToDict(current, preserving_proto_field_name=True))
    refused(MessageToJson(current))
    old = old_card(fields)
    refused(old)
    refused(old.model_dump(mode="json", by_alias=True, exclude_none=True))
    refused(parse_agent_card(old.model_dump(mode="json", by_alias=True, exclude_none=True)))


@pytest.mark.parametrize("fields", LEAKY_CARDS, ids=lambda f: str(next(iter(f))))
def test_a_leaky_card(fields: dict[str, Any]) -> None:
    refused(card(**fields))


def old_card(fields: dict[str, Any]) -> v03.AgentCard:
    given = {"id": "forecast", "name": "Forecast", "description": "Tells the weather.", "tags": ["weather"]}
    return v03.AgentCard(
        name="Weather",
        description="Knows the weather.",
        url="https://agent.example/rpc",
        version="1.0.0",
        capabilities=v03.AgentCapabilities(),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[v03.AgentSkill(**(given | fields))],
    )


def refused(leaky: object) -> None:
    with pytest.raises(ExposureRefused) as caught:
        check_a2a_card(leaky)
    assert caught.value.surface == "a2a"


def test_a_card_inside_a_card_or_an_answer() -> None:
    bad = {"name": "x", "skills": [{"id": "memory_read", "name": "n"}]}
    refused({"name": "Weather", "skills": [], "extendedAgentCard": bad})
    refused({"jsonrpc": "2.0", "id": 1, "result": bad})
    refused({"agents": [{"card": bad}]})
    refused({"name": "Weather", "skills": {"memory_read": {"description": "Tells the weather."}}})
    refused({"name": "Weather", "skills": {"a": {"description": "Gives back what the agent stored in memory."}}})
    refused({"name": "Weather", "skills": [], "x-actions": {"memory_write": True}})


@pytest.mark.parametrize("junk", [None, 3, [], object(), "[]"])
def test_what_is_no_card(junk: object) -> None:
    with pytest.raises(TypeError):
        check_a2a_card(junk)


@pytest.mark.parametrize("text", ["not JSON", "[" * 9000])
def test_text_that_is_no_card(text: str) -> None:
    with pytest.raises(ValueError):
        check_a2a_card(text)


class Executor(AgentExecutor):
    async def execute(self, context: Any, event_queue: Any) -> None: ...
    async def cancel(self, context: Any, event_queue: Any) -> None: ...


def handler(**fields: Any) -> DefaultRequestHandler:
    return DefaultRequestHandler(
        agent_executor=Executor(), task_store=InMemoryTaskStore(), **({"agent_card": card()} | fields)
    )


@pytest.mark.anyio
async def test_the_extended_card_of_a_handler() -> None:
    bad = card(skill(id="memory_read"))
    with pytest.raises(ExposureRefused):
        guard_a2a(handler(extended_agent_card=bad))
    with pytest.raises(ExposureRefused):
        guard_a2a(handler(agent_card=bad))

    async def adds(given: AgentCard, *_context: Any) -> AgentCard:
        return bad

    from a2a.server.context import ServerCallContext
    from a2a.types import GetExtendedAgentCardRequest

    guarded = guard_a2a(guard_a2a(handler(extended_agent_card=card(name="Extended"))))
    assert (await guarded.on_get_extended_agent_card(GetExtendedAgentCardRequest(), ServerCallContext())).name
    guarded = guard_a2a(handler(extended_agent_card=card(name="Extended"), extended_card_modifier=adds))
    with pytest.raises(ExposureRefused):
        await guarded.on_get_extended_agent_card(GetExtendedAgentCardRequest(), ServerCallContext())
    with pytest.raises(ExposureRefused):
        await guard_modifier(adds)(card())

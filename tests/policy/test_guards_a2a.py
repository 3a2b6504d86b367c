"""Real agent cards of the SDK, of each generation: memory is refused wherever a card can carry it."""

import base64
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import httpx
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.compat.v0_3 import types as v03
from a2a.server.agent_execution import AgentExecutor
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import BasePushNotificationSender, InMemoryPushNotificationConfigStore, InMemoryTaskStore
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentCardSignature,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    Artifact,
    GetExtendedAgentCardRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import InternalError
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.testclient import TestClient
from tests.policy.hostile import KEPT, SECRET, awaited, in_a_thread, in_an_executor, on_a_task, run
from tests.support.tally import Tally

from exposure_policy import ExposureRefused
from exposure_policy.guards import check_a2a_card, guard_a2a
from exposure_policy.guards.a2a import guard_modifier
from exposure_policy.serving import served


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


def signature(protected: dict[str, Any], **header: Any) -> AgentCardSignature:
    """As RFC 7515 has it: the protected header is JSON in base64 without padding."""
    encoded = base64.urlsafe_b64encode(json.dumps(protected).encode()).decode().rstrip("=")
    return AgentCardSignature(protected=encoded, signature="TWVtb3J5X3JlYWQ", header=header)


LEAKY_SKILLS = [
    {"id": "memory_read"},
    {"name": "Memory Read"},
    {"name": "acme.memoryWrite"},
    {"description": "Tells the weather, and gives <memory-index> to whoever asks."},
    {"description": "Answers with the help of memory_list."},
    {"examples": ["What is it like?", "Use memory-read to get the note on Rome"]},
    {"tags": ["weather", "memory_delete"]},
]
LEAKY_CARDS: list[dict[str, Any]] = [
    {"signatures": [signature({"alg": "ES256", "note": "Ask memory_read for it."})]},
    {"signatures": [signature({"alg": "ES256"}, memory_read="for it")]},
    {"name": "memory_read"},
    {"description": "An assistant that shares memory_list with other agents."},
    {"capabilities": AgentCapabilities(extensions=[AgentExtension(uri="https://x.example/memory_read")])},
]


def test_clean_cards_pass() -> None:
    check_a2a_card(card())
    check_a2a_card({"name": "Weather", "skills": [{"id": "a", "name": "b", "description": "c", "tags": []}]})
    check_a2a_card(json.dumps({"name": "Weather", "skills": []}))
    check_a2a_card(card(signatures=[signature({"alg": "ES256", "kid": "key-1"}, purpose="release")]))
    check_a2a_card({"name": "Weather", "skills": [], "signatures": [{"protected": "%", "signature": 3}, "x", None]})


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
    refused({"name": "Weather", "skills": {"a": {"description": "Gives back what memory_read says."}}})
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

    guarded = guard_a2a(guard_a2a(handler(extended_agent_card=card(name="Extended"))))
    assert (await guarded.on_get_extended_agent_card(GetExtendedAgentCardRequest(), ServerCallContext())).name
    guarded = guard_a2a(handler(extended_agent_card=card(name="Extended"), extended_card_modifier=adds))
    with pytest.raises(InternalError):
        await guarded.on_get_extended_agent_card(GetExtendedAgentCardRequest(), ServerCallContext())
    with pytest.raises(ExposureRefused):
        await guard_modifier(adds)(card())


# --- peers ------------------------------------------------------------------------------------------------


class Recalls(AgentExecutor):
    """An agent whose answers are what memory holds."""

    def __init__(self, recall: Callable[[], Any]) -> None:
        self.recall = recall

    async def execute(self, context: Any, event_queue: Any) -> None:
        found = self.recall()
        text = str(await found if isinstance(found, Awaitable) else found)
        await event_queue.enqueue_event(
            Message(message_id="1", role=Role.ROLE_AGENT, parts=[Part(text=text)], context_id=context.context_id)
        )

    async def cancel(self, context: Any, event_queue: Any) -> None:  # noqa: ARG002
        KEPT.append(self.recall())


def serving(recall: Callable[[], Any]) -> DefaultRequestHandler:
    return DefaultRequestHandler(agent_executor=Recalls(recall), task_store=InMemoryTaskStore(), agent_card=card())


def message() -> Any:
    return SendMessageRequest(message=Message(message_id="0", role=Role.ROLE_USER, parts=[Part(text="hello")]))


async def answers(handler: Any) -> str:
    """What a peer is told, at once and as a stream."""
    told: list[str] = []
    try:
        told.append(str(await handler.on_message_send(message(), ServerCallContext())))
    except Exception as error:  # noqa: BLE001
        told.append(repr(error))
    try:
        told.extend([str(event) async for event in handler.on_message_send_stream(message(), ServerCallContext())])
    except Exception as error:  # noqa: BLE001
        told.append(repr(error))
    return "\n".join(told)


RECALLS: list[Callable[[], Any]] = [run.call, awaited, on_a_task, in_an_executor, in_a_thread]


@pytest.mark.anyio
@pytest.mark.parametrize("recall", RECALLS, ids=lambda r: str(r.__name__))
@pytest.mark.parametrize("what", ["handler", "executor"])
async def test_a_peer_gets_nothing(recall: Callable[[], Any], what: str, tally: Tally) -> None:
    assert SECRET in await answers(serving(recall))
    handler = serving(recall)
    guard_a2a(handler if what == "handler" else handler.agent_executor)
    told = await answers(handler)
    tally("guard_a2a", f"a peer, with the {what} guarded", 1, [told] if SECRET in told or "memory" in told else [])


@pytest.mark.anyio
async def test_an_executor_that_did_not_ask_for_memory_works() -> None:
    assert "hello yourself" in await answers(guard_a2a(serving(lambda: "hello yourself")))


@pytest.mark.anyio
@pytest.mark.parametrize("form", [json.dumps, str], ids=["json", "python"])
async def test_an_answer_that_was_kept_is_known_by_its_shape(form: Callable[[Any], str]) -> None:
    told = await answers(
        guard_a2a(serving(lambda: form({"found": True, "key": "a", "description": "b", "content": SECRET})))
    )
    assert SECRET not in told


@pytest.mark.anyio
async def test_between_two_events_the_peer_is_not_served() -> None:
    """The stream's caller runs in the same context: it must not stay marked."""
    handler = guard_a2a(serving(lambda: "hello"))
    async for _ in handler.on_message_send_stream(message(), ServerCallContext()):
        assert served() is None
    assert served() is None


def application(given: Any, **options: Any) -> Starlette:
    return Starlette(
        routes=[*create_agent_card_routes(given, **options), *create_jsonrpc_routes(serving(run.call), rpc_url="/rpc")]
    )


def test_the_card_that_is_served_later() -> None:
    async def adds(given: AgentCard) -> AgentCard:
        return card(skill(id="memory_read"))

    path = "/.well-known/agent-card.json"
    for app in (application(card(skill(id="memory_read"))), application(card(), card_modifier=adds)):
        assert "memory_read" in TestClient(app).get(path).text
        answer = TestClient(guard_a2a(app)).get(path)
        assert (answer.status_code, answer.text) == (500, "Internal Server Error")
    clean = TestClient(guard_a2a(application(card()))).get(path)
    assert clean.json()["name"] == "Weather"


def test_a_card_that_is_packed() -> None:
    packed = Starlette(
        routes=create_agent_card_routes(card(skill(id="memory_read", description="x" * 2000))),
        middleware=[Middleware(GZipMiddleware)],
    )
    client = TestClient(guard_a2a(packed))
    assert client.get("/.well-known/agent-card.json").status_code == 500


def test_a_peer_that_comes_in_over_http() -> None:
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "SendMessage",
        "params": {"message": {"messageId": "0", "role": "ROLE_USER", "parts": [{"text": "hello"}]}},
    }
    headers = {"A2A-Version": "1.0"}
    assert SECRET in TestClient(application(card())).post("/rpc", json=request, headers=headers).text
    told = TestClient(guard_a2a(application(card()))).post("/rpc", json=request, headers=headers).text
    assert SECRET not in told


_DONE: Final = TaskState.TASK_STATE_COMPLETED


class Publishes(Recalls):
    """An agent whose task's artifact is what memory held."""

    async def execute(self, context: Any, event_queue: Any) -> None:
        of = {"task_id": context.task_id, "context_id": context.context_id}
        working, done = (TaskStatus(state=state) for state in (TaskState.TASK_STATE_WORKING, _DONE))
        artifact = Artifact(artifact_id="a", parts=[Part(text=str(self.recall()))])
        await event_queue.enqueue_event(Task(id=context.task_id, context_id=context.context_id, status=working))
        await event_queue.enqueue_event(TaskArtifactUpdateEvent(**of, artifact=artifact))
        await event_queue.enqueue_event(TaskStatusUpdateEvent(**of, status=done))


@pytest.mark.anyio
@pytest.mark.parametrize("what", ["nothing", "handler", "executor"])
async def test_what_was_kept_is_pushed_to_no_address(what: str) -> None:
    """The SDK posts to the address that the peer names, and past the agent's ASGI application."""
    posted: list[str] = []

    async def hook(request: httpx.Request) -> httpx.Response:
        posted.append(request.content.decode())
        return httpx.Response(200)

    kept = json.dumps({"found": True, "key": "a", "description": "b", "content": SECRET})
    configured = InMemoryPushNotificationConfigStore()
    async with httpx.AsyncClient(transport=httpx.MockTransport(hook)) as client:
        handler = DefaultRequestHandler(
            agent_executor=Publishes(lambda: kept),
            task_store=InMemoryTaskStore(),
            agent_card=card(capabilities=AgentCapabilities(push_notifications=True, streaming=True)),
            push_config_store=configured,
            push_sender=BasePushNotificationSender(client, configured),
        )
        if what != "nothing":
            guard_a2a(handler if what == "handler" else handler.agent_executor)
        asked = message()
        asked.configuration.task_push_notification_config.url = "http://peer.example/hook"
        with suppress(InternalError):
            async for _ in handler.on_message_send_stream(asked, ServerCallContext()):
                pass
    assert (SECRET in "".join(posted)) is (what == "nothing")


@pytest.mark.parametrize("junk", [None, 3, object()], ids=["none", "number", "object"])
def test_what_serves_no_peer_is_refused(junk: Any) -> None:
    with pytest.raises(TypeError):
        guard_a2a(junk)

"""What is memory's own, in any form that a handler gives it, and what is not."""

import json
from collections.abc import Callable
from typing import Any

import mcp_types
import pytest
from mcp.client import Client
from mcp.server.lowlevel import Server
from mcp.server.mcpserver import MCPServer
from mcp.shared.exceptions import MCPError
from tests.policy.harmless import TOOLS as HARMLESS
from tests.support.tally import Tally

from exposure_policy import TOOLS, ExposureRefused, Surface
from exposure_policy.audit.likeness import judge, offer_of
from exposure_policy.guards import guard_mcp
from exposure_policy.guards.own_answers import answer_signs, hinted, text_signs
from exposure_policy.guards.own_signs import offer_signs
from exposure_policy.guards.wrap import Guard
from memory_sidecar.tools.catalog import Catalog

DEFINITIONS = Catalog(enabled=True, read_only=False).definitions()

ANSWERS: dict[str, Any] = {
    "list": {"memories": [{"key": "plan", "description": "the plan"}]},
    "read": {"found": True, "key": "plan", "description": "the plan", "content": "{[\n"},
    "read with a header": {"found": True, "key": "p", "description": "d", "content": "c", "header": "tags: x"},
    "not found": {"found": False, "key": "plan", "reason": "Nothing is stored under this key."},
    "refused": {"written": False, "key": "plan", "code": "exists", "reason": "This key is taken."},
}


def result(answer: Any) -> dict[str, Any]:
    text = json.dumps(answer)
    return {"content": [{"type": "text", "text": text}], "structuredContent": answer, "isError": False}


FORMS: dict[str, Callable[[Any], Any]] = {
    "structured": lambda answer: {"structuredContent": answer},
    "wrapped": lambda answer: {"structuredContent": {"result": answer}},
    "nested": lambda answer: {"a": [{"b": {"c": (answer,)}}]},
    "in a list": lambda answer: [1, answer],
    "as JSON": json.dumps,
    "as JSON with lines": lambda answer: json.dumps(answer, indent=2),
    "as JSON in another order": lambda answer: json.dumps(dict(reversed(answer.items()))),
    "as compact JSON": lambda answer: json.dumps(answer, separators=(",", ":")),
    "as Python": str,
    "as JSON amid words": lambda answer: f"I found this: {json.dumps(answer)}. Good?",
    "as JSON with lines amid words": lambda answer: f"I found this:\n{json.dumps(answer, indent=2)}\nGood?",
    "as JSON in JSON": lambda answer: json.dumps({"answer": json.dumps(answer)}),
    "a whole result": result,
    "a whole result as JSON": lambda answer: json.dumps(result(answer)),
    "a whole result as Python": lambda answer: str(result(answer)),
    "a text part": lambda answer: {"content": [{"type": "text", "text": json.dumps(answer)}]},
    "an embedded resource": lambda answer: {
        "content": [{"type": "resource", "resource": {"text": json.dumps(answer)}}]
    },
    "a message of a prompt": lambda answer: {"messages": [{"role": "user", "content": {"text": json.dumps(answer)}}]},
}


@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("form", FORMS)
def test_an_answer_of_memory_in_any_form(form: str, answer: str) -> None:
    assert list(answer_signs(FORMS[form](ANSWERS[answer])))


@pytest.mark.parametrize(
    "text",
    [
        "<memory-index>\n- plan: the plan\n</memory-index>",
        "Here it is: <memory-index> - plan </memory-index>",
        "&lt;memory-index&gt;",
        '{"_meta": {"memory-sidecar/run": "r"}}',
        "{'_meta': {'memory-sidecar/private': True}}",
    ],
)
def test_the_index_and_the_mark(text: str) -> None:
    assert list(answer_signs({"content": [{"type": "text", "text": text}]}))
    assert list(answer_signs({"_meta": {"memory-sidecar/run": "r"}}))


def test_what_the_table_says_is_what_the_tools_answer() -> None:
    """A tool's answer that carries a note is known, whatever is added to the table."""
    for row in TOOLS.values():
        for names in row.answers:
            plain = {name.rstrip("?").partition(".")[2] or name.rstrip("?"): "x" for name in names}
            listed = names[0].partition(".")[0] if "." in names[0] else ""
            known = bool(list(answer_signs({listed: [plain]} if listed else plain)))
            assert known is (bool(listed) or len([name for name in names if not name.endswith("?")]) > 2), row.name


@pytest.mark.parametrize(
    "answer",
    [
        {"found": 3, "hits": [{"key": "a", "description": "b"}]},
        {"deleted": True, "key": "a"},
        {"written": 120, "path": "/x"},
        {"memories": []},
        {"memories": [{"key": "a", "description": "b", "size": 3}]},
        {"key": "a", "description": "b", "content": "c"},
        "Nothing was found under that key: no description, no content.",
        '{"found": true, "items": []}',
        "See the memory-index page of memory-sidecar/README.",
        "{" * 5000,
        '{"found":' * 2000,
    ],
)
def test_answers_of_others(answer: Any) -> None:
    assert not list(answer_signs(answer))


@pytest.mark.parametrize("tool", DEFINITIONS, ids=lambda tool: str(tool["name"]))
def test_a_definition_is_known_by_each_of_its_traits(tool: dict[str, Any]) -> None:
    assert {sign.rule for sign in offer_signs({"name": tool["name"]})} == {"name"}
    assert "marker" in {sign.rule for sign in offer_signs({"name": "x", "_meta": tool["_meta"]})}
    shape = {"name": "x", "inputSchema": tool["inputSchema"], "outputSchema": tool["outputSchema"]}
    assert {sign.rule for sign in offer_signs(shape)} == {"schema"}


@pytest.mark.parametrize("tool", HARMLESS, ids=lambda tool: str(tool["name"]))
def test_a_harmless_tool_passes_guards_and_audit(tool: dict[str, Any], tally: Tally) -> None:
    signs = [*offer_signs(tool), *judge(offer_of("tool", tool))]
    tally("guards and audit", "a harmless tool", 1, [str(sign) for sign in signs])


@pytest.mark.anyio
async def test_harmless_tools_work_behind_a_guard() -> None:
    async def listed(ctx: Any, params: Any) -> Any:
        return mcp_types.ListToolsResult.model_validate({"tools": HARMLESS})

    async def called(ctx: Any, params: Any) -> Any:
        return mcp_types.CallToolResult.model_validate({"content": [{"type": "text", "text": f"did {params.name}"}]})

    server = guard_mcp(Server("many", on_list_tools=listed, on_call_tool=called))
    async with Client(server, mode="legacy") as client:
        assert len((await client.list_tools()).tools) == len(HARMLESS) >= 50
        for tool in HARMLESS:
            arguments = dict.fromkeys(tool["inputSchema"]["properties"], "x")
            assert f"did {tool['name']}" in str(await client.call_tool(tool["name"], arguments))


@pytest.mark.anyio
@pytest.mark.parametrize("answer", ANSWERS)
async def test_an_answer_that_was_kept_does_not_go_out(answer: str) -> None:
    """Read before, when nobody was served: the context cannot know, the shape does."""
    server: MCPServer[Any] = guard_mcp(MCPServer("x"))
    server.add_tool(lambda: str(ANSWERS[answer]), name="helper")
    async with Client(server, mode="legacy") as client:
        with pytest.raises(MCPError, match="Internal server error"):
            await client.call_tool("helper", {})


FILLER = "The weather is fine. "


@pytest.mark.parametrize(
    "data",
    [
        {"name": "x" * 5000 + "_memory_read"},
        {"name": "helper", "description": FILLER * 4000 + "See memory_read."},
        {"name": "helper", "inputSchema": {"properties": {f"p{n}": {"type": "string"} for n in range(9000)}}},
    ],
    ids=["name", "description", "schema"],
)
def test_what_is_too_long_to_judge_passes_nowhere(data: dict[str, Any]) -> None:
    with pytest.raises(ExposureRefused, match="more than can be judged; shorten it"):
        Guard(Surface.MCP, None).offer("tool", data)


def test_an_answer_is_found_behind_any_amount_of_others() -> None:
    many = [{"text": FILLER} for _ in range(30_000)]
    assert list(answer_signs({"content": [*many, ANSWERS["read"]]}))
    assert list(answer_signs({"content": [ANSWERS["read"], *many]}))
    assert list(answer_signs(FILLER * 20_000 + "<memory-index>" + FILLER * 20_000))


@pytest.mark.parametrize(
    ("text", "rule", "tool"),
    [
        ("Refused: memory is private to its harness and x", "answer", "memory_list"),
        ("<memory-index>", "answer", "memory_list"),
        ('x {"memory-sidecar/run": 1', "marker", "memory_read"),
        ('x "found": 1, "key": 2, "description": 3', "answer", "memory_read"),
        ("x 'written': 1, 'key': 2, 'code': 3", "answer", "memory_write"),
        ('{"content": 1, "description": 1, "key": 1, "found": 1}', "answer", "memory_read"),
        ('{"description": 1, "key": 1, "found": 1}' + " " * (1 << 20), "answer", "memory_read"),
    ],
)
def test_a_sign_in_a_text_tells_the_rule_and_the_tool(text: str, rule: str, tool: str) -> None:
    assert {(sign.rule, sign.tool) for sign in text_signs(text)} == {(rule, tool)}


@pytest.mark.parametrize(("between", "found"), [(300, True), (301, False)])
def test_names_that_stand_far_apart_are_not_those_of_one_answer(between: int, *, found: bool) -> None:
    """However far into the text they begin."""
    for before in (0, 5000):
        text = "-" * before + '"found":' + "." * between + '"key":' + "." * between + '"description":'
        assert bool(list(text_signs(text))) is found


def test_words_that_many_objects_have_are_no_hint() -> None:
    assert not hinted('{"key": 1, "description": 1, "content": 1, "reason": 1, "code": 1, "header": 1}')


def test_the_refusal_names_offer_surface_and_rule() -> None:
    with pytest.raises(ExposureRefused) as caught:
        Guard(Surface.A2A, None).offer("skill", {"name": "acme__memory_read"})
    assert (caught.value.tool, caught.value.surface) == ("acme__memory_read", "a2a")
    assert "it is memory_read by its name (name: 'acme__memory_read')" in caught.value.rule


def test_the_harness_itself_may_have_them() -> None:
    for tool in DEFINITIONS:
        Guard(Surface.HARNESS, None).offer("tool", tool)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"

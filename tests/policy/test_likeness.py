"""What makes an offer memory besides its name: schema, text, marker, identity; and what does not."""

import time
from typing import Any

import pytest

from exposure_policy import TOOLS
from exposure_policy.audit import Bounds
from exposure_policy.audit.collect import Collector
from exposure_policy.audit.likeness import Offer, judge, offer_of, overlong
from exposure_policy.audit.prose import text_matches
from memory_sidecar.tools.catalog import Catalog

DEFINITIONS = Catalog(enabled=True, read_only=False).definitions()
READ_ONLY = Catalog(enabled=True, read_only=True).definitions()


WRITES = TOOLS["memory_write"].takes


def rules(offer: Offer) -> set[str]:
    return {sign.rule for sign in judge(offer)}


@pytest.mark.parametrize("tool", DEFINITIONS + READ_ONLY, ids=lambda t: str(t["name"]))
@pytest.mark.parametrize("kept", [("description", "inputSchema"), ("outputSchema", "inputSchema")])
def test_each_real_tool_is_known_without_its_name(tool: dict[str, Any], kept: tuple[str, ...]) -> None:
    disguised = {"name": "helper"} | {field: tool[field] for field in kept if field in tool}
    assert judge(offer_of("tool", disguised)), disguised


@pytest.mark.parametrize("tool", DEFINITIONS, ids=lambda t: str(t["name"]))
def test_a_neutral_server_may_have_a_tool_with_a_key(tool: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"key": {"type": "string"}}}
    assert (
        judge(offer_of("tool", {"name": "get_object", "description": "Gets an object.", "inputSchema": schema})) == ()
    )


TOGETHER = {
    "kept and given back": (["save_context", "retrieve_context"], True),
    "logged and found": (["logDecision", "searchDecisions", "health"], True),
    "handed over": (["create_handoff", "get_pending_handoffs", "status"], True),
    "named after remembering": (["memshelf_put", "memshelf_recall", "memshelf_sync"], True),
    "named in German": (["erinnerung_speichern", "erinnerung_lesen"], True),
    "named in Chinese": (["保存记忆", "读取记忆"], True),
    "a machine's, in Chinese": (["读取内存", "写入内存"], False),
    "only kept": (["log_decision", "status"], False),
    "only given back": (["get_context", "list_decisions"], False),
    "a browser's contexts": (["create_context", "list_contexts"], False),
    "a shop's": (["add_preference", "get_preference", "recall_product"], False),
    "members": (["member_add", "member_list", "member_recall"], False),
}


@pytest.mark.parametrize("what", TOGETHER)
def test_what_tools_are_together(what: str) -> None:
    names, memory = TOGETHER[what]
    collector = Collector("mcp", "x", Bounds())
    for _ in collector.result({"tools": [{"name": name} for name in names]}):
        pass
    assert bool(collector.report().findings) == memory


CLEAN = [
    {"name": "add", "description": "Adds two numbers."},
    {"name": "read_memory_usage", "description": "Reports how much memory each process uses, in MiB."},
    {"name": "gpu_memory_list", "description": "Lists GPUs with their total and free memory."},
    {
        "name": "read_memory",
        "description": "Reads memory of the debugged process at an address.",
        "inputSchema": {"type": "object", "properties": {"address": {}, "length": {}}},
    },
    {
        "name": "cache_get",
        "description": "Reads a value from the in-memory cache.",
        "inputSchema": {"properties": {"key": {}}},
    },
    {"name": "find_leaks", "description": "Finds memory leaks and lists the allocation stacks."},
    {
        "name": "edit_diagram",
        "description": "Look first if it was not created here, or if you doubt that your memory of it is accurate.",
        "inputSchema": {"properties": {"operation": {"enum": ["update", "add", "delete"]}}},
    },
    {"name": "put_object", "inputSchema": {"properties": {"key": {}, "content": {}, "overwrite": {}}}},
    {"name": "set", "inputSchema": {"properties": {"key": {}, "description": {}, "content": {}, "space": {}}}},
    {"name": "put", "outputSchema": {"properties": {"key": {}, "written": {}}}},
    {"name": "s3_put", "inputSchema": {"properties": {"key": {}, "content": {}, "bucket": {}}}},
    {"name": "weather", "description": "Current weather. This server keeps no memory of what you asked."},
    {"name": "chat", "description": "Talk to the agent. It does not share its private memory."},
    {"name": "read_graph", "description": "Read the entire knowledge graph"},
    {"name": "create_entities", "description": "Create multiple new entities in the knowledge graph"},
    {"name": "notes", "description": "Lists release notes."},
]


@pytest.mark.parametrize("data", CLEAN, ids=lambda d: str(d["name"]))
def test_clean_offers_pass(data: dict[str, Any]) -> None:
    assert judge(offer_of("tool", data)) == ()


LEAKS = [
    ({"name": "x", "_meta": {"memory-sidecar/private": True}}, "marker"),
    ({"name": "x", "_meta": {"memory-sidecar/run": "r1"}}, "marker"),
    ({"name": "x", "inputSchema": {"properties": dict.fromkeys(WRITES, 1)}}, "schema"),
    ({"name": "x", "inputSchema": {"items": {"properties": dict.fromkeys(WRITES, 1)}}}, "schema"),
    ({"name": "x", "description": "Forwards to memory_read."}, "text"),
    ({"name": "x", "description": "Forwards to `acme.memory-write`, quickly"}, "text"),
    ({"name": "x", "examples": ["call ｍｅｍｏｒｙ＿ｌｉｓｔ first"]}, "text"),
    ({"name": "x", "tags": ["a", "memoryDelete"]}, "text"),
    ({"name": "x", "description": "Reads the agent's private memory without changing it."}, "text"),
    ({"name": "x", "description": "Weather. Also can recall what it has in memory from earlier runs."}, "text"),
    ({"name": "x", "x-unknown": {"deep": ["memory_write"]}}, "text"),
    ({"name": "x", "uri": "memory://read/notes"}, "text"),
    ({"name": "x", "description": "Returns what the assistant saved in earlier sessions."}, "text"),
    ({"name": "x", "inputSchema": {"properties": {"memory_read": {}}}}, "text"),
    ({"name": "x", "inputSchema": {"properties": {"op": {"enum": ["memory_read", "memory_write"]}}}}, "text"),
    ({"name": "recall_memories", "description": "Fetch memories by topic."}, "name"),
    ({"name": "Long-term agent memory store"}, "text"),
    ({"name": "p", "arguments": [{"name": name} for name in WRITES]}, "schema"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "rule"), LEAKS)
def test_a_leak_is_told_with_its_rule(data: dict[str, Any], rule: str) -> None:
    assert rule in rules(offer_of("tool", data))


def test_the_index_and_the_introduction() -> None:
    assert rules(offer_of("server", {"name": "s", "instructions": "<memory-index>\n- a: b"})) == {"text"}
    assert "identity" in rules(offer_of("server", {"name": "memory-sidecar"}))
    assert rules(offer_of("server", {"name": "auditor", "instructions": "Reviews servers."})) == set()


@pytest.mark.parametrize(
    "text",
    [
        "memory_" * 200_000,
        "a" * 2_000_000,
        "memory read " * 100_000,
        "<" * 500_000,
        "ﷺ" * 25_000,
        "keep " * 100_000,
        "<" + " " * 100_000,
        "&#95;" * 100_000,
    ],
)
def test_hostile_text_costs_little(text: str) -> None:
    started = time.process_time()
    list(text_matches(text))
    judge(Offer("tool", text, text))
    assert time.process_time() - started < 60  # what is not linear takes hours


def test_a_deep_schema_costs_little() -> None:
    schema: dict[str, Any] = {}
    for _ in range(50_000):
        schema = {"properties": {"a": schema}}
    started = time.process_time()
    assert judge(offer_of("tool", {"name": "x", "inputSchema": schema})) == ()
    assert time.process_time() - started < 60  # what is not linear takes hours


@pytest.mark.parametrize(
    "name", ["memory%5Fread", "x/memory%255Fread", "memory&#95;read", "memory&lowbar;write", "%6d%65mory_read"]
)
def test_escapes_hide_nothing(name: str) -> None:
    assert rules(offer_of("tool", {"name": name})) == {"name"}
    assert rules(offer_of("resource", {"name": "x", "uri": f"store://{name}"})) == {"text"}
    assert rules(offer_of("tool", {"name": "x", "description": f"See {name} there."})) == {"text"}


FILLER = "This tool looks a topic up. "


@pytest.mark.parametrize(
    "data",
    [
        {"name": "x", "description": FILLER * 3000 + "It calls memory_read."},
        {"name": "x" * 5000 + "_memory_read"},
        {"name": "x", "title": "x" * 5000},
        {"name": "x", "inputSchema": {"properties": {f"p{n}": {} for n in range(15_000)}}},
        {"name": "x", "x-notes": [[FILLER] for _ in range(30_000)]},
    ],
    ids=["description", "name", "title", "schema", "field"],
)
def test_what_is_too_long_to_judge_passes_nowhere(data: dict[str, Any]) -> None:
    offer = offer_of("tool", data)
    assert overlong(offer) is not None
    collector = Collector("mcp", "server", Bounds())
    list(collector.result({"tools": [data]}))
    assert collector.report().status == "unaudited"
    assert "shorten it" in collector.report().unaudited[0]

"""Which names mean a memory tool, and which only look a little like one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exposure_policy import TOOLS
from exposure_policy.audit.likeness import Offer, judge
from exposure_policy.guards.names import MAX_NAME, memory_name

SAME = [
    "memory_read",
    "acme__memory_read",
    "memory-read",
    "memory.read",
    "memory/read",
    "memory:read",
    "memoryRead",
    "MemoryRead",
    "MEMORY_READ",
    "MEMORYREAD",
    "memoryread",
    "Memory Read",
    "mcp_server.memory_read_v2",
    "memoryReadV2",
    "memory_read2",
    "memory_readx",
    "acmememoryread",
    "mcp__memory__read",
    "memory_tool_read",
    "memory_v2_read",
    "memory_read_tool",
    "gpt_memory_read",
    "ｍｅｍｏｒｙ＿ｒｅａｄ",
    "mеmоry_rеаd",  # Cyrillic е, о and а
    "ᴍᴇᴍᴏʀʏ_ʀᴇᴀᴅ",
    "mémory_réad",
    "mem0ry_r3ad",
    "memory\u200b_read",
    "mem\u00adory_read",
    "m-e-m-o-r-y-r-e-a-d",
    "𝐦𝐞𝐦𝐨𝐫𝐲_𝐫𝐞𝐚𝐝",
]
OTHER = [
    "",
    "read_memory_usage",
    "gpu_memory_list",
    "memory_read_bandwidth",
    "memory_listener",
    "memory_reader",
    "memory_writer",
    "memoryready",
    "list_files",
    "memo_read",
    "memorial_list",
    "in_memory_cache",
    "memory_usage",
    "memory",
    "read",
]


@pytest.mark.parametrize("name", SAME)
def test_the_same_tool_under_another_spelling(name: str) -> None:
    assert memory_name(name) == "memory_read"


@pytest.mark.parametrize("name", OTHER)
def test_another_tool(name: str) -> None:
    assert memory_name(name) is None
    assert judge(Offer("tool", name)) == ()


SEPARATORS = st.sampled_from(["_", "-", ".", "/", "__", " ", "::", "·", ""])
PREFIXES = st.sampled_from(["", "acme", "mcp", "my server", "x1", "Agent", "team42"])


@given(st.sampled_from(sorted(TOOLS)), PREFIXES, SEPARATORS, SEPARATORS, st.sampled_from([str, str.upper, str.title]))
def test_prefix_separator_and_case_hide_nothing(tool, prefix, before, between, case) -> None:  # type: ignore[no-untyped-def]
    memory, _, verb = tool.partition("_")
    assert memory_name(prefix + before + case(memory + between + verb)) == tool


@given(st.text(max_size=300))
def test_any_text_is_judged(text: str) -> None:
    memory_name(text)
    judge(Offer("tool", text, text, {"description": text}))


def test_a_name_is_judged_by_its_beginning() -> None:
    assert memory_name("x_" * (MAX_NAME // 2) + "memory_read") is None
    assert memory_name("x" * (MAX_NAME - len("_memory_read")) + "_memory_read") == "memory_read"
    assert memory_name("x" * (MAX_NAME - len("_memory_rea")) + "_memory_read") is None

"""Names that say memory in words of their own: which tool each may mean, and whether it could mean anything else."""

import pytest

from exposure_policy.audit.near_names import is_memory, near_name, plain_name, verbs
from exposure_policy.guards.names import MAX_NAME

SAID = {
    "memory_list": ["list", "index", "enumerate", "browse", "search", "find", "query", "ls"],
    "memory_read": ["read", "get", "recall", "retrieve", "fetch", "load", "show", "view", "open", "lookup"],
    "memory_write": [
        *(
            [
                "write",
                "save",
                "store",
                "remember",
                "add",
                "create",
                "update",
                "set",
                "put",
                "insert",
                "append",
                "record",
                "keep",
                "edit",
            ]
        ),
        *("memorize", "memorise", "persist"),
    ],
    "memory_delete": ["delete", "remove", "forget", "erase", "clear", "drop", "purge"],
}
VERBS = [(verb, tool) for tool, some in SAID.items() for verb in some]
ABOUT_NOTES = {
    *("recall", "remember", "memorize", "memorise", "forget"),
    *("store", "save", "keep", "persist", "record", "retrieve"),
}


@pytest.mark.parametrize(("verb", "tool"), VERBS)
def test_a_verb_beside_memory_says_which_tool(verb: str, tool: str) -> None:
    # A machine has one memory, which is read and written; notes are kept and recalled, and memories are many.
    assert near_name(f"{verb}_memory") == (tool, verb in ABOUT_NOTES)
    assert near_name(f"my-{verb}Memories") == (tool, True)
    assert near_name(f"{verb}_gpu_memory") is None
    assert verbs([verb]) == [tool]


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("memory", ("memory_read", False)),
        ("memories_tool", ("memory_read", False)),
        ("memory_graph", None),
        ("recall", ("memory_read", False)),
        ("recall_facts", ("memory_read", False)),
        ("agent_remember", ("memory_write", False)),
        ("forget", ("memory_delete", False)),
        ("the_agent_forget", None),  # not at the head of the name
        ("get_notes", None),
        ("", None),
        ("x" * MAX_NAME + "_save_memory", None),
    ],
)
def test_without_a_verb_or_without_memory_it_may_hardly_be_meant(name: str, near: tuple[str, bool] | None) -> None:
    assert near_name(name) == near


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        *(
            (f"{verb}_memory", tool)
            for verb, tool in VERBS
            if verb in ["read", "write", "append", "update", "delete", "edit"]
        ),
        ("readMemory", "memory_read"),
        ("memoriesEdit", "memory_write"),
        ("memory_tool_write_v2", "memory_write"),
        ("memory_append_2", "memory_write"),
        ("remember", "memory_write"),
        ("memorize", "memory_write"),
        ("memorise_tool", "memory_write"),
        ("recall", None),
        ("read", None),
        ("memory", None),
        ("get_memory", None),
        ("clear_memory", None),
        ("read_memory_block", None),
        ("read_file", None),
        ("write_read", None),
        ("", None),
    ],
)
def test_a_plain_name_says_the_tool_and_nothing_else(name: str, plain: str | None) -> None:
    assert plain_name(name) == plain


@pytest.mark.parametrize(
    ("name", "memory"),
    [
        *(("memory", True), ("memories", True), ("agent-memory-server", True), ("longterm memory v2", True)),
        *(("memory-graph-mcp", True), ("graph-mcp", False), ("memory-profiler", False), ("memory-recipes", False)),
        ("", False),
    ],
)
def test_a_servers_name_says_memory_if_nothing_beside_it_has_another_sense(name: str, *, memory: bool) -> None:
    assert is_memory(name) is memory


def test_a_tool_that_does_all_of_it_offers_each_once() -> None:
    assert verbs(["save", "getAll", "put", "remove-one", "x"]) == ["memory_write", "memory_read", "memory_delete"]

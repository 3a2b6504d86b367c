"""The table and the decisions over it: every rule stops with a message, and nothing else is needed to read them."""

import ast
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import exposure_policy
from exposure_policy import (
    SURFACES,
    TABLE,
    TOOLS,
    ExposeSpec,
    ExposureRefused,
    Surface,
    ToolPolicy,
    check,
    load,
    tool_set,
)

SOURCE = Path(exposure_policy.__file__).parent
PURE = ("table.py", "decide.py")


def refusal(rows: list[Any]) -> ExposureRefused:
    with pytest.raises(ExposureRefused) as caught:
        load(rows)
    return caught.value


def test_every_tool_is_private() -> None:
    # The tools that harnesses are promised; the table may grow.
    assert {"memory_list", "memory_read", "memory_write", "memory_delete"} <= set(TOOLS)
    assert list(TOOLS) == [row.name for row in TABLE]
    assert all(row.expose == ExposeSpec(mcp=False, a2a=False) for row in TABLE)


def test_the_loaded_table_cannot_be_changed_in_place() -> None:
    """One line that changed it opened a surface, with every row in the file still closed."""
    open_row = TOOLS["memory_read"]._replace(expose=ExposeSpec(mcp=True))
    table: Any = TOOLS
    with pytest.raises(TypeError):
        table["memory_read"] = open_row
    with pytest.raises(TypeError):
        del table["memory_read"]
    for change in ("update", "pop", "clear", "setdefault", "popitem"):
        assert not hasattr(table, change)
    with pytest.raises(TypeError):
        table |= {"memory_read": open_row}
    with pytest.raises(AttributeError):
        table["memory_read"].expose = ExposeSpec(mcp=True)
    with pytest.raises(ExposureRefused):
        check("memory_read", Surface.MCP)


def test_a_spec_is_closed_unless_it_says_otherwise() -> None:
    assert ExposeSpec() == ExposeSpec(mcp=False, a2a=False) == (False, False)


def test_every_row_writes_its_spec_out() -> None:
    """A default would decide for whoever adds a row, and for whoever reads it."""
    calls = [node for node in ast.walk(ast.parse((SOURCE / "table.py").read_text())) if isinstance(node, ast.Call)]
    specs = [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "ExposeSpec"]
    assert len(specs) == len(TABLE)
    for spec in specs:
        assert [keyword.arg for keyword in spec.keywords] == list(ExposeSpec._fields)


def test_a_spec_that_was_built_by_hand_stops_the_process() -> None:
    halves: list[tuple[bool, ...]] = [(), (False,), (False, False, True)]
    for half in halves:
        with pytest.raises((ExposureRefused, ValueError)):
            load([ToolPolicy("memory_x", False, tuple.__new__(ExposeSpec, half))])


def test_a_refusal_is_one_sentence() -> None:
    refused = ExposureRefused("memory_read", "mcp", "it is private")
    assert str(refused) == "tool 'memory_read' on surface 'mcp' is refused: it is private"


def test_a_tool_without_a_spec_cannot_be_written() -> None:
    with pytest.raises(TypeError, match="expose"):
        ToolPolicy("memory_x", mutates=False)  # type: ignore[call-arg]


@pytest.mark.parametrize("spec", [None, (), (False, False), {}, True, "none"])
def test_a_tool_with_no_real_spec_is_refused(spec: Any) -> None:
    refused = refusal([ToolPolicy("memory_x", mutates=False, expose=spec)])
    assert (refused.tool, refused.surface) == ("memory_x", "any")
    assert "ExposeSpec" in refused.rule
    assert all(part in str(refused) for part in ("memory_x", "any", "ExposeSpec"))


@pytest.mark.parametrize("surface", ["mcp", "a2a"])
@pytest.mark.parametrize("value", [True, 1, "yes", None, 0])
def test_a_memory_tool_with_any_surface_open_is_refused(surface: str, value: Any) -> None:
    refused = refusal([*TABLE[:2], ToolPolicy("memory_x", True, ExposeSpec(**{surface: value}))])
    assert (refused.tool, refused.surface) == ("memory_x", surface)
    assert "harness alone" in str(refused)


@pytest.mark.parametrize("mutates", [None, 0, 1, "no"])
def test_a_row_must_say_whether_it_mutates(mutates: Any) -> None:
    refused = refusal([ToolPolicy("memory_x", mutates, ExposeSpec())])
    assert refused.tool == "memory_x"
    assert "mutates" in refused.rule


def test_a_repeated_row_is_refused() -> None:
    assert "one row" in refusal([TABLE[0], TABLE[0]]).rule


@pytest.mark.parametrize("surface", ["mcp", "harness", None, 1, object(), "MCP"])
def test_an_unknown_surface_is_refused(surface: Any) -> None:
    with pytest.raises(ExposureRefused) as caught:
        check("memory_read", surface)
    assert caught.value.tool == "memory_read"
    assert caught.value.surface == str(surface)
    assert "unknown surface" in str(caught.value)


@pytest.mark.parametrize("surface", SURFACES)
@pytest.mark.parametrize("tool", ["memory_purge", "", "memory_read ", "Memory_Read"])
def test_a_tool_the_table_does_not_know_is_refused_everywhere(tool: str, surface: Surface) -> None:
    with pytest.raises(ExposureRefused) as caught:
        check(tool, surface)
    assert (caught.value.tool, caught.value.surface) == (tool, surface.value)
    assert "no such tool" in str(caught.value)


@pytest.mark.parametrize("tool", list(TOOLS))
def test_each_tool_is_for_the_harness_only(tool: str) -> None:
    check(tool, Surface.HARNESS)
    for surface in set(SURFACES) - {Surface.HARNESS}:
        with pytest.raises(ExposureRefused) as caught:
            check(tool, surface)
        assert (caught.value.tool, caught.value.surface) == (tool, surface.value)
        assert "private to its harness" in str(caught.value)


def test_every_surface_of_the_policy_has_a_column() -> None:
    assert {s.value for s in SURFACES} - {"harness"} == set(ExposeSpec._fields)


def test_the_tool_set() -> None:
    assert tool_set(enabled=True, read_only=False) == tuple(TOOLS)
    assert tool_set(enabled=True, read_only=True) == tuple(row.name for row in TABLE if not row.mutates)
    assert {"memory_list", "memory_read"} <= set(tool_set(enabled=True, read_only=True))
    assert not {"memory_write", "memory_delete"} & set(tool_set(enabled=True, read_only=True))
    assert tool_set(enabled=False, read_only=False) == tool_set(enabled=False, read_only=True) == ()


NAMES = st.sampled_from(["memory_read", "memory_list", "x", "", " ", "\ud800"]) | st.text(max_size=5)
SPECS = st.sampled_from([*(ExposeSpec() for _ in range(6)), ExposeSpec(mcp=True), ExposeSpec(a2a=True)])
ROWS = st.lists(st.builds(ToolPolicy, name=NAMES, mutates=st.booleans(), expose=SPECS), max_size=5)


@given(ROWS)
def test_a_table_loads_only_if_every_row_is_closed_and_named_once(rows: list[ToolPolicy]) -> None:
    names = [row.name for row in rows]
    safe = not any(any(row.expose) for row in rows) and len(set(names)) == len(names)
    if safe:
        assert list(load(rows).items()) == [(row.name, row) for row in rows]
    else:
        refused = refusal(rows)
        assert refused.tool in names
        assert all(part in str(refused) for part in (repr(refused.tool), repr(refused.surface), refused.rule))


# --- standard library only ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PURE)
def test_they_import_the_standard_library_only(name: str) -> None:
    tree = ast.parse((SOURCE / name).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = ["exposure_policy." + (node.module or "")] if node.level else [node.module or ""]
        else:
            # Nothing is imported, run or read behind an import's back either.
            assert not (isinstance(node, ast.Name) and node.id in ("__import__", "eval", "exec", "open", "compile"))
            continue
        for module in modules:
            top = module.partition(".")[0]
            assert top in sys.stdlib_module_names or module == "exposure_policy.table", module
            assert top not in ("os", "sys", "importlib", "subprocess", "socket", "builtins"), module


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_importing_them_loads_the_standard_library_only() -> None:
    done = python(
        "import sys; before = set(sys.modules); import exposure_policy.table, exposure_policy.decide\n"
        "print(sorted(m for m in set(sys.modules) - before if m.partition('.')[0] not in sys.stdlib_module_names))"
    )
    assert done.stderr == ""
    assert done.stdout.strip() == "['exposure_policy', 'exposure_policy.decide', 'exposure_policy.table']"


CLOSED = "expose=ExposeSpec(mcp=False, a2a=False)"


@pytest.mark.parametrize(
    ("new", "told"),
    [
        ("expose=ExposeSpec(mcp=True, a2a=False)", "mcp"),
        ("expose=ExposeSpec(a2a=True)", "a2a"),
        ("expose=None", "ExposeSpec"),
    ],
)
def test_import_fails_with_a_widened_table(tmp_path: Path, new: str, told: str) -> None:
    package = tmp_path / "exposure_policy"
    package.mkdir()
    for name in ("__init__.py", "decide.py"):
        (package / name).write_text((SOURCE / name).read_text())
    table = (SOURCE / "table.py").read_text()
    assert CLOSED in table
    (package / "table.py").write_text(table.replace(CLOSED, new, 1))
    done = python(f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import exposure_policy")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert "ExposureRefused" in last
    assert "memory_" in last
    assert told in last

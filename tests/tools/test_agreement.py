"""The policy's table and the tools are held to each other, in both directions, before anything is served."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import exposure_policy
import memory_sidecar
from exposure_policy import TABLE, TOOLS, ToolPolicy
from memory_sidecar.tools.catalog import Catalog, CatalogError, check_files, check_tool
from memory_sidecar.tools.tool import Tool
from memory_sidecar.tools.write import TOOL as WRITE

ROW = TOOLS["memory_write"]


def test_the_catalog_has_the_tools_of_the_table_in_its_order() -> None:
    assert Catalog(enabled=True, read_only=False).names == tuple(row.name for row in TABLE)
    assert Catalog(enabled=True, read_only=True).names == tuple(row.name for row in TABLE if not row.mutates)


def test_a_file_without_a_row_stops_the_import() -> None:
    files = ["__init__", "catalog", "tool", "index", "frobnicate", *(row.removeprefix("memory_") for row in TOOLS)]
    with pytest.raises(CatalogError, match=r"tools/frobnicate\.py has no row .* add one for memory_frobnicate to"):
        check_files(files, TOOLS)
    check_files(files, [*TOOLS, "memory_frobnicate"])


def changed_schema(**changes: Any) -> Tool:
    return WRITE._replace(input_schema={**WRITE.input_schema, **changes})


def with_type(kind: object) -> Tool:
    properties = WRITE.input_schema["properties"]
    return changed_schema(properties={**properties, "content": {"type": kind}})


@pytest.mark.parametrize(
    ("row", "tool", "told"),
    [
        (ROW, WRITE._replace(name="memory_save"), "calls itself memory_save; give both the same name"),
        (ROW._replace(mutates=False), WRITE, "contradict each other"),
        (ROW, WRITE._replace(annotations={}), "contradict each other"),
        (ROW._replace(takes=("key",)), WRITE, "write there: takes=('key', 'description', 'content', 'overwrite')"),
        (
            ROW._replace(answers=()),
            WRITE,
            "answers=(('written', 'key', 'description?'), ('written', 'key', 'code', 'reason'))",
        ),
        (ROW, with_type("array"), "has the type 'array', which the catalog cannot check; use one of string, boolean"),
        (ROW, with_type(None), "has the type None"),
        (ROW, with_type(["string", "null"]), "has the type ['string', 'null']"),
        (ROW, changed_schema(required=["key", "about"]), "requires about, which its properties do not have"),
        (ROW, changed_schema(additionalProperties=True), "must be a closed object"),
        (ROW, changed_schema(type="array"), "must be a closed object"),
    ],
)
def test_a_tool_that_is_not_what_its_row_says_is_refused(row: ToolPolicy, tool: Tool, told: str) -> None:
    with pytest.raises(CatalogError) as refused:
        check_tool(row, tool)
    assert told in str(refused.value)
    assert "memory_write" in str(refused.value)


def test_what_may_be_missing_from_an_answer_is_marked_so() -> None:
    schema = {
        "type": "object",
        "properties": {
            "notes": {"type": "array", "items": {"properties": {"key": {}, "header": {}}, "required": ["key"]}},
            "more": {"type": "boolean"},
        },
        "required": ["notes"],
    }
    check_tool(ROW._replace(answers=(("notes.key", "notes.header?", "more?"),)), WRITE._replace(output_schema=schema))


@pytest.mark.parametrize(
    ("kind", "right", "wrong", "told"),
    [
        ("string", "a", 1, "text"),
        ("boolean", True, 1, "true or false"),
        ("integer", 3, True, "a whole number"),
        ("integer", 3, 3.5, "a whole number"),
        ("number", 3.5, False, "a number"),
        ("number", 3, "3", "a number"),
    ],
)
def test_each_known_type_is_checked(kind: str, right: object, wrong: object, told: str) -> None:
    from memory_sidecar.tools.catalog import _problem

    schema = {"properties": {"x": {"type": kind}}}
    assert _problem(schema, {"x": right}) is None
    assert _problem(schema, {"x": wrong}) == f"The argument x must be {told}."


# The real import, of a copy with one thing wrong


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for package in (exposure_policy, memory_sidecar):
        source = Path(package.__file__).parent
        for file in source.rglob("*.py"):
            target = tmp_path / source.name / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(file.read_text())
    return tmp_path


def importing(copy: Path) -> str:
    code = f"import sys; sys.path.insert(0, {str(copy)!r}); import memory_sidecar.tools.catalog as c; print(c.__file__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or done.stderr.strip().splitlines()[-1]


def test_an_import_says_what_to_do(copy: Path) -> None:
    tools = copy / "memory_sidecar" / "tools"
    assert importing(copy) == str(tools / "catalog.py")

    (tools / "frobnicate.py").write_text("TOOL = None\n")
    assert "CatalogError: tools/frobnicate.py has no row in the policy's table; add one" in importing(copy)
    (tools / "frobnicate.py").unlink()

    (tools / "delete.py").rename(copy / "delete.py")
    assert importing(copy).endswith(
        "memory_delete has a row in the policy's table and no TOOL in tools/delete.py; write it"
    )
    (tools / "delete.py").write_text("")
    assert "no TOOL in tools/delete.py" in importing(copy)

    # What a tool's file fails to import is told as that, not as a missing tool.
    (tools / "delete.py").write_text("import no_such_module\n")
    assert importing(copy) == "ModuleNotFoundError: No module named 'no_such_module'"

"""The tables of tools in the documents, made from the policy's table and from the tools themselves.

A table stands between `<!-- NAME -->` and `<!-- end -->`. Run as a program, this rewrites all of them:
`python -m tests.support.tables`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from exposure_policy import SURFACES, TABLE, ExposureRefused, Surface, check
from memory_sidecar.tools.catalog import Catalog

__all__ = ["DOCUMENTS", "rewrite"]

ROOT = Path(__file__).parents[2]
DOCUMENTS = tuple(ROOT / name for name in ("README.md", "SECURITY.md", "docs/protocol.md"))


def rewrite(document: str) -> str:
    """`document` with each of these tables as it is today."""
    for name, table in _TABLES.items():
        pattern = re.compile(rf"(?<=<!-- {name} -->\n).*?(?=<!-- end -->)", re.DOTALL)
        document = pattern.sub(lambda _, made=table: "".join(f"{line}\n" for line in made()), document)
    return document


def _exposure() -> Iterator[str]:
    yield "| tool | changes the store | harness | MCP | A2A |"
    yield "|---|---|---|---|---|"
    for row in TABLE:
        surfaces = " | ".join(_allowed(row.name, surface) for surface in SURFACES)
        yield f"| `{row.name}` | {'yes' if row.mutates else 'no'} | {surfaces} |"


def _allowed(tool: str, surface: Surface) -> str:
    try:
        check(tool, surface)
    except ExposureRefused:
        return "no"
    return "yes"


def _summary() -> Iterator[str]:
    yield "| tool | what the model is told |"
    yield "|---|---|"
    for tool in _definitions():
        yield f"| `{tool['name']}` | {tool['description'].partition('. ')[0]}. |"


def _protocol() -> Iterator[str]:
    yield "| tool | arguments | `structuredContent` |"
    yield "|---|---|---|"
    for tool in _definitions():
        arguments = ", ".join(_argument(*item) for item in tool["inputSchema"]["properties"].items())
        schema = tool["outputSchema"]
        answers = " or ".join(f"`{{{_fields(form)}}}`" for form in schema.get("oneOf", [schema]))
        yield f"| `{tool['name']}` | {arguments or 'none'} | {answers} |"


def _argument(name: str, schema: Mapping[str, Any]) -> str:
    return f"`{name}`" + (f" (default {str(schema['default']).lower()})" if "default" in schema else "")


def _fields(form: Mapping[str, Any]) -> str:
    return ",".join(
        f'"{name}"{"" if name in form["required"] else "?"}{_value(schema)}'
        for name, schema in form["properties"].items()
    )


def _value(schema: Mapping[str, Any]) -> str:
    """What is always the same, and what a list holds; other values speak for themselves."""
    if "const" in schema:
        return f":{str(schema['const']).lower()}"
    if schema.get("type") == "array":
        return f":[{{{_fields(schema['items'])}}},...]"
    return ""


def _definitions() -> list[dict[str, Any]]:
    return Catalog(enabled=True, read_only=False).definitions()


_TABLES: Mapping[str, Callable[[], Iterator[str]]] = {
    "exposure table": _exposure,
    "tools": _summary,
    "tools and answers": _protocol,
}

if __name__ == "__main__":
    for path in DOCUMENTS:
        path.write_text(rewrite(path.read_text()))

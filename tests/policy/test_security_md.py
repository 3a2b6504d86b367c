"""The exposure table in SECURITY.md is the one in the code."""

from pathlib import Path

from exposure_policy import TABLE, ExposureRefused, Surface, check

SECURITY = Path(__file__).parents[2] / "SECURITY.md"


def allowed(tool: str, surface: Surface) -> str:
    try:
        check(tool, surface)
    except ExposureRefused:
        return "no"
    return "yes"


def test_the_exposure_table_is_generated_from_the_policy() -> None:
    rows = ["| tool | changes the store | harness | MCP | A2A |", "|---|---|---|---|---|"]
    for row in TABLE:
        surfaces = " | ".join(allowed(row.name, surface) for surface in Surface)
        rows.append(f"| `{row.name}` | {'yes' if row.mutates else 'no'} | {surfaces} |")
    shown = SECURITY.read_text().split("<!-- exposure table -->\n")[1].split("<!-- end -->")[0]
    assert shown.splitlines() == rows
